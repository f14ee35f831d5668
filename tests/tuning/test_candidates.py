"""Candidates, segments and ranks against loops and by hand."""

import math
from fractions import Fraction
from operator import attrgetter

import numpy as np
import pytest
from tiny import BLOCKS, tiny_pairs
from walks import model_for

from anydepth.exits.parsing import parse_policy
from anydepth.exits.thresholds import ThresholdExit
from anydepth.tuning.candidates import (
    DIGITS,
    changed_thresholds,
    decision_patterns,
    for_missed_segments,
    from_quantiles,
    named_thresholds,
    promising,
    rank_correlation,
    search_candidates,
    segment_numbers,
    with_few_decisions,
)
from anydepth.tuning.replay import ReplayRecord, record, replay

SEGMENT = 0.25
AVERAGE_EXIT = attrgetter("average_exits")


@pytest.fixture(scope="module")
def records() -> tuple[ReplayRecord, ReplayRecord]:
    """What two texts give, with signals that differ from block to block."""
    model = model_for("confidence:0.5")
    policy = parse_policy("confidence:0.5", model)
    assert isinstance(policy, ThresholdExit)
    return record(model, tiny_pairs(9, seed=2), policy), record(model, tiny_pairs(7, seed=3), policy)


@pytest.mark.parametrize("count", [1, 2, 4, 5, 60])
def test_there_are_as_many_candidates_as_asked_for_and_each_has_its_figures(
    records: tuple[ReplayRecord, ReplayRecord], count: int
) -> None:
    candidates, costs, worth = search_candidates(*records, AVERAGE_EXIT, count=count, segment=SEGMENT, seed=1)
    assert candidates.shape == (count, BLOCKS - 1)
    for found, recorded in ((costs, records[0]), (worth, records[1])):
        expected = replay(recorded, candidates)
        for name in ("average_exits", "flops_shares", "log_likelihoods"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6)


def test_candidates_are_thresholds_whose_names_tell_them_exactly(records: tuple[ReplayRecord, ReplayRecord]) -> None:
    model = model_for("confidence:0.5")
    candidates, *_ = search_candidates(*records, AVERAGE_EXIT, count=90, segment=SEGMENT, seed=1)
    assert candidates.min() == 0 and candidates.max() == 1
    for thresholds in candidates.tolist():
        assert thresholds == [round(threshold, DIGITS) for threshold in thresholds]
        policy = parse_policy(f"confidence:{','.join(map(str, thresholds))}", model)
        again = parse_policy(policy.name, model)
        assert isinstance(again, ThresholdExit) and list(again.thresholds) == thresholds


def test_the_same_seed_tries_the_same_candidates_and_another_seed_others(
    records: tuple[ReplayRecord, ReplayRecord],
) -> None:
    one, two, other = (
        search_candidates(*records, AVERAGE_EXIT, count=60, segment=SEGMENT, seed=seed)[0] for seed in (7, 7, 8)
    )
    assert one.tolist() == two.tolist()
    assert not {tuple(row) for row in one.tolist()} & {tuple(row) for row in other.tolist()}


def test_a_quantile_leaves_its_share_of_the_positions_below_it() -> None:
    levels = np.sort(np.random.default_rng(5).random((3, 40)).astype(np.float32), axis=1)
    shares = np.random.default_rng(6).random((500, 3))
    thresholds = from_quantiles(levels, shares, np.random.default_rng(7))
    for row, wanted in zip(thresholds.tolist(), shares.tolist(), strict=True):
        for n, (threshold, share) in enumerate(zip(row, wanted, strict=True)):
            below = sum(value < np.float32(threshold) for value in levels[n].tolist()) / 40
            assert threshold in (0.0, 1.0) or share - 1 / 40 <= below <= share
    always, never = (float((thresholds == value).mean()) for value in (0.0, 1.0))
    assert 0.02 < always < 0.09 and 0.1 < never < 0.21, "about 1 in 20, and 3 in 20"


def test_changes_keep_some_thresholds_and_stay_thresholds() -> None:
    generator = np.random.default_rng(1)
    levels, parents = np.sort(generator.random((3, 40)), axis=1), generator.random((200, 3))
    changed = changed_thresholds(levels, parents, generator)
    kept = float((changed == parents).mean())
    assert 0.4 < kept < 0.6, "about half"
    assert changed.min() >= 0 and changed.max() <= 1
    moved = [
        (new, old) for new, old in zip(changed.flatten(), parents.flatten(), strict=True) if new not in (old, 0.0, 1.0)
    ]
    assert sum(abs(new - old) for new, old in moved) / len(moved) < 0.12, "by a few percent"


