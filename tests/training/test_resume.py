"""Training in real processes that are killed and interrupted, and go on as if nothing had been."""

import json
import os
import random
import re
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tiny import exit_code_of, in_own_process, prepare_tiny, short_training, signal_at_write, train_in_own_process

from anydepth.config.schema import Config
from anydepth.model.checkpoint import load_tensors
from anydepth.runs.run import Run

CONFIG = short_training("training.final=average", "training.average=3")


@pytest.fixture(scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_tiny(tmp_path_factory.mktemp("prepared")).folder


@pytest.fixture(scope="module")
def undisturbed(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    assert exit_code_of(in_own_process(train_in_own_process, folder, data_folder, CONFIG)) == 0
    return Run(folder)


def metrics(run: Run) -> list[dict[str, Any]]:
    """What was measured, without what the clock says."""
    lines = [json.loads(line) for line in run.metrics_file.read_text(encoding="utf-8").splitlines()]
    return [
        {key: value for key, value in line.items() if key not in {"seconds", "tokens_per_second", "checksum"}}
        for line in lines
    ]


def assert_same_results(run: Run, expected: Run) -> None:
    weights = sorted(
        path.relative_to(expected.folder)
        for path in expected.folder.rglob("[!.]*.safetensors")
        if path != expected.state_file
    )
    assert len(weights) == 2 + CONFIG.training.average
    assert weights == sorted(
        path.relative_to(run.folder) for path in run.folder.rglob("[!.]*.safetensors") if path != run.state_file
    )
    for path in weights:
        (mine, notes), (theirs, their_notes) = load_tensors(run.folder / path), load_tensors(expected.folder / path)
        assert notes == their_notes  # safetensors writes them in any order, so the bytes of two files may differ
        assert {name: tensor.numpy().tobytes() for name, tensor in mine.items()} == {
            name: tensor.numpy().tobytes() for name, tensor in theirs.items()
        }, path
    assert metrics(run) == metrics(expected)


def progress_of(run: Run) -> dict[str, Any]:
    progress: dict[str, Any] = json.loads(load_tensors(run.state_file)[1]["progress"])
    return progress


def test_an_undisturbed_run_measures_every_update_once(undisturbed: Run) -> None:
    lines = metrics(undisturbed)
    assert [line["update"] for line in lines if line["event"] == "train"] == list(range(1, 13))
    assert [line["update"] for line in lines if line["event"] == "valid"] == [4, 8, 12]


@pytest.mark.parametrize("first", [5, *(pytest.param(first, marks=pytest.mark.soak) for first in (1, 8))])
def test_a_run_killed_at_its_writes_ends_with_the_same_bits(
    data_folder: Path, undisturbed: Run, tmp_path: Path, first: int
) -> None:
    """Each attempt is killed five flushes, renames or removals of files later than the one before,
    until one comes through."""
    run = Run(tmp_path / "run")
    for write in range(first, first + 150, 5):
        disturb = partial(signal_at_write, signal.SIGKILL, write)
        code = exit_code_of(in_own_process(train_in_own_process, run.folder, data_folder, CONFIG, disturb))
        if code == 0:
            break
        assert code == -signal.SIGKILL
    else:
        raise AssertionError("the run never ended")
    assert write > first
    assert_same_results(run, undisturbed)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 6))])
def test_a_run_killed_at_any_moment_ends_with_the_same_bits(
    data_folder: Path, undisturbed: Run, tmp_path: Path, seed: int
) -> None:
    run, randomness = Run(tmp_path / "run"), random.Random(seed)
    for _ in range(3):
        process = in_own_process(train_in_own_process, run.folder, data_folder, CONFIG)
        before = run.metrics_file.stat().st_size if run.metrics_file.exists() else 0
        while process.is_alive() and not (run.metrics_file.exists() and run.metrics_file.stat().st_size != before):
            time.sleep(0.001)
        process.join(randomness.uniform(0, 0.05))
        process.kill()
        process.join()
        assert process.exitcode in {0, -signal.SIGKILL}
    assert exit_code_of(in_own_process(train_in_own_process, run.folder, data_folder, CONFIG)) == 0
    assert_same_results(run, undisturbed)


def test_ctrl_c_leaves_a_state_and_one_sentence(data_folder: Path, tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    endless = short_training("training.updates=1000000", "training.save_every=1000000")
    process = in_own_process(train_in_own_process, run.folder, data_folder, endless)
    while not run.metrics_file.exists() or run.metrics_file.read_bytes().count(b"\n") < 3:
        assert process.is_alive()
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    assert exit_code_of(process) == 130
    sentence = run.folder.with_suffix(".error").read_text(encoding="utf-8")
    names = (re.escape(str(name)) for name in (run.weights_file, run.folder))
    how = r"go on with `anydepth train --resume --to {}`"
    words = rf"stopped after update (\d+); {{}} has the weights of (the last .*|the best .*) so far; {how}"
    said = re.fullmatch(words.format(*names), sentence)
    assert said is not None, sentence
    assert progress_of(run)["update"] == int(said[1]) == metrics(run)[-1]["update"]
    assert load_tensors(run.weights_file)[1] == {"interrupted": said[1], "weights": said[2]}
    assert run.interrupted_at() == int(said[1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_goes_on_as_if_nothing_had_been(
    data_folder: Path, undisturbed: Run, tmp_path: Path, number: int
) -> None:
    """The signal comes while the second validation keeps its weights, between two of the
    checkpoints that are averaged."""
    run = Run(tmp_path / "run")
    disturb = partial(signal_at_write, number, 39)
    assert exit_code_of(in_own_process(train_in_own_process, run.folder, data_folder, CONFIG, disturb)) == 130
    assert progress_of(run)["update"] == run.interrupted_at() == 8
    assert exit_code_of(in_own_process(train_in_own_process, run.folder, data_folder, CONFIG)) == 0
    assert_same_results(run, undisturbed)
    assert run.interrupted_at() is None


def test_going_on_after_the_end_changes_nothing(data_folder: Path, undisturbed: Run) -> None:
    before = undisturbed.weights_file.read_bytes()
    assert exit_code_of(in_own_process(train_in_own_process, undisturbed.folder, data_folder, CONFIG)) == 0
    assert undisturbed.weights_file.read_bytes() == before
    assert progress_of(undisturbed)["update"] == CONFIG.training.updates


@pytest.mark.parametrize(
    "change", ["training.mode=mixed", "training.accumulation=2", "model.classifiers=tied", "training.optimizer=muon"]
)
def test_every_kind_of_training_goes_on_with_the_same_bits(data_folder: Path, tmp_path: Path, change: str) -> None:
    config: Config = short_training("training.final=last", "training.updates=5", change)
    whole, parted = Run(tmp_path / "whole"), Run(tmp_path / "parted")
    assert exit_code_of(in_own_process(train_in_own_process, whole.folder, data_folder, config)) == 0
    disturb = partial(signal_at_write, signal.SIGKILL, 17)
    assert (
        exit_code_of(in_own_process(train_in_own_process, parted.folder, data_folder, config, disturb))
        == -signal.SIGKILL
    )
    assert progress_of(parted)["update"] == 3
    assert exit_code_of(in_own_process(train_in_own_process, parted.folder, data_folder, config)) == 0
    assert whole.weights_file.read_bytes() == parted.weights_file.read_bytes()
