"""What a race shows, on invented heats whose outcome is known by hand."""

import itertools
from pathlib import Path

import pytest
from experiments.races import Invented, write_heat
from hypothesis import given
from hypothesis import strategies as st

from anydepth.experiments.race_findings import race_findings, rising
from anydepth.experiments.race_records import EqualBleuRecord, GainRecord
from anydepth.experiments.study_folder import StudyFolder

SELDOM, OFTEN, ALWAYS = 30, 3, 1  # how rare a spoilt sentence is
FULL = Invented("fixed", "fixed:4", SELDOM, (10.0, 11.0, 9.0), 90.0)
SECOND = Invented("fixed", "fixed:2", OFTEN, (4.0, 5.0, 3.0), 70.0)
THIRD = Invented("fixed", "fixed:3", OFTEN, (6.0, 6.0, 6.0), 80.0)


def findings(tmp_path: Path, *contestants: Invented) -> tuple[dict[int, GainRecord], EqualBleuRecord]:
    """What one heat with one batch size shows: the gains by fixed exit, and the time at equal BLEU."""
    folder = StudyFolder(tmp_path)
    write_heat(folder, *contestants)
    found = race_findings(folder)
    (equal,) = found.equals
    return {gain.depth: gain for gain in found.gains if gain.kind == "fixed"}, equal


def test_the_point_beside_an_exit_is_best_on_valid_among_those_that_take_no_longer(tmp_path: Path) -> None:
    slow = Invented("tuned", "confidence:0.9", SELDOM, (5.0, 6.0, 4.0), 89.0)
    best = Invented("tuned", "confidence:0.5", SELDOM, (4.0, 5.0, 2.9), 85.0)
    # would be chosen if test had a say
    lucky = Invented("tuned", "margin:0.1", 10**6, (2.0, 2.0, 2.0), 60.0)
    gains, _ = findings(tmp_path, FULL, SECOND, THIRD, slow, best, lucky)
    assert gains[2].points == [best.policy]
    assert gains[3].points == [slow.policy]
    assert gains[2].time == 1.0  # the median of 1, 1 and 2.9 / 3
    assert gains[3].time == pytest.approx(5 / 6, abs=1e-4)
    for gain in gains.values():
        assert gain.difference is not None
        assert gain.low is not None
        assert 0 < gain.low < gain.difference
        assert (gain.verdict, gain.by_seed) == ("agree", [gain.difference])


def test_of_points_that_are_as_fast_the_one_most_like_full_depth_is_taken_whatever_chance_gives_another(
    tmp_path: Path,
) -> None:
    like = Invented("tuned", "confidence:0.5", SELDOM, (3.0, 3.0, 3.0), 85.0, agreement=97.0)
    lucky = Invented("tuned", "margin:0.5", ALWAYS, (3.0, 3.0, 3.0), 89.0, agreement=92.0)
    gains, _ = findings(tmp_path, FULL, SECOND, like, lucky)
    assert gains[2].points == [like.policy]


def test_a_point_reaches_full_depth_by_a_bleu_that_does_not_fall_as_points_come_closer_to_it(tmp_path: Path) -> None:
    full = Invented("fixed", "fixed:4", SELDOM, (10.0, 10.0, 10.0), 90.0, agreement=100.0)
    lucky = Invented("tuned", "confidence:0.1", ALWAYS, (2.0, 2.0, 2.0), 90.5, agreement=90.0)
    poor = Invented("tuned", "confidence:0.3", ALWAYS, (3.0, 3.0, 3.0), 88.0, agreement=93.0)
    unlucky = Invented("tuned", "confidence:0.5", SELDOM, (4.0, 4.0, 4.0), 89.7, agreement=96.0)
    close = Invented("tuned", "confidence:0.7", SELDOM, (5.0, 5.0, 5.0), 90.1, agreement=98.0)
    _, equal = findings(tmp_path, full, lucky, poor, unlucky, close)
    assert equal.points == [close.policy], "89.7 is too far below 90, and 90.5 of what is least alike is luck"


@given(st.lists(st.floats(0, 100), min_size=1, max_size=9))
def test_smoothed_values_never_fall_and_no_change_of_a_value_comes_closer(values: list[float]) -> None:
    smoothed = rising(values)
    assert all(first <= second + 1e-9 for first, second in itertools.pairwise(smoothed))
    assert sum(smoothed) == pytest.approx(sum(values), abs=1e-6)
    # the least squares: by any other numbers that never fall the error grows in the first order
    for start in range(len(values)):
        step = [float(place >= start) for place in range(len(values))]
        slope = sum((value - fit) * up for value, fit, up in zip(values, smoothed, step, strict=True))
        assert slope <= 1e-6, "raising all from here on would come closer"
    error = sum((value - fit) * fit for value, fit in zip(values, smoothed, strict=True))
    assert error == pytest.approx(0, abs=1e-4), "stretching them all would come closer"


