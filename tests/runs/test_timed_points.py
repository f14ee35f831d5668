"""Operating points with times and vocabulary settings: stored, believed only if whole, and chosen by
the clock."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from runs.test_operating_points import EARLY, GEOMETRIC, LATE, MIDDLE, with_weights

from anydepth.errors import RunError, UsageError
from anydepth.runs.operating_points import (
    ClockRecipe,
    OperatingPoint,
    TimingPlace,
    Wish,
    choose_point,
    load_points,
    save_points,
)
from anydepth.runs.run import Run

PLACE = TimingPlace("A processor", 2, 1, "native", 4096, None)
CLOCK = ClockRecipe(PLACE, sentences=200, rounds=5)
TIMED = replace(
    GEOMETRIC,
    engine="native",
    objective="time",
    clock=CLOCK,
    points=(replace(EARLY, time_share=0.75), replace(MIDDLE, time_share=0.5), replace(LATE, time_share=0.875)),
)
TABLE = replace(
    TIMED,
    vocabulary="table:50",
    points=(
        OperatingPoint("geometric:0.3,0.3", 33.0, 1.5, 0.25, 0.375, "table:50"),
        OperatingPoint("fixed:3", 34.25, 3.0, 1.0, 1.0),
    ),
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run directory of which nothing but the weights is looked at."""
    return with_weights(Run(tmp_path), b"weights")


def test_points_with_times_and_vocabularies_are_loaded_as_they_were_saved(run: Run) -> None:
    save_points(run, TIMED, TABLE)
    assert load_points(run, blocks=3) == [TIMED, TABLE]


def test_points_of_before_there_were_times_are_loaded(run: Run) -> None:
    save_points(run, GEOMETRIC)
    whole = json.loads(run.points_file.read_text(encoding="utf-8"))
    for name in ("engine", "objective", "vocabulary", "clock"):
        del whole["sets"][0][name]
    for point in whole["sets"][0]["points"]:
        del point["time_share"], point["vocabulary"]
    run.points_file.write_text(json.dumps(whole), encoding="utf-8")
    run.seal.make()
    assert load_points(run) == [GEOMETRIC]


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("points", 0, "time_share"), -0.5, "sets.0.points.0.time_share"),
        (("points", 1, "time_share"), "fast", "sets.0.points.1.time_share"),
        (("points", 0, "vocabulary"), "table:20", "has the vocabulary table:20, but its set is of full"),
        (("vocabulary",), "tabel:50", "there is no vocabulary setting 'tabel:50'"),
        (("objective",), "beauty", "sets.0.objective"),
        (("clock",), None, "has a time, but its set does not say with which clock"),
        (("clock", "rounds"), 0, "sets.0.clock.rounds"),
        (("clock", "place", "threads"), 10**9, "sets.0.clock.place.threads"),
        (("clock", "place"), {}, "sets.0.clock.place.cpu: field required"),
    ],
)
def test_damage_to_times_is_named(run: Run, place: tuple[str | int, ...], value: object, words: str) -> None:
    save_points(run, TIMED)
    whole = json.loads(run.points_file.read_text(encoding="utf-8"))
    inner = whole["sets"][0]
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value
    run.points_file.write_text(json.dumps(whole), encoding="utf-8")
    run.seal.make()
    with pytest.raises(RunError) as refusal:
        load_points(run)
    assert "operating_points.json cannot be read as operating points" in str(refusal.value)
    assert words in str(refusal.value)


def test_a_later_tuning_replaces_that_of_the_same_policy_vocabulary_and_precision(run: Run) -> None:
    eight = replace(TIMED, engine="native-int8")
    save_points(run, GEOMETRIC, TABLE, eight)
    save_points(run, TIMED)
    assert load_points(run) == [TABLE, eight, TIMED], "whatever it was tuned for"


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (Wish(time=0.5), TIMED.points[1]),
        (Wish(time=1.0), TIMED.points[2]),
        (Wish(time=0.8), TIMED.points[1]),
        (Wish(time=0.8, flops=0.5), TIMED.points[0]),
        (Wish(bleu_drop=50.0), TIMED.points[1]),  # least time, though it has more FLOPs
        (Wish(bleu_drop=0.5), TIMED.points[2]),
    ],
    ids=lambda value: value.describe() if isinstance(value, Wish) else "",
)
def test_wishes_by_time_and_by_loss_look_at_the_clock(wish: Wish, expected: OperatingPoint) -> None:
    assert choose_point([TIMED], wish) == (expected, TIMED)


