"""tune: points for every budget, stored with the run and shown; text that thresholds must not be
tuned on is refused."""

import json
import shutil
from pathlib import Path

import pytest
from cli.commands import anydepth, assert_refused, contents, done
from cli.conftest import HELD_OUT, TUNING, Tuned

from anydepth.runs.operating_points import OperatingPoint

SMALL = ["--objective", "average-exit", "--candidates", 2, "--method", "decode", "--beam", 1]


@pytest.fixture
def own_exits_run(exits_run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(exits_run, tmp_path / "own-exits-run")


def test_the_table_shows_every_stored_point_and_the_recipe(tuned: Tuned, held_out: Path) -> None:
    head, *rows, full, recipe = tuned.outcome.out.splitlines()
    assert [part.strip() for part in head.split("  ") if part.strip()] == ["policy", "BLEU", "AE", "% of the FLOPs"]
    assert [row.split() for row in rows] == [
        [point.policy, f"{point.bleu:.2f}", f"{point.average_exit:.2f}", f"{100 * point.flops_share:.1f}"]
        for point in tuned.points
    ]
    assert len(rows) > 2
    assert full.startswith("full depth  BLEU ")
    for part in (
        "replay of 30 candidates for average-exit, seed 1",
        f"valid {held_out} ({HELD_OUT} sentences)",
        "beam 1",
        "length penalty 1",
    ):
        assert part in recipe


def test_talk_goes_to_standard_error(tuned: Tuned) -> None:
    first, second, *_ = tuned.outcome.err.splitlines()
    assert first == f"tuning geometric for average-exit on {HELD_OUT} sentences by replay of 30 candidates"
    assert second.startswith("full depth: BLEU ")


def test_json_is_the_set_that_is_stored_and_other_sets_stay(own_tuned_run: Path, held_out: Path) -> None:
    shown = json.loads(done("tune", own_tuned_run, "--valid", held_out, "--policy", "confidence", *SMALL, "--json").out)
    stored = json.loads((own_tuned_run / "operating_points.json").read_text(encoding="utf-8"))["sets"]
    assert shown == stored[1]
    assert [each["policy"] for each in stored] == ["geometric", "confidence"]
    assert (shown["method"], shown["candidates"], shown["sentences"]) == ("decode", 2, HELD_OUT)


def test_a_run_without_a_halting_module_is_tuned_by_confidence(own_run: Path, held_out: Path) -> None:
    shown = json.loads(done("tune", own_run, "--valid", held_out, *SMALL, "--json").out)
    assert shown["policy"] == "confidence"
    *others, full = (point["policy"] for point in shown["points"])
    assert full.startswith("fixed:") and others and all(policy.startswith("confidence:") for policy in others)


def test_tuning_adds_two_files_to_the_run_and_changes_none_but_its_seal(exits_run: Path, tuned: Tuned) -> None:
    before, after = contents(exits_run), contents(tuned.run)
    assert after.keys() - before.keys() == {"operating_points.json", "tuning.jsonl"}
    assert {name for name in before if after[name] != before[name]} == {"seal.json"}


def test_tuning_again_gives_the_same_table(own_tuned_run: Path, tuned: Tuned, held_out: Path) -> None:
    before = contents(own_tuned_run)
    again = done("tune", own_tuned_run, "--valid", held_out, *TUNING)
    assert again.out == tuned.outcome.out
    assert contents(own_tuned_run) == before


def test_text_that_was_trained_on_is_refused_and_nothing_is_written(own_exits_run: Path, text: Path) -> None:
    before = contents(own_exits_run)
    outcome = anydepth("tune", own_exits_run, "--valid", text / "train", *SMALL)
    assert_refused(
        outcome,
        f"60 of the 60 pairs of {text / 'train'} are in the training text (the first is line 1)",
        "held-out text",
    )
    assert contents(own_exits_run) == before


@pytest.mark.parametrize("lines", ["", "\n \n"], ids=["no lines", "blank lines"])
def test_text_without_sentences_is_refused_and_nothing_is_written(
    own_exits_run: Path, tmp_path: Path, lines: str
) -> None:
    for language in ("de", "en"):
        (tmp_path / f"none.{language}").write_text(lines, encoding="utf-8")
    before = contents(own_exits_run)
    assert_refused(anydepth("tune", own_exits_run, "--valid", tmp_path / "none"), str(tmp_path / "none.de"))
    assert contents(own_exits_run) == before


def test_a_run_whose_training_text_is_gone_is_tuned_with_a_warning(
    own_exits_run: Path, held_out: Path, tmp_path: Path
) -> None:
    note = json.loads((own_exits_run / "data.json").read_text(encoding="utf-8"))
    (own_exits_run / "data.json").write_text(json.dumps(note | {"folder": str(tmp_path / "gone")}), encoding="utf-8")
    done("seal", own_exits_run)
    warning, *_ = done("tune", own_exits_run, "--valid", held_out, *SMALL).err.splitlines()
    assert warning.startswith(
        f"warning: the training text is no longer at {tmp_path / 'gone'}, so whether {held_out} is part of it"
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--method", "guess"], ["--method guess is unknown; use replay or decode"]),
        (["--objective", "fun"], ["--objective fun is unknown; use time, flops, average-exit"]),
        (["--judge", "chance"], ["--judge chance is unknown; use references, full-depth"]),
        (["--vocabulary", "tabel"], ["there is no vocabulary setting 'tabel'; did you mean table?"]),
        (["--vocabulary", "table:50"], ["has no lexical table"]),
        (["--policy", "fixed:2"], ["fixed has no thresholds; those that have: geometric, confidence"]),
        (["--policy", "multinomial"], ["multinomial takes the most probable exit", "exits.exit_penalty"]),
        (["--policy", "geometric:0.5"], ["tuning finds the thresholds", "as in geometric"]),
        (["--valid", "nowhere"], ["there is neither nowhere.de nor nowhere.de.gz"]),
    ],
)
def test_what_cannot_be_tuned_is_refused(exits_run: Path, held_out: Path, options: list[str], words: list[str]) -> None:
    assert_refused(anydepth("tune", exits_run, "--valid", held_out, *options), *words)


