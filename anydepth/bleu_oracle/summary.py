"""What the scores of exits say: how good each exit is, how good a perfect choice would be, and
where the oracle sends sentences."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch

from anydepth.bleu_oracle.oracle import score_oracle
from anydepth.bleu_oracle.table import ExitScores

PENALTIES = (0.0, 1.0, 5.0, 10.0, 20.0)  # points per block


@dataclass(frozen=True)
class OracleChoice:
    """What the oracle of one exit penalty does on the training pairs: its mean score and exit, and
    the sentences at each exit."""

    exit_penalty: float
    score: float
    average_exit: float
    exit_counts: list[int]


@dataclass(frozen=True)
class ScoreSummary:
    """The mean score of each exit, and what the oracle makes of it; a sentence counts once."""

    metric: str
    signature: str
    beam: int
    sentences: int
    exit_scores: list[float]
    choices: list[OracleChoice]


def summarise(scores: ExitScores, penalties: Sequence[float] = PENALTIES) -> ScoreSummary:
    """The figures of the training pairs."""
    table = scores.train.scores.t()  # (block, pair)
    choices = []
    for penalty in penalties:
        exits = score_oracle(table, exit_penalty=penalty)
        chosen = table.gather(0, exits[None] - 1)[0]
        counts = torch.bincount(exits - 1, minlength=len(table)).tolist()
        choices.append(OracleChoice(penalty, chosen.mean().item(), exits.double().mean().item(), counts))
    recipe = scores.recipe
    return ScoreSummary(
        recipe.metric, recipe.signature, recipe.beam, table.shape[1], table.mean(dim=1).tolist(), choices
    )


def summary_table(summary: ScoreSummary) -> str:
    """The figures as lines for people."""
    exits = [f"exit {n}" for n in range(1, len(summary.exit_scores) + 1)]
    wide = max(8, *(len(name) for name in exits))
    head = f"{'':<14}{summary.metric:>8}{'AE':>7}  " + "".join(f"{name:>{wide}}" for name in exits)
    fixed = f"{'every exit':<14}{'':>8}{'':>7}  " + "".join(f"{score:>{wide}.2f}" for score in summary.exit_scores)
    rows = [
        f"{f'lambda {choice.exit_penalty:g}':<14}{choice.score:>8.2f}{choice.average_exit:>7.2f}  "
        + "".join(f"{f'{100 * count / summary.sentences:.1f}%':>{wide}}" for count in choice.exit_counts)
        for choice in summary.choices
    ]
    best = max(summary.exit_scores)
    gain = f"the best exit for each sentence is worth {summary.choices[0].score - best:+.2f} points over exit "
    gain += f"{summary.exit_scores.index(best) + 1} for all"
    recipe = (
        f"mean sentence {summary.metric} of {summary.sentences:,} training pairs, beam {summary.beam}, "
        f"{summary.signature}"
    )
    return "\n".join([head, fixed, *rows, gain, recipe])


def summary_json(summary: ScoreSummary) -> str:
    """The figures as one JSON object."""
    return json.dumps(asdict(summary), indent=1)