def test_the_best_of_all_vocabularies_is_chosen_or_that_of_the_one_named() -> None:
    assert choose_point([TIMED, TABLE], Wish(time=0.5))[0] == TIMED.points[1]
    assert choose_point([TIMED, TABLE], Wish(time=0.45)) == (TABLE.points[0], TABLE)
    assert choose_point([TIMED, TABLE], Wish(time=0.5), vocabulary="table:50")[0] == TABLE.points[0]
    with pytest.raises(
        UsageError, match=r"there are no operating points of --vocabulary table:9, only of geometric, geometric with t"
    ):
        choose_point([TIMED, TABLE], Wish(time=0.5), vocabulary="table:9")


def test_points_of_the_precision_at_hand_go_before_others() -> None:
    eight = replace(TIMED, engine="native-int8", points=(replace(EARLY, bleu=30.0, time_share=0.25),))
    assert choose_point([TIMED, eight], Wish(time=1.0), bits=8) == (eight.points[0], eight)
    assert choose_point([TIMED, eight], Wish(time=1.0), bits=32) == (TIMED.points[2], TIMED)
    assert choose_point([TIMED], Wish(time=1.0), bits=8) == (TIMED.points[2], TIMED)


def test_a_wish_by_time_needs_times() -> None:
    with pytest.raises(
        UsageError, match=r"--time 0.5: the operating points have no times; measure them with .*--clock-only"
    ):
        choose_point([GEOMETRIC], Wish(time=0.5))
    assert choose_point([GEOMETRIC, replace(TABLE, length_penalty=0.6)], Wish(time=0.5))[0] == TABLE.points[0]
    with pytest.raises(UsageError, match=r"no operating point meets --time 0.1; the nearest is geometric:0.8,0.5"):
        choose_point([TIMED], Wish(time=0.1))


def test_times_of_different_clocks_are_not_compared() -> None:
    other = replace(TABLE, clock=replace(CLOCK, place=replace(PLACE, threads=2, batch_sentences=32)))
    for wish in (Wish(time=0.9), Wish(bleu_drop=1.0)):
        with pytest.raises(UsageError) as refusal:
            choose_point([TIMED, other], wish)
        assert str(refusal.value) == (
            "the times of the operating points were measured in different ways: geometric (A processor, 2 cores, "
            "native with 1 threads, batches of 4,096 tokens), geometric with table:50 (A processor, 2 cores, native "
            "with 2 threads, batches of 32); name one with --policy, or measure them alike with `anydepth tune RUN "
            "--clock-only`"
        )
    assert choose_point([TIMED, other], Wish(flops=0.3))[0] == TABLE.points[0], "no time is looked at"


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan")])
def test_a_wish_by_time_is_a_share(share: float) -> None:
    with pytest.raises(UsageError, match=r"--time \S+ is a share of the time of full depth; ask for one between 0"):
        Wish(time=share)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"threads": 4}, "4 threads"),
        ({"engine": "torch"}, "the engine torch"),
        ({"cpu": "B"}, "B with 2 cores"),
        ({"batch_sentences": 1}, "batches of 1"),
        ({"batch_tokens": 100}, "batches of 100 tokens"),
        ({"cores": 8, "threads": 8}, "A processor with 8 cores, 8 threads"),
    ],
)
def test_a_place_tells_how_another_differs(changes: dict[str, object], words: str) -> None:
    assert PLACE.otherwise(replace(PLACE, **changes)) == words


def test_a_point_tells_its_time_and_its_words() -> None:
    assert TABLE.points[0].describe() == (
        "geometric:0.3,0.3 (BLEU 33.00, AE 1.50, 25% of the FLOPs, 38% of the time, vocabulary table:50)"
    )
    assert Wish(time=0.5, flops=0.25, bleu_drop=1.0).describe() == "--flops 0.25 --time 0.5 --bleu-drop 1"
