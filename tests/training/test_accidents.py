"""Training through accidents: losses that are not numbers, full and read-only disks, data that goes
away. Each is told in one sentence, and the last state stays."""

import errno
import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tiny import short_training, train

from anydepth.errors import AnydepthError, CorpusError, TrainingError
from anydepth.model.checkpoint import load_tensors, not_finite
from anydepth.runs.run import Run, create_run
from anydepth.text.batches import BatchStream, Position
from anydepth.text.prepared import PreparedData
from anydepth.training import loop
from anydepth.training.loop import Training
from anydepth.training.reporting import RecentMeans
from anydepth.training.start import resumed_run, train_run
from anydepth.training.update import UpdateSums, accumulate_gradients

SHORT = ("training.updates=6", "training.save_every=2", "validation.every=3", "training.final=last")


def spoil(monkeypatch: pytest.MonkeyPatch, updates: Collection[int], what: str = "loss") -> None:
    """Makes the loss or the gradient of these updates no number."""

    def accumulate(objective: Any, *arguments: Any, update: int, **options: Any) -> UpdateSums:
        sums = accumulate_gradients(objective, *arguments, update=update, **options)
        if update in updates and what == "loss":
            return replace(sums, loss=math.nan, batch_losses=[math.nan for _ in sums.batch_losses])
        if update in updates:
            next(objective.parameters()).grad.view(-1)[0] = math.inf
        return sums

    monkeypatch.setattr(loop, "accumulate_gradients", accumulate)


def at_update(monkeypatch: pytest.MonkeyPatch, number: int, happen: Callable[[], object]) -> None:
    """Lets something happen once, after update `number` was reported."""
    report = Training.report

    def watched(training: Training, recent: RecentMeans, rate: float) -> None:
        report(training, recent, rate)
        if training.progress.update == number:
            monkeypatch.setattr(Training, "report", report)
            happen()

    monkeypatch.setattr(Training, "report", watched)


def progress_of(run: Run) -> dict[str, Any]:
    progress: dict[str, Any] = json.loads(load_tensors(run.state_file)[1]["progress"])
    return progress


def left_out_lines(run: Run) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in run.metrics_file.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["event"] == "left out"]


