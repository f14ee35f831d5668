"""Candidates for thresholds: drawn, changed, and chosen by what replay expects of them."""

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
from jaxtyping import Float, Int

from anydepth.tuning.replay import Replayed, ReplayRecord, replay

DIGITS = 5  # thresholds are rounded before they are measured, so that their names tell them exactly


def search_candidates(
    own: ReplayRecord, given: ReplayRecord, *, count: int, segment: float, seed: int
) -> tuple[Float[np.ndarray, "candidate decision"], Replayed, Replayed]:
    """`count` candidates with their costs on the model's own outputs and their worth on the
    references.

    A third is drawn from U(0, 1), a third from the quantiles of each exit's signal (with exits that
    are always or never taken among them), and the last third are changes of the best of both.
    """
    generator = np.random.default_rng(seed)
    third = -(-count // 3)
    decisions = len(own.signals)
    levels = np.sort(own.signals, axis=1)
    drawn = [
        generator.random((third, decisions)),
        from_quantiles(levels, generator.random((third, decisions)), generator),
    ]
    first = np.round(np.concatenate(drawn)[:count], DIGITS)
    costs, worth = replay(own, first), replay(given, first)
    left = count - len(first)
    if left == 0:
        return first, costs, worth
    parents = first[promising(costs.average_exits, worth.log_likelihoods, segment=segment, count=8)]
    changed = changed_thresholds(levels, parents[generator.integers(len(parents), size=left)], generator)
    more = np.round(changed, DIGITS)
    later_costs, later_worth = replay(own, more), replay(given, more)
    return np.concatenate([first, more]), _joined(costs, later_costs), _joined(worth, later_worth)


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
    """`parents` with some thresholds moved by a few percent of the positions, or to 0 or 1."""
    shares = (
        np.stack([np.searchsorted(level, parents[:, n]) for n, level in enumerate(levels)], axis=1) / levels.shape[1]
    )
    moved = (shares + generator.normal(scale=0.08, size=shares.shape)).clip(0, 1)
    return np.where(generator.random(shares.shape) < 0.5, parents, from_quantiles(levels, moved, generator))


def promising(
    costs: Float[np.ndarray, " candidate"], worth: Float[np.ndarray, " candidate"], *, segment: float, count: int
) -> Int[np.ndarray, " chosen"]:
    """The `count` candidates of the highest worth in each segment of the cost, best first within a
    segment.

    Of candidates that cost and are worth the same, which do the same everywhere, only the first is
    looked at.
    """
    different = np.sort(np.unique(np.stack([costs, worth]), axis=1, return_index=True)[1])
    numbers = segment_numbers(costs, segment)[different]
    order = np.lexsort((-worth[different], numbers))
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
) -> Int[np.ndarray, " more"]:
    """A further candidate, where there is one, for every segment whose `chosen` came out in another
    when their exits were `decoded`.

    Decoding goes deeper or less deep than replay by about the same factor for all candidates, which
    the decoded ones tell.
    """
    missed = np.setdiff1d(segment_numbers(costs[chosen], segment), segment_numbers(decoded, segment))
    left = np.setdiff1d(np.arange(len(costs)), chosen)
    is_telling = costs[chosen] > 1  # what always stops at once tells nothing of the factor
    if not len(missed) or not len(left) or not is_telling.any():
        return left[:0]
    factor = float(np.median((decoded[is_telling] - 1) / (costs[chosen][is_telling] - 1)))
    expected = 1 + (costs - 1) * factor
    best = left[promising(expected[left], worth[left], segment=segment, count=1)]
    more: Int[np.ndarray, " more"] = best[np.isin(segment_numbers(expected[best], segment), missed)]
    return more


def segment_numbers(average_exits: Float[np.ndarray, " candidate"], width: float) -> Int[np.ndarray, " candidate"]:
    """The segment of each average exit: a segment holds its upper edge, so that "at most 2" is the
    end of one."""
    numbers: Int[np.ndarray, " candidate"] = np.ceil(np.round((average_exits - 1) / width, 9)).astype(np.int64)
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
