"""From a command to a run: what a new run has, what a resumed run may change, and several processes
that train one run."""

import json
import re
from pathlib import Path

import pytest
from tiny import exit_code_of, free_port, in_own_process, prepare_tiny, short_training, train_as_worker
from training.metrics import train_losses

from anydepth.config.loading import save_config
from anydepth.errors import ConfigError, CorpusError, RunError
from anydepth.files.seal import write_text
from anydepth.runs.run import Run, create_run
from anydepth.text.prepared import PreparedData
from anydepth.training.start import new_run, resumed_run, train_run, training_data


def test_a_new_run_has_the_settings_of_its_file_and_the_changes(data: PreparedData, tmp_path: Path) -> None:
    save_config(short_training(), tmp_path / "tiny.toml")
    run = new_run(tmp_path / "run", tmp_path / "tiny.toml", data.folder, ["training.updates=2"], overwrite=False)
    assert run.config == short_training("training.updates=2")


def test_a_run_gone_on_with_for_longer_is_one_that_was_long_from_the_start(data: PreparedData, tmp_path: Path) -> None:
    long, grown = Run(tmp_path / "long"), Run(tmp_path / "grown")
    train_run(
        long.folder,
        lambda: create_run(long.folder, short_training("training.updates=6"), data),
    )
    train_run(
        grown.folder,
        lambda: create_run(grown.folder, short_training("training.updates=3"), data),
    )
    train_run(grown.folder, lambda: resumed_run(grown.folder, ["training.updates=6"]))
    assert grown.config == long.config
    assert grown.weights_file.read_bytes() == long.weights_file.read_bytes()
    assert train_losses(grown) == train_losses(long)


@pytest.mark.parametrize("change", ["training.seed=2", "model.blocks=2", "training.learning_rate=1", "nonsense"])
def test_a_resumed_run_keeps_what_it_computes(data: PreparedData, tmp_path: Path, change: str) -> None:
    run = create_run(tmp_path / "run", short_training(), data)
    with pytest.raises(
        ConfigError, match=rf"--set {re.escape(change)}: a resumed run keeps its settings, except updates, minutes"
    ):
        resumed_run(run.folder, [change])
    assert run.config == short_training()


def test_other_data_at_the_same_place_is_refused(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", short_training(), data)
    assert training_data(run).fingerprint == data.fingerprint
    write_text(run.data_file, json.dumps(run.data_note() | {"fingerprint": "another"}))
    with pytest.raises(
        RunError, match=rf"is not the data that {re.escape(str(run.folder))} was made with \(its fingerprint differs\)"
    ):
        training_data(run)


def test_two_processes_train_the_run_that_one_trains_with_twice_the_accumulation(
    data: PreparedData, tmp_path: Path
) -> None:
    port = free_port()
    one, two = Run(tmp_path / "one"), Run(tmp_path / "two")
    processes = [
        in_own_process(train_as_worker, rank, 2, port, two.folder, data.folder, short_training("training.updates=4"))
        for rank in range(2)
    ]
    config = short_training("training.updates=4", "training.accumulation=2")
    train_run(one.folder, lambda: create_run(one.folder, config, data))
    assert [exit_code_of(process) for process in processes] == [0, 0]
    assert train_losses(two) == pytest.approx(train_losses(one), rel=1e-4)
    assert two.best_files()
    assert two.weights_file.exists()


def test_a_run_finds_its_data_where_it_has_moved_to(tmp_path: Path) -> None:
    prepared = prepare_tiny(tmp_path)
    run = create_run(tmp_path / "run", short_training(), prepared)
    moved = prepared.folder.rename(tmp_path / "moved")
    with pytest.raises(RunError, match=r"is no longer at .*data; say where it is with --data$"):
        resumed_run(run.folder, [])
    assert training_data(resumed_run(run.folder, [], data_folder=moved)).folder == moved
    assert training_data(run).folder == moved.resolve()


def test_settings_that_make_no_model_cost_no_earlier_run(data: PreparedData, tmp_path: Path) -> None:
    joint = prepare_tiny(tmp_path, joint=True)
    run = create_run(tmp_path / "run", short_training(), joint)
    before = sorted(run.folder.rglob("*"))
    with pytest.raises(ConfigError, match="ties both embeddings"):
        create_run(run.folder, short_training("model.classifiers=tied"), joint, overwrite=True)
    assert run.config == short_training()
    assert sorted(run.folder.rglob("*")) == before
    assert not (tmp_path / ".run.tmp").exists()


def test_token_files_that_have_changed_are_refused_before_a_run_is_made(tmp_path: Path) -> None:
    prepared = prepare_tiny(tmp_path)
    file = prepared.folder / "train.de.tokens"
    file.write_bytes(bytes(reversed(file.read_bytes())))
    with pytest.raises(CorpusError, match=r"train.de.tokens has changed since it was prepared"):
        create_run(tmp_path / "run", short_training(), prepared)
    assert not (tmp_path / "run").exists()


def test_a_run_whose_budget_is_spent_says_how_to_train_on(
    data: PreparedData, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = Run(tmp_path / "run")
    train_run(
        run.folder,
        lambda: create_run(run.folder, short_training("training.updates=2"), data),
    )
    weights = run.weights_file.read_bytes()
    train_run(run.folder, lambda: resumed_run(run.folder, []))
    assert (
        "the budget was spent after update 2; to train on, raise training.updates or --minutes"
        in capfd.readouterr().err
    )
    assert run.weights_file.read_bytes() == weights
