"""Budgets instead of thresholds: translate and evaluate take the stored point that meets a wish,
and say which."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from cli.commands import anydepth, assert_refused, done
from cli.conftest import Tuned

from anydepth.errors import UsageError
from anydepth.inference.translator import Translator
from anydepth.runs.operating_points import ClockRecipe, TimingPlace, load_points, save_points
from anydepth.runs.run import Run

LINES = "der hund läuft und die katze\nkatze schläft gern\n\nhund\n".encode()


def wished(tuned: Tuned, wish: str) -> tuple[list[object], str]:
    """The options of a wish that some points meet and some do not, and the policy that a loop over
    the points finds."""
    full = json.loads((tuned.run / "operating_points.json").read_text(encoding="utf-8"))["sets"][0]["full_depth_bleu"]
    middle = sorted(tuned.points, key=lambda point: point.average_exit)[1]
    limits = {
        "--average-exit": middle.average_exit,
        "--flops": min(middle.flops_share, 1.0),
        "--bleu-drop": max(full - middle.bleu, 0),
    }
    limit = round(limits[wish] + 0.001, 3)
    if wish == "--bleu-drop":
        fitting = [point for point in tuned.points if point.bleu >= full - limit]
        return [wish, limit], min(fitting, key=lambda point: (point.flops_share, -point.bleu)).policy
    cost = {"--average-exit": "average_exit", "--flops": "flops_share"}[wish]
    fitting = [point for point in tuned.points if getattr(point, cost) <= limit]
    assert 0 < len(fitting) < len(tuned.points)
    return [wish, limit], max(fitting, key=lambda point: (point.bleu, -point.flops_share)).policy


@pytest.mark.parametrize("wish", ["--average-exit", "--flops", "--bleu-drop"])
def test_a_wish_translates_with_the_stored_point_and_says_so(tuned: Tuned, wish: str) -> None:
    options, policy = wished(tuned, wish)
    outcome = done("translate", tuned.run, *options, stdin=LINES)
    assert outcome.out == done("translate", tuned.run, "--policy", policy, stdin=LINES).out
    (point,) = (point for point in tuned.points if point.policy == policy)
    said = rf"{re.escape(f'{wish} {options[1]:g}: {point.describe()}')}, measured on \S+ with beam 1"
    assert re.fullmatch(rf"{said}; here with beam 2\n", outcome.err)
    alike = done("translate", tuned.run, *options, "--beam", 1, stdin=LINES)
    assert re.fullmatch(rf"{said}\n", alike.err)


def test_a_wish_that_is_drawn_tells_of_another_beam(tuned: Tuned, tmp_path: Path) -> None:
    picture = ["--to", tmp_path / "tokens.svg"]
    outcome = done("plot", "tokens", tuned.run, "der hund", *picture, "--average-exit", 3)
    assert outcome.err.endswith("with beam 1; here with beam 2\n")


def test_a_wish_that_is_timed_tells_of_other_beams(tuned: Tuned, text: Path) -> None:
    quick = ["--fp32", "--batch", 1, "--rounds", 1, "--sentences", 1, "--beam", 1, "--beam", 3, "--beam", 2]
    outcome = done("bench", tuned.run, "--test", text / "test", "--average-exit", 3, *quick)
    warned = [line for line in outcome.err.splitlines() if line.startswith("warning: ")]
    assert len(warned) == 1
    assert warned[0].endswith("was tuned with beam 1; the BLEU and exits of beam 3, 2 may be others")


def test_a_wish_that_is_measured_on_the_text_it_was_tuned_on_says_so_in_one_line(
    tuned: Tuned, held_out: Path, text: Path
) -> None:
    options, policy = wished(tuned, "--average-exit")
    on_it = done("evaluate", tuned.run, "--test", held_out, *options)
    assert on_it.err.splitlines()[0] == (
        f"warning: {policy} was tuned on this very text, so its BLEU here is not that of unseen text; "
        "it was tuned with beam 1, length penalty 1, and is measured with beam 2"
    )
    assert on_it.err.count("warning") == 1
    assert "warning" not in done("evaluate", tuned.run, "--test", text / "test", *options, "--beam", 1).err


@pytest.mark.parametrize("wish", ["--average-exit", "--flops", "--bleu-drop"])
def test_a_wish_is_measured_with_the_stored_point(tuned: Tuned, held_out: Path, wish: str) -> None:
    options, policy = wished(tuned, wish)
    (row,) = json.loads(done("evaluate", tuned.run, "--test", held_out, *options, "--beam", 1, "--json").out)["results"]
    (point,) = (point for point in tuned.points if point.policy == policy)
    assert row["policy"] == policy
    assert (row["scores"]["bleu"]["value"], row["average_exit"], row["flops_share"]) == (
        point.bleu,
        point.average_exit,
        point.flops_share,
    )


def test_a_wish_beside_policies_is_one_more_row_or_stands_for_its_family(tuned: Tuned, text: Path) -> None:
    wish, policy = wished(tuned, "--average-exit")

    def measured(*policies: object) -> list[str]:
        rows = json.loads(
            done("evaluate", tuned.run, "--test", text / "test", *policies, *wish, "--beam", 1, "--json").out
        )["results"]
        return [row["policy"] for row in rows]

    assert measured("--policy", "fixed:1") == ["fixed:1", policy]
    assert measured("--policy", "geometric", "--policy", "fixed:1") == [policy, "fixed:1"]
    assert measured("--each-exit") == ["fixed:1", "fixed:2", "fixed:3", "uniform:seed=1", policy]


@pytest.mark.parametrize("wish", [[], ["--average-exit", 2]], ids=["alone", "with a wish"])
@pytest.mark.parametrize("verb", ["translate", "evaluate", "tune", "bench", "plot tokens", "plot positions", "against"])
def test_an_empty_policy_is_refused_and_not_taken_for_full_depth(
    tuned: Tuned, held_out: Path, tmp_path: Path, verb: str, wish: list[object]
) -> None:
    picture = ["--to", tmp_path / "x.png"]
    commands: dict[str, list[object]] = {
        "translate": ["translate", tuned.run, "--policy", "", *wish],
        "evaluate": ["evaluate", tuned.run, "--test", held_out, "--policy", "", *wish],
        "tune": ["tune", tuned.run, "--valid", held_out, "--policy", ""],
        "bench": ["bench", tuned.run, "--test", held_out, "--policy", "", *wish],
        "plot tokens": ["plot", "tokens", tuned.run, "hund", "--policy", "", *wish, *picture],
        "plot positions": ["plot", "positions", tuned.run, "--test", held_out, "--policy", "", *wish, *picture],
        "against": ["evaluate", tuned.run, "--test", held_out, "--against", "", *wish],
    }
    outcome = anydepth(*commands[verb], stdin=LINES)
    assert_refused(outcome, "the policy '' is empty; name one of fixed:N", "or leave it out")
    assert list(tmp_path.iterdir()) == []


def test_wishes_combine(tuned: Tuned) -> None:
    deepest = max(tuned.points, key=lambda point: point.average_exit)
    outcome = done("translate", tuned.run, "--average-exit", 3, "--bleu-drop", 100, "--flops", 1, stdin=LINES)
    affordable = [point for point in tuned.points if point.flops_share <= 1]
    best = max(affordable, key=lambda point: (point.bleu, -point.flops_share))
    assert outcome.err.startswith(f"--average-exit 3 --flops 1 --bleu-drop 100: {best.policy} (BLEU ")
    assert deepest.average_exit <= 3


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (["--average-exit", "0.5"], ["--average-exit 0.5: no token leaves before block 1"]),
        (["--flops", "40"], ["--flops 40 is a share", "as in 0.4"]),
        (["--time", "2"], ["--time 2 is a share of the time of full depth", "as in 0.5"]),
        (["--time", "0.5"], ["--time 0.5: the operating points have no times", "--clock-only"]),
        (["--bleu-drop", "-1"], ["--bleu-drop -1 must not be negative"]),
        (["--flops", "0.01"], ["no operating point meets --flops 0.01; the nearest is geometric:"]),
        (
            ["--average-exit", "2", "--policy", "confidence"],
            ["there are no operating points of confidence, only of geometric", "tune"],
        ),
        (
            ["--average-exit", "2", "--policy", "fixed:1"],
            ["there are no operating points of fixed:1, only of geometric"],
        ),
        (
            ["--average-exit", "2", "--policy", "geometric:0.5"],
            ["there are no operating points of geometric:0.5, only of geometric"],
        ),
    ],
)
def test_a_wish_that_cannot_be_met_is_refused(tuned: Tuned, wish: list[str], words: list[str]) -> None:
    outcome = anydepth("translate", tuned.run, *wish, stdin=LINES)
    assert_refused(outcome, *words)
    assert outcome.err.count("\n") == 1


def test_a_run_that_was_not_tuned_says_how_to_tune_it(exits_run: Path, text: Path) -> None:
    for verb, rest in (("translate", []), ("evaluate", ["--test", text / "test"])):
        outcome = anydepth(verb, exits_run, *rest, "--average-exit", 2, stdin=LINES)
        assert_refused(
            outcome, f"{exits_run} has no operating points; find some with `anydepth tune {exits_run} --valid PREFIX`"
        )


def test_points_of_other_weights_are_not_used(own_tuned_run: Path) -> None:
    earlier = min((own_tuned_run / "checkpoints").iterdir())
    shutil.copy(earlier, own_tuned_run / "model.safetensors")
    done("seal", own_tuned_run)
    done("translate", own_tuned_run, stdin=LINES)
    outcome = anydepth("translate", own_tuned_run, "--average-exit", 3, stdin=LINES)
    assert_refused(
        outcome, "were tuned for other weights than it has now", f"tune again with `anydepth tune {own_tuned_run}"
    )


def test_damaged_points_are_named(own_tuned_run: Path) -> None:
    points = own_tuned_run / "operating_points.json"
    points.write_bytes(points.read_bytes()[:-20])
    assert_refused(
        anydepth("translate", own_tuned_run, "--flops", 1, stdin=LINES), f"{points} is not as the run wrote it"
    )
    done("translate", own_tuned_run, stdin=LINES)


@pytest.fixture
def timed_run(own_tuned_run: Path) -> Path:
    """The tuned run with made-up times of another machine: the deeper, the longer."""
    run = Run(own_tuned_run)
    (found,) = load_points(run)
    points = [replace(point, time_share=point.average_exit / 4) for point in found.points]
    place = TimingPlace("Another processor", 64, 64, "native", 4096, 1)
    save_points(run, replace(found, points=tuple(points), clock=ClockRecipe(place, sentences=9, rounds=2)))
    return own_tuned_run


def test_a_wish_by_time_takes_the_best_point_and_tells_of_another_clock(timed_run: Path, text: Path) -> None:
    (found,) = load_points(Run(timed_run))
    fitting = [point for point in found.points if point.time_share is not None and point.time_share <= 0.6]
    assert 0 < len(fitting) < len(found.points)
    best = max(fitting, key=lambda point: (point.bleu, -(point.time_share or 0)))
    elsewhere = r"measured otherwise than here: \S.* with \d+ cores.*batches of"
    outcome = done("translate", timed_run, "--time", 0.6, "--beam", 1, stdin=LINES)
    assert outcome.err.startswith(f"--time 0.6: {best.describe()}, measured on ")
    assert re.search(rf"; its time was {elsewhere}", outcome.err) and outcome.err.count("\n") == 1
    assert outcome.out == done("translate", timed_run, "--policy", best.policy, "--beam", 1, stdin=LINES).out
    quick = ["--fp32", "--batch", 2, "--rounds", 1, "--sentences", 1, "--beam", 1]
    bench = done("bench", timed_run, "--test", text / "test", "--time", 0.6, *quick)
    assert re.search(rf"warning: the time of {re.escape(best.policy)} was {elsewhere} 2", bench.err)
    evaluated = done("evaluate", timed_run, "--test", text / "test", "--time", 0.6, "--beam", 1)
    assert re.search(r"warning: \S+ was timed otherwise than here: \S", evaluated.err)
    assert "otherwise" not in done("translate", timed_run, "--average-exit", 2, "--beam", 1, stdin=LINES).err


def test_python_wishes_by_time(timed_run: Path) -> None:
    translator = Translator.load(timed_run)
    (found,) = load_points(Run(timed_run))
    assert translator.tuned_policy(time=1.0).name in {point.policy for point in found.points}
    with pytest.raises(UsageError, match=r"nothing was wished for; give average_exit, flops, time or bleu_drop"):
        translator.tuned_policy()
