"""The training loop in this process: when it stops, what it keeps, and what it says when it cannot
go on."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import ALONE, BLOCKS, short_training, train
from variations import MARIAN, ban

from anydepth.errors import Interrupted, RunError, TrainingError
from anydepth.model.checkpoint import load_tensors, model_tensors, save_tensors
from anydepth.model.transformer import Transformer
from anydepth.runs.models import load_model
from anydepth.runs.run import Run, create_run
from anydepth.text.prepared import PreparedData
from anydepth.text.tokenizer import PAD
from anydepth.training import loop
from anydepth.training.distributed import Workers
from anydepth.training.loop import Training
from anydepth.training.reporting import RecentMeans, Reporter
from anydepth.training.start import continued_run, resumed_run
from anydepth.training.update import UpdateSums, accumulate_gradients

OFTEN = ("training.save_every=2", "validation.every=2", "training.average=100")


def valid_lines(run: Run) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in run.metrics_file.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["event"] == "valid"]


def assert_same_tensors(first: Path, second: Path) -> None:
    mine, theirs = load_tensors(first)[0], load_tensors(second)[0]
    assert mine.keys() == theirs.keys()
    assert all(mine[name].equal(theirs[name]) for name in mine)


def scripted_scores(*best: float) -> Callable[[Transformer], list[float]]:
    """BLEU of all exits at each validation in turn, whose highest is as given."""
    script = iter(best)
    return lambda model: [0.0, next(script), -1.0, 0.0]


def test_the_same_seed_trains_the_same_weights_and_another_seed_others(data: PreparedData, tmp_path: Path) -> None:
    runs = [
        create_run(tmp_path / str(place), short_training("training.updates=3", f"training.seed={seed}"), data)
        for place, seed in enumerate((4, 4, 5))
    ]
    for run in runs:
        train(run, data)
    weights = [run.weights_file.read_bytes() for run in runs]
    assert weights[0] == weights[1]
    assert weights[0] != weights[2]


def test_training_lowers_the_loss_of_every_exit(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", short_training("training.updates=30", "model.dropout=0"), data)
    train(run, data)
    first, *_, last = valid_lines(run)
    assert len(last["nll"]) == BLOCKS
    assert all(later < 0.9 * earlier for earlier, later in zip(first["nll"], last["nll"], strict=True))


def test_a_model_that_varies_as_marians_learns_its_bias_too_and_keeps_a_banned_word_banned(
    data: PreparedData, tmp_path: Path
) -> None:
    run = create_run(tmp_path / "first", short_training(*MARIAN, "training.updates=3"), data)
    train(run, data)
    model = load_model(run)
    assert model.output_bias is not None
    assert model.output_bias.count_nonzero() > 100
    ban(model, PAD, bias=-torch.inf)
    save_tensors(run.weights_file, model_tensors(model))
    further = continued_run(tmp_path / "second", run.folder, None, ["training.updates=3"], overwrite=False)
    train(further, data)
    again = load_model(further).output_bias
    assert again is not None
    assert again[PAD] == -torch.inf
    assert again[PAD + 1 :].isfinite().all() and not again.equal(model.output_bias)


def test_the_best_weights_by_loss_are_those_of_the_lowest_mean_over_exits(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(
        tmp_path / "run", short_training(*OFTEN, "training.learning_rate=0.15", "training.final=best"), data
    )
    train(run, data)
    lines = valid_lines(run)
    best = min(lines, key=lambda line: sum(line["nll"]))
    assert best["update"] != lines[-1]["update"]
    assert run.best_files() == [run.best_file(best["update"])]
    assert_same_tensors(run.best_file(best["update"]), run.checkpoint_file(best["update"]))
    assert_same_tensors(run.weights_file, run.best_file(best["update"]))


def test_the_best_weights_by_bleu_are_those_of_the_highest_exit_and_the_first_of_equals(
    data: PreparedData, tmp_path: Path
) -> None:
    changes = (*OFTEN, "validation.metric=bleu", "validation.sentences=5", "training.final=best")
    run = create_run(tmp_path / "run", short_training(*changes), data)
    training = train(run, data, score_exits=scripted_scores(3.0, 9.0, 2.0, 9.0, 8.0, 1.0))
    assert training.progress.best_update == 4
    assert [max(line["bleu"]) for line in valid_lines(run)] == [3, 9, 2, 9, 8, 1]
    assert_same_tensors(run.weights_file, run.checkpoint_file(4))


def test_the_last_weights_are_those_of_the_last_update(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", short_training("training.updates=5", "training.final=last"), data)
    train(run, data)
    assert [update for update, _ in run.checkpoints()] == [3, 5]
    assert_same_tensors(run.weights_file, run.checkpoint_file(5))


def test_the_average_is_the_mean_of_the_last_checkpoints_and_older_ones_are_gone(
    data: PreparedData, tmp_path: Path
) -> None:
    run = create_run(tmp_path / "run", short_training("training.final=average", "training.average=3"), data)
    train(run, data)
    assert [update for update, _ in run.checkpoints()] == [6, 9, 12]
    parts = [load_tensors(file)[0] for _, file in run.checkpoints()]
    for name, tensor in load_tensors(run.weights_file)[0].items():
        torch.testing.assert_close(tensor, torch.stack([part[name] for part in parts]).mean(dim=0))


def test_the_last_update_is_validated_and_can_be_the_best(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", short_training("training.updates=3", "training.final=best"), data)
    train(run, data)
    assert run.best_files() == [run.best_file(3)]
    assert_same_tensors(run.weights_file, run.checkpoint_file(3))


def test_training_stops_when_patience_is_lost(data: PreparedData, tmp_path: Path) -> None:
    changes = (
        *OFTEN,
        "validation.metric=bleu",
        "validation.sentences=5",
        "training.patience=2",
        "training.updates=100",
    )
    run = create_run(tmp_path / "run", short_training(*changes), data)
    training = train(run, data, score_exits=scripted_scores(5.0, 4.0, 7.0, 6.0, 7.0))
    assert (training.progress.update, training.progress.best_update) == (10, 6)
    assert run.weights_file.exists()


def test_training_stops_when_its_minutes_are_over(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", short_training("training.updates=1000000", "training.minutes=0.005"), data)
    training = train(run, data)
    assert 1 <= training.progress.update < 1_000_000
    assert training.progress.seconds >= 0.3
    assert run.weights_file.exists()


def test_weights_that_are_not_numbers_stop_training_at_once_and_keep_the_last_good_state(
    data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(tmp_path / "run", short_training("training.save_every=1"), data)
    with Reporter(run, is_main=True) as reporter:
        training = Training(run, data, ALONE, reporter)

        def accumulate(*arguments: Any, update: int, **options: Any) -> UpdateSums:
            if update == 3:
                torch.nn.init.constant_(training.model.source_embedding.weight, float("nan"))
            return accumulate_gradients(*arguments, update=update, **options)

        monkeypatch.setattr(loop, "accumulate_gradients", accumulate)
        with pytest.raises(TrainingError) as caught:
            training.go()
    assert str(caught.value) == (
        f"the weights are not numbers after update 2 (source_embedding.weight) and were not saved; {run.state_file} "
        "still holds the last good state; lower training.learning_rate (now 0.01) or look at those pairs"
    )
    assert json.loads(load_tensors(run.state_file)[1]["progress"])["update"] == 2
    assert not run.weights_file.exists()


def test_a_failure_before_anything_was_saved_says_so(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", short_training(), data)
    with Reporter(run, is_main=True) as reporter:
        training = Training(run, data, ALONE, reporter)
        torch.nn.init.constant_(training.model.classifiers[2], float("inf"))
        with pytest.raises(
            TrainingError, match=r"after update 0 .*; nothing was saved yet; lower training.learning_rate"
        ):
            training.go()


class StoppedHereError(Exception):
    """What stands for a kill in this process."""


def train_until(
    monkeypatch: pytest.MonkeyPatch, run: Run, data: PreparedData, last: int, *, asking: bool = False
) -> None:
    """Trains until the report of update `last`, where it dies at once, or with `asking` is asked to
    stop."""
    report = Training.report

    def watched(training: Training, recent: RecentMeans, rate: float) -> None:
        report(training, recent, rate)
        if training.progress.update == last and not asking:
            raise StoppedHereError
        training.stop.is_asked = training.progress.update == last

    monkeypatch.setattr(Training, "report", watched)
    with pytest.raises(Interrupted if asking else StoppedHereError):
        train(run, data, resume=run.state_file.exists())
    monkeypatch.undo()


def test_a_run_killed_after_its_best_validation_and_resumed_to_less_ends_with_weights_of_its_own_timeline(
    data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(tmp_path / "run", short_training("training.final=best"), data)
    train_until(monkeypatch, run, data, 9)
    assert json.loads(load_tensors(run.state_file)[1]["progress"])["update"] == 6
    assert run.best_files() == [run.best_file(4), run.best_file(8)], "else this shows little"
    kept = run.best_file(4).read_bytes()
    resumed_run(run.folder, ["training.updates=6"])
    training = train(run, data, resume=True)
    assert training.progress.best_update in (4, 6)
    assert run.best_files() == [run.best_file(training.progress.best_update)]
    assert (
        run.log_file.read_text()
        .splitlines()[-1]
        .endswith(f"the best validation (update {training.progress.best_update})")
    )
    whole = create_run(tmp_path / "whole", short_training("training.final=best", "training.updates=6"), data)
    assert train(whole, data).progress.best_update == training.progress.best_update
    assert_same_tensors(run.weights_file, whole.weights_file)
    assert kept != whole.weights_file.read_bytes() or training.progress.best_update == 4


def test_a_best_that_is_gone_is_refused_by_name_when_training_goes_on(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", short_training("training.updates=6"), data)
    (best,) = (train(run, data), run.best_files())[1]
    best.unlink()
    with pytest.raises(RunError, match=rf"^{re.escape(str(best))} is missing, but the run has written it; restore it"):
        train(run, data, resume=True)


@pytest.mark.parametrize(
    ("final", "origin"), [("best", "the best validation (update 4)"), ("average", "the last update")]
)
def test_an_interrupted_run_has_weights_until_it_goes_on(
    data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, final: str, origin: str
) -> None:
    run = create_run(tmp_path / "run", short_training(f"training.final={final}"), data)
    train_until(monkeypatch, run, data, 5, asking=True)
    assert run.interrupted_at() == 5
    assert load_tensors(run.weights_file)[1] == {"interrupted": "5", "weights": origin}
    early = model_tensors(load_model(run))
    source = load_tensors(run.best_file(4))[0] if final == "best" else load_tensors(run.state_file)[0]
    assert all(tensor.equal(source[name if final == "best" else f"model.{name}"]) for name, tensor in early.items())
    train(run, data, resume=True)
    whole = create_run(tmp_path / "whole", short_training(f"training.final={final}"), data)
    train(whole, data)
    assert run.interrupted_at() is None
    assert run.weights_file.read_bytes() == whole.weights_file.read_bytes()


def test_an_interruption_leaves_the_weights_of_a_training_that_ended(
    data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(tmp_path / "run", short_training("training.updates=3"), data)
    train(run, data)
    before = run.weights_file.read_bytes()
    resumed_run(run.folder, ["training.updates=9"])
    train_until(monkeypatch, run, data, 5, asking=True)
    assert run.weights_file.read_bytes() == before


def test_no_run_starts_from_one_that_was_interrupted(
    data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(tmp_path / "run", short_training(), data)
    train_until(monkeypatch, run, data, 2, asking=True)
    with pytest.raises(RunError, match=r"run was interrupted at update 2; let it end first with --resume$"):
        continued_run(tmp_path / "next", run.folder, None, [], overwrite=False)


@pytest.mark.parametrize("final", ["best", "last", "average"])
def test_weights_that_are_not_numbers_are_never_saved(data: PreparedData, tmp_path: Path, final: str) -> None:
    run = create_run(
        tmp_path / "run",
        short_training("training.learning_rate=1e39", "training.updates=1", f"training.final={final}"),
        data,
    )
    words = (
        r"^the weights are not numbers after update 1 \(.*\) and were not saved; nothing was saved yet; lower "
        r"training.learning_rate"
    )
    with pytest.raises(TrainingError, match=words):
        train(run, data)
    assert list(run.folder.rglob("*.safetensors")) == []


def test_weights_that_stop_being_numbers_leave_the_last_good_state(
    data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = create_run(tmp_path / "run", short_training("validation.every=100"), data)
    report = Training.report

    def spoilt(training: Training, recent: RecentMeans, rate: float) -> None:
        report(training, recent, rate)
        if training.progress.update == 6:
            with torch.no_grad():
                training.model.classifiers[1][0, 0] = float("inf")

    monkeypatch.setattr(Training, "report", spoilt)
    with pytest.raises(
        TrainingError,
        match=r"after update 6 \(classifiers\.1\) and were not saved; .*state\.safetensors still holds the last",
    ):
        train(run, data)
    assert json.loads(load_tensors(run.state_file)[1]["progress"])["update"] == 3
    assert [update for update, _ in run.checkpoints()] == [3]


@pytest.fixture
def stopped(data: PreparedData, tmp_path: Path) -> Run:
    run = create_run(tmp_path / "run", short_training("training.updates=3"), data)
    train(run, data)
    return run


def damaged(run: Run, damage: str) -> None:
    whole = run.state_file.read_bytes()
    tensors, notes = load_tensors(run.state_file)
    if damage == "flipped":
        run.state_file.write_bytes(whole[:-9] + bytes([whole[-9] ^ 4]) + whole[-8:])
    elif damage == "cut":
        run.state_file.write_bytes(whole[: len(whole) // 2])
    elif damage == "no progress":
        save_tensors(run.state_file, tensors)
    elif damage == "odd progress":
        save_tensors(run.state_file, tensors, notes | {"progress": '{"updates": 3}'})
    elif damage == "no moments":
        save_tensors(
            run.state_file, {name: tensor for name, tensor in tensors.items() if name.startswith("model.")}, notes
        )
    elif damage == "other model":
        save_tensors(
            run.state_file, {name: tensor for name, tensor in tensors.items() if "classifiers.1" not in name}, notes
        )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("flipped", r"is not as the run wrote it \(its checksum differs\)"),
        ("cut", r"is not as the run wrote it \(its checksum differs\)"),
        ("no progress", "is no training state"),
        ("odd progress", "is no training state"),
        ("no moments", "is no training state"),
        ("other model", "does not fit its configuration: classifiers.1 is in only one of them"),
    ],
)
def test_a_damaged_state_is_refused_by_name(data: PreparedData, stopped: Run, damage: str, message: str) -> None:
    damaged(stopped, damage)
    with pytest.raises(RunError, match=rf"{re.escape(str(stopped.state_file))} {message}"):
        train(stopped, data, resume=True)


def test_a_signal_that_comes_while_the_workers_vote_is_not_lost(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", short_training(), data)
    with Reporter(run, is_main=True) as reporter:
        training = Training(run, data, ALONE, reporter)

        class Voting(Workers):
            def sum(self, values: torch.Tensor) -> torch.Tensor:
                training.stop.is_asked = True
                return values

        training.workers = Voting(ALONE.rank, ALONE.world, ALONE.device)
        assert not training.is_over()
        assert training.is_over()