def test_a_policy_that_the_run_was_not_trained_for_cannot_be_tuned(run: Path, held_out: Path) -> None:
    outcome = anydepth("tune", run, "--valid", held_out, "--policy", "geometric")
    assert_refused(
        outcome, "was not trained with the geometric halting module (it has none)", "--set exits.halting=geometric"
    )


def test_damaged_points_are_named_before_any_work(own_tuned_run: Path, held_out: Path) -> None:
    (own_tuned_run / "operating_points.json").write_text("{", encoding="utf-8")
    outcome = anydepth("tune", own_tuned_run, "--valid", held_out, *SMALL)
    assert_refused(outcome, f"{own_tuned_run / 'operating_points.json'} is not as the run wrote it")
    assert outcome.err.count("\n") == 1


def test_clock_only_gives_the_stored_points_times_and_changes_nothing_else(own_tuned_run: Path, tuned: Tuned) -> None:
    quick = ["--rounds", 1, "--timed", 3, "--batch", 2]
    outcome = done("tune", own_tuned_run, "--clock-only", *quick)
    (found,) = json.loads((own_tuned_run / "operating_points.json").read_text(encoding="utf-8"))["sets"]
    assert found["clock"]["sentences"] == 3 and found["clock"]["place"]["batch_sentences"] == 2
    assert all(point["time_share"] > 0 for point in found["points"])
    assert [OperatingPoint(**point | {"time_share": None}) for point in found["points"]] == tuned.points
    assert "% of the time" in outcome.out.splitlines()[0]
    assert outcome.out.splitlines()[-1].startswith("clock ")
    assert outcome.out.splitlines()[-1].endswith(" | 3 sentences, 1 rounds with full depth in each, medians")


def test_clock_only_needs_points(exits_run: Path) -> None:
    assert_refused(anydepth("tune", exits_run, "--clock-only"), f"{exits_run} has no operating points")


def test_tuning_needs_held_out_text(exits_run: Path) -> None:
    assert_refused(anydepth("tune", exits_run), "tuning needs held-out text; give --valid PREFIX")


def test_several_policies_are_tuned_at_once_and_shown_one_after_the_other(own_exits_run: Path, held_out: Path) -> None:
    policies = ["--policy", "confidence", "--policy", "geometric"]
    outcome = done("tune", own_exits_run, "--valid", held_out, *policies, *SMALL)
    assert [line.split()[0] for line in outcome.out.splitlines()].count("recipe") == 2
    stored = json.loads((own_exits_run / "operating_points.json").read_text(encoding="utf-8"))["sets"]
    assert [found["policy"] for found in stored] == ["confidence", "geometric"]


def test_the_oracle_is_told_and_not_stored(exits_run: Path, held_out: Path) -> None:
    before = contents(exits_run)
    told = done("tune", exits_run, "--valid", held_out, "--oracle").out
    assert told.startswith("oracle that leaves where the best word is full depth's: BLEU ")
    found = json.loads(done("tune", exits_run, "--valid", held_out, "--oracle", "--json").out)
    assert f"AE {found['oracle_average_exit']:.2f}" in told
    assert contents(exits_run) == before
