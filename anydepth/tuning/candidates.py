"""Candidates for thresholds: drawn, changed, and chosen by what replay expects of them."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TypeAlias

import numpy as np
from jaxtyping import Float, Int

from anydepth.exits.thresholds import is_deciding
from anydepth.tuning.replay import Replayed, ReplayRecord, replay

DIGITS = 5  # thresholds are rounded before they are measured, so that their names tell them exactly


CostOf: TypeAlias = Callable[[Replayed], Float[np.ndarray, " candidate"]]


def search_candidates(
    own: ReplayRecord, given: ReplayRecord, cost_of: CostOf, *, count: int, segment: float, seed: int
) -> tuple[Float[np.ndarray, "candidate decision"], Replayed, Replayed]:
    """`count` candidates with what they take on the model's own outputs and their worth on the
    references.

    A quarter is drawn from U(0, 1), a quarter from the quantiles of each exit's signal (with exits
    that are always or never taken among them), a quarter decides at a few exits and leaves at the
    latest at one of those above, and the last quarter are changes of the best in each segment of
    the cost.
    """
    generator = np.random.default_rng(seed)
    quarter = -(-count // 4)
    decisions = len(own.signals)
    levels = np.sort(own.signals, axis=1)
    drawn = [
        with_few_decisions(levels, quarter, generator),
        from_quantiles(levels, generator.random((quarter, decisions)), generator),
        generator.random((quarter, decisions)),
    ]
    first = named_thresholds(np.concatenate(drawn)[:count])
    costs, worth = replay(own, first), replay(given, first)
    left = count - len(first)
    if left == 0:
        return first, costs, worth
    parents = first[promising(cost_of(costs), worth.log_likelihoods, segment=segment, count=8)]
    changed = changed_thresholds(levels, parents[generator.integers(len(parents), size=left)], generator)
    more = named_thresholds(changed)
    later_costs, later_worth = replay(own, more), replay(given, more)
    return np.concatenate([first, more]), _joined(costs, later_costs), _joined(worth, later_worth)


def named_thresholds(drawn: Float[np.ndarray, "candidate decision"]) -> Float[np.ndarray, "candidate decision"]:
    """The thresholds as they are measured: rounded, and 0 from the first 0 on, since no token is
    left there."""
    rounded = np.round(drawn, DIGITS)
    return np.where(np.logical_and.accumulate(rounded > 0, axis=1), rounded, 0.0)


def decision_patterns(candidates: Float[np.ndarray, "candidate decision"]) -> Int[np.ndarray, " candidate"]:
    """A number for the exits at which a candidate decides and the one at which all leave: the same
    for those that differ in the height of thresholds alone."""
    kinds = np.where(is_deciding(candidates), 2, np.logical_and.accumulate(candidates > 0, axis=1))
    patterns: Int[np.ndarray, " candidate"] = np.unique(kinds, axis=0, return_inverse=True)[1].reshape(-1)
    return patterns


def with_few_decisions(
    levels: Float[np.ndarray, "decision position"], count: int, generator: np.random.Generator
) -> Float[np.ndarray, "candidate decision"]:
    """Thresholds that decide at one exit or a few: 1 at the exits below and between them, where
    nothing is looked at, and 0 from the one on at which every token leaves at the latest.

    One decision is as frequent as two, and both together as all higher numbers. The latest exit is
    the last block for half of the candidates, else any above the last decision.
    """
    decisions = len(levels)
    if not decisions:
        return np.empty((count, 0))
    numbers = np.arange(1, decisions + 1)
    odds = np.where(numbers <= 2, 1.0, 2 / max(decisions - 2, 1))
    wanted = generator.choice(numbers, size=(count, 1), p=odds / odds.sum())
    ranks = generator.random((count, decisions)).argsort(axis=1).argsort(axis=1)
    decides = ranks < wanted
    last = decisions - decides[:, ::-1].argmax(axis=1, keepdims=True)  # the highest exit that decides
    above = last + 1 + (generator.random((count, 1)) * (decisions + 1 - last)).astype(np.intp)  # last + 1 .. N
    latest = np.where(generator.random((count, 1)) < 0.5, decisions + 1, above)
    places = np.minimum((generator.random((count, decisions)) * levels.shape[1]).astype(np.intp), levels.shape[1] - 1)
    quantiles = np.take_along_axis(levels, places.T, axis=1).T.astype(np.float64).clip(0, 1)
    thresholds: Float[np.ndarray, "candidate decision"] = np.where(
        numbers >= latest, 0.0, np.where(decides, quantiles, 1.0)
    )
    return thresholds


def from_quantiles(
    levels: Float[np.ndarray, "decision position"],
    shares: Float[np.ndarray, "candidate decision"],
    generator: np.random.Generator,
) -> Float[np.ndarray, "candidate decision"]:
    """Thresholds that `shares` of the positions stay below; some are 0 (always stop) or 1
    (never)."""
    places = np.minimum((shares * levels.shape[1]).astype(np.intp), levels.shape[1] - 1)
    thresholds = np.take_along_axis(levels, places.T, axis=1).T.astype(np.float64)
    dice = generator.random(shares.shape)
    return np.where(dice < 0.05, 0.0, np.where(dice > 0.85, 1.0, thresholds)).clip(0, 1)


def changed_thresholds(
    levels: Float[np.ndarray, "decision position"],
    parents: Float[np.ndarray, "candidate decision"],
    generator: np.random.Generator,
) -> Float[np.ndarray, "candidate decision"]:
    """`parents` with half of the thresholds moved by a few percent of the positions, or to 0 or 1.

    Thresholds of 0 and 1 mostly stay: what they save is that nothing is looked at.
    """
    shares = (
        np.stack([np.searchsorted(level, parents[:, n]) for n, level in enumerate(levels)], axis=1) / levels.shape[1]
    )
    moved = (shares + generator.normal(scale=0.08, size=shares.shape)).clip(0, 1)
    is_end = (parents <= 0) | (parents >= 1)
    is_kept = generator.random(shares.shape) < np.where(is_end, 0.9, 0.5)
    return np.where(is_kept, parents, from_quantiles(levels, moved, generator))


def promising(
    costs: Float[np.ndarray, " candidate"],
    worth: Float[np.ndarray, " candidate"],
    *,
    segment: float,
    count: int,
    patterns: Int[np.ndarray, " candidate"] | None = None,
) -> Int[np.ndarray, " chosen"]:
    """The `count` candidates of the highest worth in each segment of the cost, best first within a
    segment.

    Of candidates that cost and are worth the same, which do the same everywhere, only the first is
    looked at; with `patterns`, also only the best of each pattern in a segment.
    """
    if not len(costs):
        return np.empty(0, dtype=np.int64)
    different = np.sort(np.unique(np.stack([costs, worth]), axis=1, return_index=True)[1])
    numbers = segment_numbers(costs, segment)[different]
    order = np.lexsort((-worth[different], numbers))
    if patterns is not None:
        pairs = np.stack([numbers[order], patterns[different][order]])
        order = order[np.sort(np.unique(pairs, axis=1, return_index=True)[1])]
    ranks = np.arange(len(order)) - np.searchsorted(numbers[order], numbers[order])
    chosen: Int[np.ndarray, " chosen"] = different[order[ranks < count]]
    return chosen


def for_missed_segments(
    costs: Float[np.ndarray, " candidate"],
    worth: Float[np.ndarray, " candidate"],
    chosen: Int[np.ndarray, " chosen"],
    decoded: Float[np.ndarray, " chosen"],
    *,
    segment: float,
    least: float = 1.0,
) -> Int[np.ndarray, " more"]:
    """A further candidate, where there is one, for every segment whose `chosen` came out in another
    when their costs were `decoded`.

    Decoding costs more or less than replay by about the same factor for all candidates, which the
    decoded ones tell; it is the factor of what lies above the `least` possible cost.
    """
    missed = np.setdiff1d(segment_numbers(costs[chosen], segment), segment_numbers(decoded, segment))
    is_done = (costs[:, None] == costs[chosen]) & (worth[:, None] == worth[chosen])  # or does the same as one
    left = np.flatnonzero(~is_done.any(axis=1))
    is_telling = costs[chosen] > least  # what always stops at once tells nothing of the factor
    if not len(missed) or not len(left) or not is_telling.any():
        return left[:0]
    factor = float(np.median((decoded[is_telling] - least) / (costs[chosen][is_telling] - least)))
    expected = least + (costs - least) * factor
    best = left[promising(expected[left], worth[left], segment=segment, count=1)]
    more: Int[np.ndarray, " more"] = best[np.isin(segment_numbers(expected[best], segment), missed)]
    return more


def segment_numbers(costs: Float[np.ndarray, " candidate"], width: float) -> Int[np.ndarray, " candidate"]:
    """The segment of each cost: a segment holds its upper edge, so that an average exit of "at most
    2" is the end of one.

    Edges are counted from 1, the first exit or full depth's whole cost.
    """
    numbers: Int[np.ndarray, " candidate"] = np.ceil(np.round((costs - 1) / width, 9)).astype(np.int64)
    return numbers


def rank_correlation(first: Sequence[float], second: Sequence[float] | Float[np.ndarray, " candidate"]) -> float:
    """Spearman's correlation of the ranks, ties sharing theirs; not a number where one side does
    not vary."""
    ranks = [_ranks(np.asarray(values, dtype=np.float64)) for values in (first, second)]
    if len(first) < 2 or any(np.ptp(each) == 0 for each in ranks):
        return float("nan")
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: Float[np.ndarray, " candidate"]) -> Float[np.ndarray, " candidate"]:
    below = (values[:, None] > values).sum(axis=1)
    same = (values[:, None] == values).sum(axis=1)
    ranks: Float[np.ndarray, " candidate"] = below + (same - 1) / 2
    return ranks


def _joined(first: Replayed, second: Replayed) -> Replayed:
    return Replayed(
        *(np.concatenate([a, b]) for a, b in zip(asdict(first).values(), asdict(second).values(), strict=True))
    )
