"""The seal of a run: every file of it is known by its checksum, and no moment of a run's life is
refused."""

import json
import re
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from damages import cut, flip, lengthen
from tiny import (
    exit_code_of,
    in_own_process,
    prepare_tiny,
    short_training,
    signal_at_write,
    train,
    train_in_own_process,
)

from anydepth.errors import CorpusError, RunError
from anydepth.files.checksums import file_hash
from anydepth.inference.translator import Translator
from anydepth.model.checkpoint import save_tensors
from anydepth.runs.run import Run, create_run
from anydepth.runs.vouching import seal_run
from anydepth.text.prepared import PreparedData
from anydepth.training.start import resumed_run, train_run

CONFIG = short_training("training.final=average", "training.average=3")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    return prepare_tiny(tmp_path_factory.mktemp("prepared"))


@pytest.fixture(scope="module")
def trained(data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = create_run(tmp_path_factory.mktemp("trained") / "run", CONFIG, data)
    train(run, data)
    return run


@pytest.fixture(scope="module")
def sibling(data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of the same shape from another seed."""
    run = create_run(
        tmp_path_factory.mktemp("sibling") / "run", short_training("training.final=average", "training.seed=2"), data
    )
    train(run, data)
    return run


@pytest.fixture
def own(trained: Run, tmp_path: Path) -> Run:
    return Run(Path(shutil.copytree(trained.folder, tmp_path / "run")))


def resume(run: Run, *changes: str) -> None:
    train_run(run.folder, lambda: resumed_run(run.folder, list(changes)))


def test_every_file_of_a_trained_run_but_its_log_and_metrics_is_listed_with_its_hash(trained: Run) -> None:
    files = {path.relative_to(trained.folder).as_posix(): path for path in trained.folder.rglob("*") if path.is_file()}
    loose = {"seal.json", ".seal.json.lock", "train.log", "metrics.jsonl"}
    assert trained.seal.contents().files == {
        name: [file_hash(path)] for name, path in files.items() if name not in loose
    }
    assert trained.seal.contents().metrics[0] == trained.metrics_file.stat().st_size
    assert len(trained.checkpoints()) == 3


@pytest.mark.parametrize(
    "name", ["config.toml", "tokenizer.source.model", "tokenizer.target.model", "model.safetensors"]
)
@pytest.mark.parametrize("damage", [flip, cut, lengthen])
def test_a_damaged_file_is_refused_by_name_with_the_cure(own: Run, name: str, damage: Callable[[Path], None]) -> None:
    damage(own.folder / name)
    vouch = re.escape(
        f"{own.folder / name} is not as the run wrote it (its checksum differs); restore it from a copy, or "
        "vouch for it"
    )
    with pytest.raises(RunError, match=rf"^{vouch} with `anydepth seal {re.escape(str(own.folder))}`$"):
        Translator.load(own.folder)


def test_the_weights_and_settings_of_a_sibling_are_refused(own: Run, sibling: Run) -> None:
    for name in ("model.safetensors", "config.toml"):
        before = (own.folder / name).read_bytes()
        assert name == "config.toml" or len(before) == (sibling.folder / name).stat().st_size
        shutil.copy(sibling.folder / name, own.folder / name)
        with pytest.raises(RunError, match=rf"{name} is not as the run wrote it"):
            Translator.load(own.folder)
        (own.folder / name).write_bytes(before)
    Translator.load(own.folder)


def test_two_files_that_changed_places_are_refused(own: Run) -> None:
    weights, best = own.weights_file.read_bytes(), own.best_files()[0].read_bytes()
    own.weights_file.write_bytes(best)
    own.best_files()[0].write_bytes(weights)
    with pytest.raises(RunError, match=r"model\.safetensors is not as the run wrote it"):
        Translator.load(own.folder)


def test_a_run_without_a_seal_or_with_a_damaged_one_is_refused_until_somebody_vouches_for_it(own: Run) -> None:
    flip(own.seal.file)
    with pytest.raises(
        RunError, match=rf"seal\.json is damaged \(.*\); .* `anydepth seal {re.escape(str(own.folder))}`$"
    ):
        Translator.load(own.folder)
    own.seal.file.unlink()
    with pytest.raises(
        RunError, match=r"run has no seal\.json, by which its files are known to be whole; .* `anydepth seal .*run`$"
    ):
        resume(own)
    names, lost = seal_run(own.folder)
    assert ("model.safetensors" in names, lost) == (True, 0)
    Translator.load(own.folder)
    resume(own)


def test_a_run_of_an_older_version_is_sealed_with_its_metrics(own: Run) -> None:
    own.seal.file.unlink()
    plain = [json.loads(line) for line in own.metrics_file.read_text(encoding="utf-8").splitlines()]
    for line in plain:
        del line["checksum"]
    own.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in plain) + "damaged\n", encoding="utf-8")
    assert seal_run(own.folder)[1] == 1
    resume(own, "training.updates=13")
    assert own.weights_file.exists()


def test_nobody_can_vouch_for_operating_points_that_are_none(own: Run) -> None:
    own.points_file.write_text('{"x": 1}', encoding="utf-8")
    with pytest.raises(
        RunError, match=r"operating_points\.json cannot be read \(weights: field required\); restore it from a copy"
    ):
        seal_run(own.folder)


@pytest.mark.parametrize("damage", [flip, cut])
def test_nobody_can_vouch_for_weights_that_are_damaged(own: Run, damage: Callable[[Path], None]) -> None:
    (best,) = own.best_files()
    own.seal.file.unlink()
    damage(best)
    with pytest.raises(
        RunError, match=r"best-\d+\.safetensors (is damaged or cut short|does not have the contents that were saved)"
    ):
        seal_run(own.folder)
    assert not own.seal.file.exists()


def test_a_state_that_is_gone_is_refused_and_not_begun_again(own: Run) -> None:
    own.state_file.unlink()
    weights = own.weights_file.read_bytes()
    with pytest.raises(
        RunError, match=r"state\.safetensors is missing, but the run has written it; restore it from a copy"
    ):
        resume(own, "training.updates=20")
    assert own.weights_file.read_bytes() == weights


@pytest.mark.parametrize("damage", [flip, Path.unlink])
def test_an_average_is_not_made_without_one_of_its_checkpoints(own: Run, damage: Callable[[Path], None]) -> None:
    damage(own.checkpoint_file(9))
    with pytest.raises(RunError, match=r"update-0000009\.safetensors is (missing, but the run has|not as the run) "):
        resume(own)
    resume(own, "training.final=last")


@pytest.mark.parametrize("damage", [flip, Path.unlink])
def test_the_best_weights_are_not_replaced_by_the_last_where_they_are_damaged(
    own: Run, damage: Callable[[Path], None]
) -> None:
    damage(own.best_files()[0])
    with pytest.raises(RunError, match=r"best-\d+\.safetensors is (missing, but the run has|not as the run) "):
        resume(own, "training.final=best")


def test_a_checkpoint_that_nobody_wrote_is_not_averaged(own: Run) -> None:
    before = own.weights_file.read_bytes()
    shutil.copy(own.checkpoint_file(9), own.checkpoint_file(10))
    resume(own)
    assert own.weights_file.read_bytes() == before


def test_a_run_killed_at_any_write_before_its_first_state_begins_again(data: PreparedData, tmp_path: Path) -> None:
    config = short_training("training.updates=3", "training.final=last")
    whole = Run(tmp_path / "whole")
    assert exit_code_of(in_own_process(train_in_own_process, whole.folder, data.folder, config)) == 0
    for write in (6, 8, 10, 13):
        run = Run(tmp_path / f"run{write}")
        disturb = partial(signal_at_write, signal.SIGKILL, write)
        assert (
            exit_code_of(in_own_process(train_in_own_process, run.folder, data.folder, config, disturb))
            == -signal.SIGKILL
        )
        assert not run.state_file.exists()
        resume(run)
        assert run.weights_file.read_bytes() == whole.weights_file.read_bytes()


def test_files_of_a_run_are_written_through_its_seal_whoever_saves_them(own: Run) -> None:
    save_tensors(own.weights_file, {})
    assert own.seal.check(own.weights_file) == file_hash(own.weights_file)
    save_tensors(own.folder / "exit_scores.safetensors", {})
    assert own.seal.has(own.scores_file)


def test_prepared_data_with_a_flipped_byte_is_refused_on_resume(data: PreparedData, tmp_path: Path) -> None:
    """All that a resumed run reads, and the reference texts that it validates with."""
    folder = Path(shutil.copytree(data.folder, tmp_path / "data"))
    run = create_run(tmp_path / "run", short_training("training.updates=3"), PreparedData.open(folder))
    train(run, PreparedData.open(folder))
    for name in ("train.de.offsets", "train.en.tokens", "valid.de.tokens", "valid.en", "tokenizer.de.model"):
        whole = (folder / name).read_bytes()
        flip(folder / name)
        with pytest.raises(CorpusError, match=rf"{re.escape(str(folder / name))} has changed since it was prepared"):
            resume(run, "training.updates=6")
        (folder / name).write_bytes(whole)
    assert run.config.training.updates == 3
    resume(run, "training.updates=6")