def test_values_that_rise_already_are_left_as_they_are() -> None:
    assert rising([1.0, 2.0, 2.0, 5.0]) == [1.0, 2.0, 2.0, 5.0]
    assert rising([3.0, 1.0, 4.0]) == [2.0, 2.0, 4.0]


def test_thresholds_that_say_the_same_as_the_exit_neither_gain_nor_lose(tmp_path: Path) -> None:
    same = Invented("tuned", "confidence:0.5", OFTEN, (3.0, 3.0, 3.0), 70.0)
    worse = Invented("tuned", "confidence:0.4", ALWAYS, (1.0, 1.0, 1.0), 10.0)
    gains, _ = findings(tmp_path / "same", FULL, SECOND, same)
    assert (gains[2].difference, gains[2].low, gains[2].high, gains[2].verdict) == (0.0, 0.0, 0.0, "within noise")
    gains, _ = findings(tmp_path / "worse", FULL, SECOND, worse)
    assert gains[2].verdict == "disagree"


def test_a_shallow_decoder_is_a_rival_in_its_own_time(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    ours = Invented("tuned", "confidence:0.5", SELDOM, (3.0, 3.0, 3.0), 90.0)
    slow = Invented("tuned", "confidence:0.9", SELDOM, (6.0, 6.0, 6.0), 95.0)
    plain = Invented("plain", "fixed:2", OFTEN, (5.0, 5.0, 5.0), 80.0, blocks=2)
    theirs = Invented("plain", "fixed:3", OFTEN, (5.0, 5.0, 5.0), 80.0, blocks=3, system="ctranslate2")
    write_heat(folder, FULL, SECOND, ours, slow, plain, theirs)
    gains = race_findings(folder).gains
    assert [(gain.rival, gain.points, gain.time) for gain in gains] == [
        ("fixed exit 2", [ours.policy], 0.75),
        ("2 blocks", [ours.policy], 0.6),
    ]
    assert gains[1].verdict == "agree"


def test_an_exit_that_no_thresholds_are_as_fast_as_is_not_compared(tmp_path: Path) -> None:
    gains, _ = findings(tmp_path, FULL, SECOND, Invented("tuned", "confidence:0.5", SELDOM, (9.0, 9.0, 9.0), 90.0))
    assert (gains[2].verdict, gains[2].difference) == ("not comparable", None)
    assert gains[2].remark == "No tuned point is as fast."


def test_the_time_at_equal_bleu_is_that_of_the_fastest_of_each_side_that_reaches_full_depth(tmp_path: Path) -> None:
    low = Invented("tuned", "confidence:0.1", SELDOM, (1.0, 1.0, 1.0), 89.79)  # too far below on valid
    ours = Invented("tuned", "confidence:0.5", SELDOM, (4.0, 6.0, 3.0), 89.8, decoding=0.25)
    slower = Invented("tuned", "margin:0.5", SELDOM, (5.0, 7.0, 5.0), 95.0)
    quick = Invented("plain", "fixed:1", SELDOM, (2.0, 2.0, 2.0), 89.0, blocks=1)  # too far below
    rival = Invented("plain", "fixed:2", SELDOM, (8.0, 8.0, 8.0), 90.5, blocks=2)
    _, equal = findings(tmp_path, FULL, SECOND, low, ours, slower, quick, rival)
    assert (equal.points, equal.rivals, equal.rival_kinds) == ([ours.policy], ["2 blocks"], ["plain"])
    assert equal.ratio is not None
    assert (equal.ratio.median, equal.ratio.low, equal.ratio.high) == (0.5, 0.375, 0.75)
    assert equal.decoding_ratio is not None
    assert (equal.decoding_ratio.median, equal.decoding_ratio.high) == (0.25, 0.375)
    assert equal.bleu_difference is not None
    assert (equal.bleu_difference.median, equal.bleu_difference.low) == (0.0, 0.0)
    assert equal.verdict == "agree"


@pytest.mark.parametrize(
    ("times", "verdict"),
    [((2.0, 2.0, 2.0), "disagree"), ((4.0, 4.0, 2.0), "within noise"), ((9.0, 9.0, 9.0), "agree")],
)
def test_a_faster_rival_refutes_and_one_that_is_now_faster_now_slower_leaves_it_open(
    tmp_path: Path, times: tuple[float, float, float], verdict: str
) -> None:
    ours = Invented("tuned", "confidence:0.5", SELDOM, (3.0, 3.0, 3.0), 90.0)
    rival = Invented("deep encoder", "fixed:1", SELDOM, times, 90.0, blocks=1, system="ctranslate2")
    _, equal = findings(tmp_path, FULL, ours, rival)
    assert (equal.rivals, equal.verdict) == (["deep encoder, CTranslate2"], verdict)


def test_without_a_point_of_that_bleu_no_time_is_told(tmp_path: Path) -> None:
    _, equal = findings(tmp_path, FULL, SECOND, Invented("tuned", "confidence:0.5", OFTEN, (1.0, 1.0, 1.0), 50.0))
    assert (equal.verdict, equal.ratio, equal.points) == ("not comparable", None, [])
    assert equal.remark == "No tuned point has the BLEU of full depth on valid."


def test_decoding_that_cannot_be_told_from_nothing_has_no_ratio(tmp_path: Path) -> None:
    ours = Invented("tuned", "confidence:0.5", SELDOM, (3.0, 3.0, 3.0), 90.0, decoding=-0.01)
    _, equal = findings(tmp_path, FULL, ours)
    assert equal.ratio is not None
    assert equal.decoding_ratio is None


def seeded(each: Invented, seed: int, times: tuple[float, float, float]) -> Invented:
    return Invented(each.kind, each.policy, each.wrong, times, each.valid_bleu, seed=seed)


def test_seeds_are_averaged_and_widen_what_one_alone_would_claim(tmp_path: Path) -> None:
    ours = Invented("tuned", "confidence:0.5", SELDOM, (5.0, 5.0, 5.0), 90.0)
    both = [
        *(seeded(FULL, 1, (10.0, 10.0, 10.0)), seeded(ours, 1, (5.0, 5.0, 5.0))),
        *(seeded(FULL, 2, (10.0, 10.0, 10.0)), seeded(ours, 2, (11.0, 11.0, 11.0))),
    ]
    _, equal = findings(tmp_path, *both)
    assert equal.by_seed == [0.5, 1.1]
    assert equal.ratio is not None
    assert (equal.ratio.median, equal.ratio.low, equal.ratio.high) == (0.8, 0.5, 1.1)
    assert equal.verdict == "within noise"
    assert equal.basis == "lowest and highest of the rounds, widened to that over 2 seeds"


def test_a_rival_that_was_trained_once_races_with_every_seed(tmp_path: Path) -> None:
    ours = Invented("tuned", "confidence:0.5", SELDOM, (5.0, 5.0, 5.0), 90.0)
    once = Invented("plain", "fixed:2", SELDOM, (4.0, 4.0, 4.0), 90.0, blocks=2)
    twice = Invented("plain", "fixed:3", SELDOM, (8.0, 8.0, 8.0), 90.0, blocks=3)
    quick = Invented("plain", "fixed:3", SELDOM, (2.0, 2.0, 2.0), 90.0, blocks=3, seed=2)
    both = [FULL, seeded(FULL, 2, (10.0, 10.0, 10.0)), ours, seeded(ours, 2, (6.0, 6.0, 6.0))]
    _, equal = findings(tmp_path, *both, once, twice, quick)
    assert equal.rivals == ["2 blocks", "3 blocks"]
    assert equal.by_seed == [1.25, 3.0]


def test_a_seed_with_nothing_to_compare_is_left_out_and_counted(tmp_path: Path) -> None:
    ours = Invented("tuned", "confidence:0.5", SELDOM, (5.0, 5.0, 5.0), 90.0)
    poor = Invented("tuned", "confidence:0.5", OFTEN, (5.0, 5.0, 5.0), 10.0, seed=2)
    _, equal = findings(tmp_path, FULL, ours, seeded(FULL, 2, (10.0, 10.0, 10.0)), poor)
    assert (equal.by_seed, equal.verdict) == ([0.5], "agree")
    assert equal.remark == "With 1 of 2 seeds no tuned point has the BLEU of full depth on valid."


def test_every_precision_beam_and_batch_size_is_looked_at_by_itself(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    ours = Invented("tuned", "confidence:0.5", SELDOM, (5.0, 5.0, 5.0), 90.0)
    write_heat(folder, FULL, SECOND, ours, batches=(1, 32))
    write_heat(folder, FULL, SECOND, ours, precision="int8", beam=5, batches=(1, 32))
    write_heat(folder, precision="int8", beam=1)  # where no engine has the precision
    found = race_findings(folder)
    cells = ["fp32, beam 1, batch 1", "fp32, beam 1, batch 32", "int8, beam 5, batch 1", "int8, beam 5, batch 32"]
    assert [equal.cell.words for equal in found.equals] == cells
    assert [(gain.cell.words, gain.rival) for gain in found.gains] == [(cell, "fixed exit 2") for cell in cells]
