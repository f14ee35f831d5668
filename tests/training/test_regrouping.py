"""Workers that die and come back, and training that goes on with another number of them."""

import os
import shutil
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from tiny import be_worker, exit_code_of, free_port, in_own_process, short_training, train_in_own_process
from training.metrics import train_losses

from anydepth.runs.run import Run, create_run
from anydepth.text.batches import BatchStream
from anydepth.text.prepared import PreparedData
from anydepth.training import loop
from anydepth.training.loop import Training
from anydepth.training.regrouping import Grouping, regrouped
from anydepth.training.reporting import RecentMeans
from anydepth.training.start import resumed_run, train_run
from anydepth.training.state import TrainingProgress, load_state

CONFIG = short_training("training.updates=5", "training.save_every=2", "validation.every=5", "training.final=last")
ORDER = "the batches come in the same order"


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        ((2, 3), (2, 3), ""),
        (
            (2, 1),
            (1, 1),
            f"resumed with 1 worker instead of 2: {ORDER}, but an update has 1 batch instead of 2 (at most 3,000 "
            "instead of 6,000 tokens); for updates as before with 1 worker, resume with --set training.accumulation=2",
        ),
        (
            (2, 1),
            (3, 1),
            f"resumed with 3 workers instead of 2: {ORDER}, but an update has 3 batches instead of 2 (at most 9,000 "
            "instead of 6,000 tokens); no training.accumulation gives updates as before with 3 workers",
        ),
        (
            (4, 1),
            (2, 2),
            f"resumed with 2 workers instead of 4 and training.accumulation = 2 instead of 1: {ORDER}, and an update "
            "has the same 4 batches as before, up to rounding",
        ),
        (
            (1, 4),
            (1, 2),
            f"resumed with training.accumulation = 2 instead of 4: {ORDER}, but an update has 2 batches instead of 4 "
            "(at most 6,000 instead of 12,000 tokens); for updates as before with 1 worker, resume with --set "
            "training.accumulation=4",
        ),
    ],
)
def test_what_changes_with_the_workers_is_told_with_a_cure(
    before: tuple[int, int], now: tuple[int, int], text: str
) -> None:
    assert regrouped(Grouping(*before), Grouping(*now), batch_tokens=3000) == text


def work(rank: int, port: int, folder: Path, data_folder: Path, deadly: int | None) -> None:
    """The body of one of two workers; it kills itself after update `deadly`."""
    be_worker(rank, 2, port)
    report = Training.report

    def watched(training: Training, recent: RecentMeans, rate: float) -> None:
        report(training, recent, rate)
        if training.progress.update == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    Training.report = watched  # type: ignore[method-assign]
    train_in_own_process(folder, data_folder, CONFIG)


def train_with_two(folder: Path, data: PreparedData, *, deadly: tuple[int | None, int | None]) -> list[int]:
    """The exit codes of two workers, which each die after the update given for them, if any."""
    port = free_port()
    processes = [in_own_process(work, rank, port, folder, data.folder, deadly[rank]) for rank in range(2)]
    return [exit_code_of(process) for process in processes]


@pytest.fixture(scope="module")
def undisturbed(data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    assert train_with_two(folder, data, deadly=(None, None)) == [0, 0]
    return Run(folder)


def test_workers_that_die_take_the_others_with_them_and_all_come_back_to_the_same_bits(
    data: PreparedData, undisturbed: Run, tmp_path: Path
) -> None:
    run = Run(tmp_path / "run")
    assert train_with_two(run.folder, data, deadly=(None, 3)) == [1, -signal.SIGKILL]
    told = run.folder.with_suffix(".error0")
    assert told.read_text(encoding="utf-8") == (
        "another worker of this training has ended, so all end; torchrun starts them again where --max-restarts allows "
        "it, else go on with --resume"
    )
    assert train_with_two(run.folder, data, deadly=(4, None)) == [-signal.SIGKILL, 1]
    assert not run.folder.with_suffix(".error1").exists(), "one sentence, not one from each"
    assert train_with_two(run.folder, data, deadly=(None, None)) == [0, 0]
    assert run.weights_file.read_bytes() == undisturbed.weights_file.read_bytes()
    assert run.log_file.read_text(encoding="utf-8").count("going on after update 2\n") == 2


def test_one_worker_goes_on_with_the_updates_of_two_by_accumulation(
    data: PreparedData, undisturbed: Run, tmp_path: Path
) -> None:
    run = Run(tmp_path / "run")
    assert train_with_two(run.folder, data, deadly=(None, 3)) == [1, -signal.SIGKILL]
    alone = Path(shutil.copytree(run.folder, tmp_path / "alone"))
    train_run(run.folder, lambda: resumed_run(run.folder, ["training.accumulation=2"]))
    assert train_losses(run) == pytest.approx(train_losses(undisturbed), rel=1e-4)
    log = run.log_file.read_text(encoding="utf-8")
    assert f"resumed with 1 worker instead of 2 and training.accumulation = 2 instead of 1: {ORDER}, and an" in log
    train_run(alone, lambda: resumed_run(alone, []))
    log = Run(alone).log_file.read_text(encoding="utf-8")
    assert f"resumed with 1 worker instead of 2: {ORDER}, but an update has 1 batch instead of 2 (at most 60 " in log
    assert train_losses(Run(alone))[:2] == train_losses(undisturbed)[:2]
    assert train_losses(Run(alone))[2] != train_losses(undisturbed)[2]


@pytest.mark.parametrize(("workers", "is_warned"), [(0, True), (1, False)])
def test_a_state_from_before_pools_were_dealt_as_now_goes_on_with_a_warning(
    data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int, is_warned: bool
) -> None:
    def loaded(*of: object) -> TrainingProgress:
        return replace(load_state(*of), workers=workers)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "BatchStream", partial(BatchStream, pool_pairs=8, run_pairs=4))
    monkeypatch.setattr(loop, "load_state", loaded)
    run = Run(tmp_path / "run")
    train_run(run.folder, lambda: create_run(run.folder, short_training("training.updates=2"), data))
    train_run(run.folder, lambda: resumed_run(run.folder, ["training.updates=3"]))
    told = (run.folder / "train.log").read_text(encoding="utf-8")
    assert ("so some pairs of this epoch come twice" in told) == is_warned