def pairs_of(data: PreparedData, run: Run, update: int) -> list[int]:
    """The numbers, from 1, of the pairs of an update of one batch."""
    config = run.config.training
    stream = BatchStream(data.pairs("train"), max_tokens=config.batch_tokens, seed=config.seed)
    (indices,) = (found for found, _ in islice(stream.from_position(Position()), update - 1, update))
    return sorted(number + 1 for number in indices.tolist())


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_an_update_that_is_not_a_number_is_left_out_told_and_goes_on_with_the_same_bits(
    data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    spoil(monkeypatch, {1, 4}, what)
    whole, parted = (create_run(tmp_path / name, short_training(*SHORT), data) for name in ("whole", "parted"))
    train(whole, data)
    pairs = ", ".join(str(number) for number in pairs_of(data, whole, 4)[:20])
    log = whole.log_file.read_text(encoding="utf-8")
    assert f"update 4 is left out: the {what} is not a number in the batch of training pairs {pairs}" in log
    assert log.count("left out so far: 2, 1 in a row\n") == 1
    assert [(line["update"], line["left_out"], line["in_a_row"]) for line in left_out_lines(whole)] == [
        (1, 1, 1),
        (4, 2, 1),
    ]
    assert what in left_out_lines(whole)[1]["reason"]
    assert progress_of(whole)["left_out"] == 2
    assert not not_finite(load_tensors(whole.state_file)[0])

    def stop() -> None:
        raise KeyboardInterrupt

    at_update(monkeypatch, 5, stop)
    with pytest.raises(KeyboardInterrupt):
        train(parted, data)
    assert progress_of(parted)["update"] == 4
    train(parted, data, resume=True)
    assert parted.weights_file.read_bytes() == whole.weights_file.read_bytes()
    assert left_out_lines(parted)[1]["reason"] == left_out_lines(whole)[1]["reason"]


def test_training_stops_with_a_state_after_as_many_left_out_updates_in_a_row_as_are_allowed(
    data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(tmp_path / "run", short_training(*SHORT, "training.left_out_in_a_row=2"), data)
    spoil(monkeypatch, {3, 4, 5})
    words = (
        r"^update 5 cannot be made: the loss is not a number in the batch of training pairs .*; 2 were left out before "
        rf"it, as many as training.left_out_in_a_row allows; {re.escape(str(run.state_file))} still holds the last "
    )
    with pytest.raises(TrainingError, match=words):
        train(run, data)
    assert (progress_of(run)["update"], progress_of(run)["left_out"]) == (4, 2)
    assert not run.weights_file.exists()
    with pytest.raises(TrainingError, match=r"^update 5 cannot be made"):
        train(run, data, resume=True)
    resumed_run(run.folder, ["training.left_out_in_a_row=3"])
    train(run, data, resume=True)
    assert progress_of(run)["left_out"] == 3
    assert not not_finite(load_tensors(run.weights_file)[0])


def test_training_stops_after_as_many_left_out_updates_as_are_allowed_in_all(
    data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(tmp_path / "run", short_training(*SHORT, "training.left_out=1"), data)
    spoil(monkeypatch, {1, 5})
    with pytest.raises(TrainingError, match=r"^update 5 .*; 1 were left out before it, as many as training.left_out "):
        train(run, data)
    assert progress_of(run)["update"] == 4


def test_moments_that_are_not_numbers_are_never_saved(
    data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(tmp_path / "run", short_training(*SHORT), data)
    report = Training.report

    def spoilt(training: Training, recent: RecentMeans, rate: float) -> None:
        report(training, recent, rate)
        if training.progress.update == 4:
            training.optimizer.state[training.model.source_embedding.weight]["exp_avg_sq"][0, 0] = math.inf

    monkeypatch.setattr(Training, "report", spoilt)
    with pytest.raises(TrainingError, match=r"after update 4 \(exp_avg_sq\.source_embedding\.weight\)"):
        train(run, data)
    assert progress_of(run)["update"] == 2


def test_a_validation_that_is_not_a_number_is_neither_the_best_nor_measured(
    data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(tmp_path / "run", short_training(*SHORT), data)
    monkeypatch.setattr(loop, "validation_losses", lambda *_, **__: [math.nan, 1.0])
    train(run, data)
    assert progress_of(run)["best"] is None
    assert "NaN" not in run.metrics_file.read_text(encoding="utf-8")
    train(run, data, resume=True)  # what was saved can be read


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 MB; skipped where none can be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> Path:
    """A file that takes all the space there is."""
    filler = place / "filler"
    with open(filler, "wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(bytes(65536))
    return filler


def test_a_full_disk_is_told_in_one_sentence_and_training_goes_on_once_there_is_space(
    data: PreparedData, tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, whole = (create_run(place / "run", short_training(*SHORT), data) for place in (small_disk, tmp_path))
    at_update(monkeypatch, 3, lambda: fill(small_disk))
    words = rf"^cannot write {re.escape(str(run.folder))}/.*: No space left on device; free some space or choose"
    with pytest.raises(AnydepthError, match=words):
        train(run, data)
    assert progress_of(run)["update"] == 2
    assert not list(run.folder.rglob(".*.tmp"))
    (small_disk / "filler").unlink()
    train(run, data, resume=True)
    train(whole, data)
    assert run.weights_file.read_bytes() == whole.weights_file.read_bytes()


def test_a_disk_that_is_full_for_the_log_says_which_file_could_not_be_written(
    data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(tmp_path / "run", short_training(*SHORT), data)
    full = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115 (the reporter closes it)
    opened = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, *rest, **named: full if path == run.log_file else opened(path, *rest, **named)
    )
    with pytest.raises(AnydepthError, match=r"^cannot write /dev/full: No space left on device; free some space"):
        train(run, data)


def test_a_folder_that_becomes_read_only_keeps_the_last_state(
    data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(tmp_path / "run", short_training(*SHORT), data)

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    at_update(monkeypatch, 3, lambda: monkeypatch.setattr(os, "replace", refuse))
    with pytest.raises(AnydepthError, match=r"^cannot write .*: Read-only file system; check the path and its perm"):
        train(run, data)
    monkeypatch.undo()
    assert progress_of(run)["update"] == 2
    assert not list(run.folder.rglob(".*.tmp"))


def test_training_does_not_go_on_in_a_folder_that_is_read_only(
    data: PreparedData, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(small_disk / "run", short_training("training.updates=2"), data)
    train(run, data)
    before = run.state_file.read_bytes()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(AnydepthError, match=r"^cannot write .*run: Read-only file system; check the path and its perm"):
        train_run(run.folder, lambda: resumed_run(run.folder, ["training.updates=4"]))
    assert run.state_file.read_bytes() == before


@pytest.mark.parametrize("kind", ["tokens", "offsets"])
def test_token_files_that_are_cut_short_during_training_are_named_and_the_state_stays(
    data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    own = PreparedData.open(Path(shutil.copytree(data.folder, tmp_path / "data")))
    run, file = create_run(tmp_path / "run", short_training(*SHORT), own), own.folder / f"train.en.{kind}"
    at_update(monkeypatch, 3, lambda: os.truncate(file, 5))
    with pytest.raises(CorpusError, match=rf"^{re.escape(str(file))} was cut short while it was in use; prepare the"):
        train(run, own)
    assert progress_of(run)["update"] == 2
    with pytest.raises(CorpusError, match=rf"^{re.escape(str(file))} has 5 bytes but the manifest says "):
        resumed_run(run.folder, [])
    shutil.copyfile(data.folder / file.name, file)
    train(run, PreparedData.open(own.folder), resume=True)
    whole = create_run(tmp_path / "whole", short_training(*SHORT), data)
    train(whole, data)
    assert run.weights_file.read_bytes() == whole.weights_file.read_bytes()


def test_data_that_is_removed_during_training_is_missed_at_the_next_validation(
    data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = PreparedData.open(Path(shutil.copytree(data.folder, tmp_path / "data")))
    run = create_run(tmp_path / "run", short_training(*SHORT), own)
    at_update(monkeypatch, 4, lambda: shutil.rmtree(own.folder))
    with pytest.raises(CorpusError, match=r"valid\.de\.tokens is no longer there; bring the data back, or prepare it"):
        train(run, own)
    assert progress_of(run)["update"] == 4
