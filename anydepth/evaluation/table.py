"""Evaluations as text: a table for people, JSON for machines."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from anydepth.evaluation.evaluate import Evaluation


def evaluation_table(evaluation: Evaluation) -> str:
    """One row a policy, then the signatures of the scores and the recipe."""
    head = ["policy", "BLEU", "tokenized", "chrF", "AE", "tokens/s"]
    rows = [
        [
            result.policy,
            f"{result.scores.bleu.value:.2f}",
            f"{result.scores.tokenized_bleu.value:.2f}",
            f"{result.scores.chrf.value:.2f}",
            f"{result.average_exit:.2f}",
            f"{result.tokens_per_second:,.0f}",
        ]
        for result in evaluation.results
    ]
    first, recipe = evaluation.results[0], evaluation.recipe
    notes = [
        f"BLEU       {first.scores.bleu.signature}",
        f"tokenized  {first.scores.tokenized_bleu.signature}",
        f"chrF       {first.scores.chrf.signature}",
        f"recipe     run {recipe.run} | weights {recipe.weights} | test {recipe.test} ({recipe.languages}, {first.sentences:,} sentences)"
        f" | beam {first.beam} | length penalty {first.length_penalty:g}"
        f" | anydepth {recipe.anydepth} | torch {recipe.torch}, {recipe.threads} threads",
    ]
    return "\n".join([*aligned_table([head, *rows]), *notes])


def evaluation_json(evaluation: Evaluation) -> str:
    """Everything that was measured, as one JSON object."""
    return json.dumps(asdict(evaluation), indent=1, ensure_ascii=False)


def aligned_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with the columns side by side: the first to the left, figures to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
