"""Every training sentence translated at every exit and scored one by one: what the BLEU oracle
learns from."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int

from anydepth.bleu_oracle.score_work import ScorePart, ScoreRows, check_scorable, score_job
from anydepth.bleu_oracle.store import ScoreStore
from anydepth.bleu_oracle.table import METRICS, SPLITS, ExitScores, ScoreTable
from anydepth.bulk.crew import Crew, Muster
from anydepth.bulk.dispatch import RETRIES, Dispatch
from anydepth.bulk.own_process import in_this_process
from anydepth.errors import AnydepthError, UsageError
from anydepth.limits import usable_cores
from anydepth.messages.say import Say
from anydepth.messages.times import describe_seconds
from anydepth.runs.run import Run, changing, usable_data
from anydepth.search.decoding import GREEDY, DecodingOptions
from anydepth.text.prepared import PreparedData

SEED = 1  # of the sample; a larger one contains a smaller one
MOST_PARTS = 1000
FEW_PARTS = 2  # for which it does not pay to start processes
SMALLEST_PART = 16  # pairs; fewer are not searched much faster
PARTS_PER_CORE = 4  # so that no core waits long for the last one


@dataclass(frozen=True, kw_only=True)
class ScoreSettings:
    """How exits are scored: the metric, the search, how many pairs of each split (all if None), how
    many are scored at a time at the most, and how often these are tried."""

    metric: str = "bleu"
    decoding: DecodingOptions = GREEDY
    sentences: int | None = None
    part: int = 256
    retries: int = RETRIES

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise UsageError(f"--metric {self.metric} is unknown; use {' or '.join(METRICS)}")
        if self.sentences is not None and self.sentences < 1:
            raise UsageError(
                f"--sentences {self.sentences} leaves nothing to score; ask for 1 or more, or leave it out for all"
            )
        if self.retries < 1:
            raise UsageError(f"--retries {self.retries} must be 1 or more")


def score_exits(
    folder: Path,
    settings: ScoreSettings,
    *,
    data_folder: Path | None = None,
    overwrite: bool = False,
    muster: Muster = in_this_process,
    say: Say,
) -> ExitScores:
    """The scores of the run's exits on its training and validation pairs, which are left in its
    folder (section 3.1's future work).

    `muster` says where sentences are translated and scored: in this process, which is the default,
    `bulk/local_crew.py: on_this_machine` or `bulk/ray_crew.py: on_ray`. That changes no score of the
    native engine, and those of the plain step up to the rounding of float32. What is there already is
    not made again: a call after a kill continues where the other was. The validation pairs, no more of
    them than of the training pairs, are for the exit loss that training is validated by.
    """
    with changing(folder):
        return _scored(Run(folder), settings, data_folder, overwrite=overwrite, muster=muster, say=say)


def _scored(
    run: Run, settings: ScoreSettings, data_folder: Path | None, *, overwrite: bool, muster: Muster, say: Say
) -> ExitScores:
    """`score_exits`, while no other process may write to the run."""
    check_scorable(run)
    data, blocks = usable_data(run, data_folder, use="score-exits"), run.config.model.blocks
    job = score_job(run, data, metric=settings.metric, decoding=settings.decoding)
    store = ScoreStore(run, job.recipe, blocks)
    store.load_earlier(overwrite=overwrite, say=say)
    missing = {split: missing_pairs(data, split, store.tables[split], settings.sentences) for split in SPLITS}
    if not any(len(numbers) for numbers in missing.values()):
        if store.parts():
            store.finish()
        say(f"{run.scores_file} has the scores of {describe_pairs(store)} already; there is nothing to do")
        return store.scores
    if any(len(table) for table in store.tables.values()):
        say(f"{describe_pairs(store)} are scored already; going on with the rest")
    started = time.monotonic()
    size = part_size(sum(len(numbers) for numbers in missing.values()), settings.part)
    with muster(job, sum(-(-len(numbers) // size) for numbers in missing.values())) as crew:
        make_scores(crew, missing, size, settings, store, say)
    scores = store.finish()
    spent = describe_seconds(time.monotonic() - started)
    say(f"{run.scores_file} has the {settings.metric} of {describe_pairs(store)} at {blocks} exits; it took {spent}")
    return scores


def make_scores(
    crew: Crew[ScorePart, ScoreRows],
    missing: dict[str, Int[np.ndarray, " pair"]],
    size: int,
    settings: ScoreSettings,
    store: ScoreStore,
    say: Say,
) -> None:
    """Has the crew score the missing pairs in parts of so many; each is kept as soon as it is there."""
    total = sum(len(numbers) for numbers in missing.values())

    def keep(part: ScorePart, rows: ScoreRows) -> None:
        store.add(part.split, part.table(rows))

    parts, what = parts_of(missing, size), f"pairs scored at {store.blocks} exits"
    dispatch = Dispatch(parts, crew, keep, total=total, what=what, retries=settings.retries, say=say)
    dispatch.go()
    if dispatch.failed:
        kept = f"what is scored is kept in {store.parts_folder}, and " if store.parts() else ""
        raise AnydepthError(f"{failures(dispatch.failed)}; {kept}the same command goes on with what is missing")


def failures(failed: dict[str, str]) -> str:
    """Which part could not be scored and why, and how many in all."""
    place, reason = next(iter(failed.items()))
    count = (
        "1 part could not be scored" if len(failed) == 1 else f"{len(failed):,} parts could not be scored, the first"
    )
    return f"{count}: {place}, because {reason}"


def part_size(total: int, most: int) -> int:
    """How many of `total` pairs make a part: `most`, fewer where the cores of this machine would have
    less than some parts each, more where there would be too many parts."""
    few = max(SMALLEST_PART, total // (PARTS_PER_CORE * usable_cores()))
    return max(min(most, few), -(-total // MOST_PARTS))


def parts_of(missing: dict[str, Int[np.ndarray, " pair"]], size: int) -> Iterator[ScorePart]:
    """The missing pairs in parts of so many."""
    for split, numbers in missing.items():
        for start in range(0, len(numbers), size):
            yield ScorePart(split, tuple(numbers[start : start + size].tolist()))


def missing_pairs(data: PreparedData, split: str, known: ScoreTable, sentences: int | None) -> Int[np.ndarray, " pair"]:
    """The numbers of the pairs of a split that are to be scored and are not yet, ascending; a pair
    without source cannot be."""
    pairs = data.pairs(split)
    fit = np.flatnonzero(pairs.lengths(0, len(pairs))[0] > 0)
    if sentences is not None and sentences < len(fit):
        fit = np.sort(np.random.Generator(np.random.PCG64(SEED)).permutation(fit)[:sentences])
    return np.setdiff1d(fit, known.pairs.numpy(), assume_unique=True)


def describe_pairs(store: ScoreStore) -> str:
    """How many pairs of each split have scores."""
    train, valid = (len(store.tables[split]) for split in SPLITS)
    return f"{train:,} training and {valid:,} validation pairs"
