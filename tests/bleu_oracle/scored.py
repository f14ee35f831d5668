"""Scores of small runs, made anew, and whether two are the same."""

from pathlib import Path

from anydepth.bleu_oracle.scoring import ScoreSettings, score_exits
from anydepth.bleu_oracle.table import ExitScores
from anydepth.bulk.crew import Muster
from anydepth.bulk.own_process import in_this_process
from anydepth.runs.run import Run

TRAIN, VALID = 40, 5
SMALL = ScoreSettings(metric="chrf", part=7)


def scored(
    run: Run,
    settings: ScoreSettings = SMALL,
    *,
    overwrite: bool = False,
    data: Path | None = None,
    muster: Muster = in_this_process,
) -> tuple[ExitScores, list[str]]:
    """The scores, and all that was said."""
    said: list[str] = []
    found = score_exits(run.folder, settings, data_folder=data, overwrite=overwrite, muster=muster, say=said.append)
    return found, said


def same(found: ExitScores, expected: ExitScores) -> bool:
    return found.recipe == expected.recipe and all(
        mine.pairs.equal(theirs.pairs) and mine.scores.equal(theirs.scores)
        for mine, theirs in zip(found.tables.values(), expected.tables.values(), strict=True)
    )