def segment_by_hand(average_exit: Fraction, width: Fraction) -> int:
    """The number m of the segment from 1 + (m - 1) * width, not included, to 1 + m * width,
    included."""
    number = 0
    while 1 + number * width < average_exit:
        number += 1
    return number


@pytest.mark.parametrize("width", ["1/4", "1/2", "1", "1/10", "3/10", "1/100", "7"])
def test_a_segment_holds_its_upper_edge_and_not_its_lower_one(width: str) -> None:
    exits = [1 + Fraction(number, 120) for number in range(0, 361, 4)] + [
        1 + Fraction(number, 100) for number in range(0, 300, 7)
    ]
    numbers = segment_numbers(np.array([float(each) for each in exits]), float(Fraction(width)))
    assert numbers.tolist() == [segment_by_hand(each, Fraction(width)) for each in exits]


def test_an_average_exit_of_2_is_in_the_segment_that_ends_there() -> None:
    for width, number in ((0.25, 4), (0.5, 2), (1.0, 1), (0.1, 10), (0.2, 5)):
        assert segment_numbers(np.array([1.999, 2.0, 2.001]), width).tolist() == [number, number, number + 1]


@pytest.mark.parametrize("count", [1, 2, 5, 99])
def test_the_promising_are_the_best_of_each_segment(count: int) -> None:
    generator = np.random.default_rng(count)
    costs, worth = 1 + generator.integers(0, 24, 50) / 8, generator.permutation(50).astype(np.float64)
    expected = []
    for number in range(13):
        inside = [
            place for place in range(50) if segment_by_hand(Fraction(float(costs[place])), Fraction(1, 4)) == number
        ]
        expected += sorted(inside, key=lambda place: -worth[place])[:count]
    assert promising(costs, worth, segment=0.25, count=count).tolist() == expected


def test_a_segment_whose_candidate_came_out_in_another_gets_one_that_should_come_out_in_it() -> None:
    # (1.5, 2.0] has the second and third, but decoding adds a fifth to what is above 1
    costs = np.array([1.5, 1.9, 1.95, 2.5, 2.9])
    worth = np.array([-5.0, -4.0, -3.0, -2.0, -1.0])
    chosen, decoded = np.array([0, 2, 3]), np.array([1.6, 2.14, 2.8])
    # none is expected in (1.5, 2.0] but the first
    assert for_missed_segments(costs, worth, chosen, decoded, segment=0.5).tolist() == []
    chosen, decoded = np.array([2, 3]), np.array([2.14, 2.8])
    assert for_missed_segments(costs, worth, chosen, decoded, segment=0.5).tolist() == [0]
    assert for_missed_segments(costs, worth, chosen, costs[chosen], segment=0.5).tolist() == []


def test_a_missed_segment_gets_the_next_best_where_the_best_was_decoded_already() -> None:
    costs, worth = np.array([1.6, 1.7, 2.4, 3.0]), np.array([-1.0, -2.0, -0.5, -0.2])
    assert for_missed_segments(costs, worth, np.array([0, 2, 3]), np.array([2.1, 2.4, 3.0]), segment=0.5).tolist() == [
        1
    ]


def test_what_stops_at_once_does_not_tell_how_much_deeper_decoding_goes() -> None:
    costs, worth = np.array([1.0, 1.5, 1.9]), np.array([-3.0, -2.0, -1.0])
    assert for_missed_segments(costs, worth, np.array([0, 2]), np.array([1.0, 2.3]), segment=0.5).tolist() == [1]
    assert for_missed_segments(costs[:1], worth[:1], np.array([0]), np.array([1.6]), segment=0.5).tolist() == []
    assert for_missed_segments(costs, worth, np.array([0]), np.array([1.6]), segment=0.5).tolist() == []


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([1, 2, 3, 4], [10, 20, 30, 45], 1.0),
        ([1, 2, 3, 4], [0.4, 0.3, 0.2, 0.1], -1.0),
        ([1, 2, 3], [1, 3, 2], 0.5),  # 1 - 6 * 2 / (3 * 8)
        ([5, 1, 4, 2, 3], [4, 2, 5, 1, 3], 0.8),  # 1 - 6 * 4 / (5 * 24)
        ([1, 2, 2, 3], [1, 2, 3, 4], 3 / math.sqrt(10)),  # ranks 1, 2.5, 2.5, 4: covariance 4.5, variances 4.5 and 5
        ([7, 7, 9], [1, 2, 3], math.sqrt(3) / 2),  # ranks 1.5, 1.5, 3: 1.5 / sqrt(1.5 * 2)
    ],
)
def test_rank_correlation_by_hand(first: list[float], second: list[float], expected: float) -> None:
    first, second = [float(value) for value in first], [float(value) for value in second]
    assert rank_correlation(first, second) == pytest.approx(expected)
    assert rank_correlation(second, np.array(first)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("first", "second"), [([2.0, 2.0, 2.0], [1.0, 2.0, 3.0]), ([1.0, 2.0], [5.0, 5.0]), ([1.0], [1.0]), ([], [])]
)
def test_what_does_not_vary_has_no_rank_correlation(first: list[float], second: list[float]) -> None:
    assert math.isnan(rank_correlation(first, second))


