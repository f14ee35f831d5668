"""Evaluations as text: a table for people, JSON for machines."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

from anydepth.evaluation.evaluate import Evaluation
from anydepth.evaluation.measure import Measurement
from anydepth.runs.operating_points import OperatingPoint, PointSet
from anydepth.vocabulary.names import FULL


def evaluation_table(evaluation: Evaluation) -> str:
    """One row per policy, then the signatures of the scores and the recipe."""
    results = evaluation.results
    columns: list[tuple[str, Callable[[Measurement], str]]] = [
        ("policy", lambda result: result.policy),
        ("BLEU", lambda result: f"{result.scores.bleu.value:.2f}"),
        ("tokenized", lambda result: f"{result.scores.tokenized_bleu.value:.2f}"),
        ("chrF", lambda result: f"{result.scores.chrf.value:.2f}"),
        ("AE", lambda result: f"{result.average_exit:.2f}"),
        ("MFLOPs/token", lambda result: f"{result.mflops_per_token:.3f}"),
        ("% of full depth", lambda result: f"{100 * result.flops_share:.1f}"),
        ("tokens/s", lambda result: f"{result.tokens_per_second:,.0f}"),
    ]
    if any(result.executed_mflops_per_token is not None for result in results):
        columns.append(("executed MFLOPs/token", lambda result: f"{result.executed_mflops_per_token or 0:.3f}"))
    if any(result.comparison is not None for result in results):
        columns.append((f"BLEU against {evaluation.recipe.against}", describe_comparison))
    rows = [[name for name, _ in columns], *([tell(result) for _, tell in columns] for result in results)]
    first, recipe = evaluation.results[0], evaluation.recipe
    vocabularies = ", then ".join(dict.fromkeys(map(describe_vocabulary, results)))
    notes = [
        f"BLEU       {first.scores.bleu.signature}",
        f"tokenized  {first.scores.tokenized_bleu.signature}",
        f"chrF       {first.scores.chrf.signature}",
        f"recipe     run {recipe.run} | weights {recipe.weights} | test {recipe.test} ({recipe.languages}, "
        f"{first.sentences:,} sentences)"
        f" | beam {first.beam} | length penalty {first.length_penalty:g} | vocabulary {vocabularies}"
        f"{f' | wish {recipe.wish}' if recipe.wish else ''} | anydepth {recipe.anydepth} | torch {recipe.torch}"
        f" | engine {recipe.engine}, {recipe.threads} threads",
    ]
    if (comparison := first.comparison) is not None:
        drawn = f"{comparison.samples:,} samples, seed {comparison.seed}"
        notes.insert(3, f"against    paired bootstrap of {drawn}: difference, 95% interval, p-value")
    return "\n".join([*aligned_table(rows), *notes])


def describe_vocabulary(result: Measurement) -> str:
    """The vocabulary setting, with the mean number of words where it is a selection."""
    return FULL if result.vocabulary == FULL else f"{result.vocabulary} ({result.words:,.0f} words per sentence)"


def describe_comparison(result: Measurement) -> str:
    """The difference in BLEU with its 95% interval and p-value by paired bootstrap."""
    if (comparison := result.comparison) is None:
        return ""
    return f"{comparison.difference:+.2f} [{comparison.low:+.2f}, {comparison.high:+.2f}] p={comparison.p_value:.3f}"


def evaluation_json(evaluation: Evaluation) -> str:
    """Everything that was measured, as one JSON object."""
    return json.dumps(asdict(evaluation), indent=1, ensure_ascii=False)


def points_table(found: PointSet) -> str:
    """One row for each operating point, then the recipe of the tuning."""
    columns: list[tuple[str, Callable[[OperatingPoint], str]]] = [
        ("policy", lambda point: point.policy),
        ("BLEU", lambda point: f"{point.bleu:.2f}"),
        ("AE", lambda point: f"{point.average_exit:.2f}"),
        ("% of the FLOPs", lambda point: f"{100 * point.flops_share:.1f}"),
    ]
    if found.clock is not None:
        columns.append(("% of the time", lambda point: f"{100 * (point.time_share or 0):.1f}"))
    if found.vocabulary != FULL:
        columns.append(("vocabulary", lambda point: point.vocabulary))
    rows = [[name for name, _ in columns], *([tell(point) for _, tell in columns] for point in found.points)]
    notes = [
        f"full depth  BLEU {found.full_depth_bleu:.2f}",
        f"recipe      {found.method} of {found.candidates:,} candidates for {found.objective}, seed {found.seed}"
        f" | valid {found.valid} ({found.sentences:,} sentences) | beam {found.beam} | length penalty "
        f"{found.length_penalty:g}",
    ]
    if found.judge == "full-depth":
        notes.append("judge       BLEU is against what full depth makes of the same sentences, not against references")
    if found.clock is not None:
        notes.append(
            f"clock       {found.clock.place.describe()} | {found.clock.sentences:,} sentences, "
            f"{found.clock.rounds} rounds with full depth in each, medians"
        )
    return "\n".join([*aligned_table(rows), *notes])


def points_json(found: PointSet) -> str:
    """The operating points as one JSON object."""
    return json.dumps(asdict(found), indent=1, ensure_ascii=False)


def aligned_table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines with the columns side by side: the first to the left, figures to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
