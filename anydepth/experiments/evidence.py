"""What a study has measured, as estimates that can be subtracted: each has its bootstrap samples
over the same sentences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

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
from anydepth.experiments.records import MeasurementKind, RunRecord, Split, read_record
from anydepth.experiments.study_folder import StudyFolder

Samples = Float[np.ndarray, " sample"]


@dataclass(frozen=True)
class Estimate:
    """A value and its bootstrap samples. Differences and means of estimates on one test set are
    estimates."""

    value: float
    samples: Samples

    def __sub__(self, other: "Estimate") -> "Estimate":
        return Estimate(self.value - other.value, self.samples - other.samples)

    @property
    def interval(self) -> tuple[float, float]:
        """From where to where 95% of the samples lie."""
        low, high = np.percentile(self.samples, INTERVAL).tolist()
        return low, high

    @property
    def p_value(self) -> float:
        """Of the true value being 0."""
        return two_sided_p_value(self.samples)


def mean(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of several estimates."""
    assert estimates
    return Estimate(
        float(np.mean([each.value for each in estimates])), np.mean([each.samples for each in estimates], axis=0)
    )


@dataclass(frozen=True)
class MeasuredPoint:
    """A measured policy on the plane of the trade-off."""

    average_exit: float
    bleu: Estimate


def interpolated(curve: Sequence[MeasuredPoint], average_exit: float) -> Estimate | None:
    """The BLEU of a curve at an average exit between two of its points, on the straight line; None
    outside of it."""
    ordered = sorted(curve, key=lambda point: point.average_exit)
    for left, right in pairwise(ordered):
        if left.average_exit <= average_exit <= right.average_exit and left.average_exit < right.average_exit:
            share = (average_exit - left.average_exit) / (right.average_exit - left.average_exit)
            value = (1 - share) * left.bleu.value + share * right.bleu.value
            return Estimate(value, (1 - share) * left.bleu.samples + share * right.bleu.samples)
    return next((point.bleu for point in ordered if point.average_exit == average_exit), None)


def curve_difference(first: Sequence[MeasuredPoint], second: Sequence[MeasuredPoint]) -> Estimate | None:
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

    def __init__(self, folder: StudyFolder) -> None:
        self.folder = folder
        self._statistics: dict[str, dict[str, Int[np.ndarray, "sentence 12"]]] = {}
        self._estimates: dict[tuple[str, str, str], Estimate] = {}

    @cached_property
    def records(self) -> dict[str, RunRecord]:
        """The record of each run that was measured."""
        records = [read_record(file, RunRecord) for file in self.folder.run_records()]
        return {record.run: record for record in records}

    def policies(self, run: str, split: Split, *kinds: MeasurementKind) -> list[str]:
        """The policies of these kinds that were measured on a run."""
        rows = self.records[run].measurements if run in self.records else []
        return [row.policy for row in rows if row.split == split and row.kind in kinds]

    def bleu(self, run: str, split: Split, policy: str) -> Estimate | None:
        """The BLEU of a policy; None where it was not measured."""
        return self._estimate(run, split, policy, "bleu", bleu_estimate)

    def average_exit(self, run: str, split: Split, policy: str) -> Estimate | None:
        """The average exit of a policy; None where it was not measured."""
        return self._estimate(run, split, policy, "exit", exit_estimate)

    def curve(self, runs: Sequence[str], split: Split, *kinds: MeasurementKind) -> list[MeasuredPoint]:
        """The points of the policies of these kinds of all the runs."""
        found = []
        for run in runs:
            for policy in self.policies(run, split, *kinds):
                bleu, depth = self.bleu(run, split, policy), self.average_exit(run, split, policy)
                if bleu is not None and depth is not None:
                    found.append(MeasuredPoint(depth.value, bleu))
        return found

    def _estimate(
        self,
        run: str,
        split: Split,
        policy: str,
        measure: str,
        make: Callable[[Int[np.ndarray, "sentence 12"]], Estimate],
    ) -> Estimate | None:
        if run not in self._statistics:
            self._statistics[run] = load_statistics(self.folder, run)
        statistics = self._statistics[run].get(f"{split}/{policy}")
        if statistics is None or run not in self.records:
            return None
        key = (run, f"{split}/{policy}", measure)
        if key not in self._estimates:
            self._estimates[key] = make(statistics)
        return self._estimates[key]


def bleu_estimate(statistics: Int[np.ndarray, "sentence 12"]) -> Estimate:
    """The BLEU of some sentences."""
    counts = statistics[:, :10]
    return Estimate(corpus_bleu(counts), bleu_samples(counts))


def exit_estimate(statistics: Int[np.ndarray, "sentence 12"]) -> Estimate:
    """The average exit of some sentences' tokens."""
    return ratio_estimate(statistics[:, 11], statistics[:, 10])


def ratio_estimate(above: Real[np.ndarray, " sentence"], below: Real[np.ndarray, " sentence"]) -> Estimate:
    """The quotient of two sums over sentences."""
    drawn = [
        above[rows].sum() / max(below[rows].sum(), 1) for rows in resamples(len(above), samples=SAMPLES, seed=SEED)
    ]
    return Estimate(float(above.sum() / max(below.sum(), 1)), np.array(drawn))
