"""What a study has measured, as numbers that can be subtracted: each figure with its bootstrap
samples over the same sentences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Real

from anydepth.evaluation.significance import (
    INTERVAL,
    SAMPLES,
    SEED,
    bleu_samples,
    corpus_bleu,
    resamples,
    two_sided_p_value,
)
from anydepth.experiments.measuring import load_statistics
from anydepth.experiments.plan import Places, read_record
from anydepth.experiments.records import RunRecord

Samples = Float[np.ndarray, " sample"]


@dataclass(frozen=True)
class Figure:
    """A figure and its bootstrap samples. Differences and means of figures on one test set are
    figures."""

    value: float
    samples: Samples

    def __sub__(self, other: "Figure") -> "Figure":
        return Figure(self.value - other.value, self.samples - other.samples)

    @property
    def interval(self) -> tuple[float, float]:
        """From where to where 95% of the samples lie."""
        low, high = np.percentile(self.samples, INTERVAL).tolist()
        return low, high

    @property
    def p_value(self) -> float:
        """Of the figure being 0."""
        return two_sided_p_value(self.samples)


def mean(figures: Sequence[Figure]) -> Figure:
    """The mean of several figures."""
    assert figures
    return Figure(float(np.mean([each.value for each in figures])), np.mean([each.samples for each in figures], axis=0))


@dataclass(frozen=True)
class MeasuredPoint:
    """A measured policy on the plane of the trade-off."""

    average_exit: float
    bleu: Figure


def interpolated(curve: Sequence[MeasuredPoint], average_exit: float) -> Figure | None:
    """The BLEU of a curve at an average exit between two of its points, on the straight line; None
    outside of it."""
    ordered = sorted(curve, key=lambda point: point.average_exit)
    for left, right in pairwise(ordered):
        if left.average_exit <= average_exit <= right.average_exit and left.average_exit < right.average_exit:
            share = (average_exit - left.average_exit) / (right.average_exit - left.average_exit)
            value = (1 - share) * left.bleu.value + share * right.bleu.value
            return Figure(value, (1 - share) * left.bleu.samples + share * right.bleu.samples)
    return next((point.bleu for point in ordered if point.average_exit == average_exit), None)


def curve_difference(first: Sequence[MeasuredPoint], second: Sequence[MeasuredPoint]) -> Figure | None:
    """How far the first curve lies above the second: the mean over the points of each that lie
    within the other's range."""
    above = [point.bleu - other for point in first if (other := interpolated(second, point.average_exit)) is not None]
    below = [other - point.bleu for point in second if (other := interpolated(first, point.average_exit)) is not None]
    return mean(above + below) if above or below else None


def common_depths(first: Sequence[MeasuredPoint], second: Sequence[MeasuredPoint]) -> list[float]:
    """The average exits at which two curves are compared."""
    return [
        point.average_exit
        for one, other in ((first, second), (second, first))
        for point in one
        if interpolated(other, point.average_exit) is not None
    ]


class Evidence:
    """The records and the statistics of a study's runs, each read once."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self._statistics: dict[str, dict[str, Int[np.ndarray, "sentence 12"]]] = {}
        self._figures: dict[tuple[str, str, str], Figure] = {}

    @cached_property
    def records(self) -> dict[str, dict[str, Any]]:
        """The record of each run that was measured."""
        files = sorted((self.places.records / "runs").glob("*.json"))
        return {record["run"]: record for record in (read_record(file, RunRecord) for file in files)}

    def policies(self, run: str, split: str, *kinds: str) -> list[str]:
        """The policies of these kinds that were measured on a run."""
        rows = self.records.get(run, {}).get("measurements", [])
        return [row["policy"] for row in rows if row["split"] == split and row["kind"] in kinds]

    def bleu(self, run: str, split: str, policy: str) -> Figure | None:
        """The BLEU of a policy; None where it was not measured."""
        return self._figure(run, split, policy, "bleu", bleu_figure)

    def average_exit(self, run: str, split: str, policy: str) -> Figure | None:
        """The average exit of a policy; None where it was not measured."""
        return self._figure(run, split, policy, "exit", exit_figure)

    def curve(self, runs: Sequence[str], split: str, *kinds: str) -> list[MeasuredPoint]:
        """The points of the policies of these kinds of all the runs."""
        found = []
        for run in runs:
            for policy in self.policies(run, split, *kinds):
                bleu, depth = self.bleu(run, split, policy), self.average_exit(run, split, policy)
                if bleu is not None and depth is not None:
                    found.append(MeasuredPoint(depth.value, bleu))
        return found

    def _figure(
        self, run: str, split: str, policy: str, measure: str, make: Callable[[Int[np.ndarray, "sentence 12"]], Figure]
    ) -> Figure | None:
        if run not in self._statistics:
            self._statistics[run] = load_statistics(self.places, run)
        statistics = self._statistics[run].get(f"{split}/{policy}")
        if statistics is None or run not in self.records:
            return None
        key = (run, f"{split}/{policy}", measure)
        if key not in self._figures:
            self._figures[key] = make(statistics)
        return self._figures[key]


def bleu_figure(statistics: Int[np.ndarray, "sentence 12"]) -> Figure:
    """The BLEU of some sentences."""
    counts = statistics[:, :10]
    return Figure(corpus_bleu(counts), bleu_samples(counts))


def exit_figure(statistics: Int[np.ndarray, "sentence 12"]) -> Figure:
    """The average exit of some sentences' tokens."""
    return ratio_figure(statistics[:, 11], statistics[:, 10])


def ratio_figure(above: Real[np.ndarray, " sentence"], below: Real[np.ndarray, " sentence"]) -> Figure:
    """The quotient of two sums over sentences."""
    drawn = [
        above[rows].sum() / max(below[rows].sum(), 1) for rows in resamples(len(above), samples=SAMPLES, seed=SEED)
    ]
    return Figure(float(above.sum() / max(below.sum(), 1)), np.array(drawn))
