"""The whole way from a MarianMT folder and source text: a run with exits whose frozen full depth is
the original's, made once, whatever happens on the way."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from marian_folders import save_marian, small_pairs

from anydepth.adding_exits import whole_way
from anydepth.adding_exits.exit_training import check_trunk
from anydepth.adding_exits.whole_way import ExitsAsked, adopt_with_exits
from anydepth.adding_exits.work_folder import Trunk
from anydepth.clock.machine import has_bfloat16
from anydepth.errors import AdoptionError, Interrupted, RunError, TrainingError
from anydepth.inference.checking import check_folder
from anydepth.inference.translator import Translator
from anydepth.messages.say import say_nothing
from anydepth.model.checkpoint import load_weights, save_tensors
from anydepth.runs.checked_vocabulary import load_checked
from anydepth.runs.operating_points import load_points
from anydepth.runs.run import Run
from anydepth.tuning.tune import TuneSettings

TUNED = TuneSettings(objective="average-exit", candidates=30, segment=0.5, decoded=1, rounds=1, timed=5)
MINUTES = 0.03  # of which the training takes most, by its own clock
LINES = [german for german, _ in small_pairs(1300)]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, a text, and little to tune."""
    monkeypatch.setattr(whole_way, "TUNING", TUNED)
    save_marian(tmp_path / "opus", search={"num_beams": 1, "max_length": 12})
    (tmp_path / "mono.de").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return tmp_path


def go(place: Path, trunk: Trunk, said: list[str], **changes: bool) -> str:
    asked = ExitsAsked(text=place / "mono.de", minutes=MINUTES, trunk=trunk)
    return adopt_with_exits(place / "opus", place / "run", asked, say=said.append, clock=lambda: 0.0, **changes)


def rows(table: str) -> list[list[str]]:
    return [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()]


def test_a_frozen_trunk_is_the_original_and_a_stopped_command_goes_on(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise Interrupted("stopped")

    said: list[str] = []
    with monkeypatch.context() as stopped:
        stopped.setattr(whole_way, "tune_sets", stop)
        with pytest.raises(Interrupted, match=r"stopped; the same command goes on from what is in .*run.work"):
            go(place, "frozen", said)
    assert not (place / "run").exists()
    told = r"all [\d,]+ weights of full depth are the original's, bit for bit, and (\d+) of \1 held-out translations"
    assert any(re.match(told, line) for line in said)
    with pytest.raises(
        AdoptionError, match=r"run.work was begun with --trunk frozen; give the same arguments to go on"
    ):
        go(place, "trained", [])

    said.clear()
    table = go(place, "frozen", said)
    assert [line for line in said if line.endswith("already") or "already; to train" in line] == [
        "adopted already",
        "prepared already",
        f"trained already; to train again remove {place / 'run.work' / 'run'}",
        "learned already",
    ]
    run, original = Run(place / "run"), Run(place / "run.work" / "original")
    check_folder(run.folder)
    assert check_trunk(original, run) > 0 and run.config.model.exit_adapter
    full = [each.text for each in Translator.load(run.folder).translate(LINES[:20])]
    assert full == [each.text for each in Translator.load(original.folder).translate(LINES[:20])]
    words = load_checked(run)
    assert words is not None and words.chosen is None and words.measured[1].coverage > 0.97, "else this shows little"
    assert {point.vocabulary for point in load_points(run)[0].points[:-1]} == {"table:20"}
    first, second, *points = rows(table)[1:-3]
    assert first == ["original", "full depth", "3.00", "100.00", "100.0", "100.0", "full"]
    assert second == ["run", "full depth", "3.00", "100.00", "100.0", "100.0", "full"]
    assert len(points) == len(load_points(run)[0].points) - 1
    noted = run.original()
    assert noted is not None and noted.folder == str(place / "opus")

    said.clear()
    assert go(place, "frozen", said) == table
    assert said == [f"{run.folder} is finished already; start anew with --overwrite"]
    with pytest.raises(RunError, match=r"run exists already; choose another --to, or replace it with --overwrite"):
        go(place, "trained", [])


@pytest.mark.soak
def test_all_weights_are_trained_and_a_finished_run_is_replaced_when_asked(place: Path) -> None:
    go(place, "frozen", [])
    table = go(place, "trained", [], overwrite=True)
    run = Run(place / "run")
    assert run.config.training.trunk == "trained" and not run.config.model.exit_adapter
    with pytest.raises(TrainingError, match=r" is not that of .*original, although the trunk was frozen; remove"):
        check_trunk(Run(place / "run.work" / "original"), run)
    assert rows(table)[1][0] == "original"
    check_folder(run.folder)
    assert sorted(each.name for each in place.iterdir()) == ["mono.de", "opus", "run", "run.work"]


def test_what_cannot_get_exits_is_refused_and_nothing_is_written(place: Path) -> None:
    def refused(match: str, *, model: str = "opus", text: str = "mono.de") -> None:
        asked = ExitsAsked(text=place / text, minutes=MINUTES)
        with pytest.raises(AdoptionError, match=match):
            adopt_with_exits(place / model, place / "new", asked, say=say_nothing)
        assert not (place / "new").exists() and not (place / "new.work").exists()

    refused(r"--text .*none.de is not a file; give text in the source language, one sentence per line", text="none.de")
    save_marian(place / "shallow", decoder_layers=1)
    refused(r"shallow has one decoder block, so there is no exit to add; adopt it without --text", model="shallow")
    (place / "opus" / "model.safetensors").write_bytes(b"damaged")
    refused(r"model.safetensors is damaged")


def test_a_trunk_with_another_weight_is_noticed(place: Path) -> None:
    from anydepth.inference.adopt.adoption import adopt

    first, second = (adopt(place / "opus", place / name, say=say_nothing) for name in ("first", "second"))
    assert check_trunk(first, second) == sum(each.numel() for each in load_weights(first.weights_file)[0].values())
    tensors = load_weights(second.weights_file)[0]
    tensors["encoder.0.feed_forward.inner.bias"][2] += 1e-6
    save_tensors(second.weights_file, tensors)
    with pytest.raises(TrainingError, match=r"^encoder.0.feed_forward.inner.bias of .*second is not that of .*first"):
        check_trunk(first, second)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["processor: 0", "flags\t\t: fpu avx512f avx512_bf16"], True),
        (["Features\t: fp asimd bf16"], True),
        (["flags\t\t: fpu avx2"], False),
        ([], False),
    ],
)
def test_bfloat16_is_found_among_the_processor_s_flags(lines: Sequence[str], expected: bool, tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("\n".join(lines), encoding="utf-8")
    assert has_bfloat16(tmp_path / "cpuinfo") == expected
    assert not has_bfloat16(tmp_path / "none")