def test_some_candidates_decide_at_a_few_exits_and_leave_early_at_the_latest(
    records: tuple[ReplayRecord, ReplayRecord],
) -> None:
    levels = np.sort(np.random.default_rng(1).random((5, 50)), axis=1)  # a model of 6 blocks
    drawn = with_few_decisions(levels, 2000, np.random.default_rng(2))
    decides = (drawn > 0) & (drawn < 1)
    counts = decides.sum(axis=1)
    assert counts.min() >= 1
    assert 0.45 < (counts <= 2).mean() < 0.55, "one or two decisions in about half of them"
    patterns = {
        tuple("d" if own else f"{each:g}" for own, each in zip(*row, strict=True))
        for row in zip(decides, drawn, strict=True)
    }
    for latest in (2, 3, 4, 5, 6):  # exit 1 alone decides, and all leave at the latest at 2, 3, ...
        assert ("d", *["1"] * (latest - 2), *["0"] * (6 - latest)) in patterns
    assert ("d", "d", "1", "1", "1") in patterns and ("d", "d", "0", "0", "0") in patterns
    assert ("1", "d", "1", "1", "1") in patterns and ("d", "1", "d", "0", "0") in patterns
    for row in drawn:
        after = np.flatnonzero(row == 0)
        assert not len(after) or (row[after[0] :] == 0).all()
    candidates, *_ = search_candidates(*records, AVERAGE_EXIT, count=80, segment=SEGMENT, seed=1)
    few = [tuple(row) for row in candidates.tolist() if row[0] in (0, 1) or row[1] == 1]
    assert len(few) > 10


def test_thresholds_that_nobody_reaches_are_0() -> None:
    drawn = np.array([[0.123456, 0.0, 0.7], [0.2, 1.0, 0.000001], [0.0, 1.0, 1.0]])
    assert named_thresholds(drawn).tolist() == [[0.12346, 0, 0], [0.2, 1, 0], [0, 0, 0]]


def test_patterns_differ_by_where_is_decided_and_where_all_leave_alone() -> None:
    candidates = np.array([[0.1, 1, 0], [0.9, 1, 0], [0.1, 1, 1], [0.1, 0.5, 0], [1, 0.3, 0], [0.4, 0.2, 0]])
    one, same, later, both, other, again = decision_patterns(candidates).tolist()
    assert one == same and both == again
    assert len({one, later, both, other}) == 4


def test_the_promising_of_a_segment_have_different_patterns() -> None:
    costs, worth = np.array([0.41, 0.42, 0.43, 0.44, 0.61]), np.array([5.0, 4.0, 3.0, 2.0, 1.0])
    patterns = np.array([7, 7, 7, 8, 7])
    assert promising(costs, worth, segment=0.1, count=2).tolist() == [0, 1, 4]
    assert promising(costs, worth, segment=0.1, count=2, patterns=patterns).tolist() == [0, 3, 4]
    assert promising(costs[:0], worth[:0], segment=0.1, count=2).tolist() == []


def test_a_missed_segment_gets_none_that_does_the_same_as_a_decoded_one() -> None:
    costs, worth = np.array([0.52, 0.52, 0.54, 0.9]), np.array([-1.0, -1.0, -2.0, -0.5])
    missed = for_missed_segments(costs, worth, np.array([0, 3]), np.array([0.48, 0.9]), segment=0.1, least=0.0)
    assert missed.tolist() == [2]
