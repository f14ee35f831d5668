"""The training loop in this process: when it stops, what it keeps, and what it says when it cannot go on."""

import json
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import ALONE, BLOCKS, no_scores, prepare_tiny, short_training, train

from anydepth.errors import RunError, TrainingError
from anydepth.model.checkpoint import load_tensors, save_tensors
from anydepth.model.run import Run, create_run
from anydepth.model.transformer import Transformer
from anydepth.text.batches import BatchStream, Position
from anydepth.text.prepare import PreparedData
from anydepth.training.loop import Training
from anydepth.training.reporting import Reporter

OFTEN = ("training.save_every=2", "validation.every=2", "training.average=100")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    return prepare_tiny(tmp_path_factory.mktemp("prepared"))


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


def test_the_best_weights_by_loss_are_those_of_the_lowest_mean_over_exits(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", short_training(*OFTEN, "training.learning_rate=0.15", "training.final=best"), data)
    train(run, data)
    lines = valid_lines(run)
    best = min(lines, key=lambda line: sum(line["nll"]))
    assert best["update"] != lines[-1]["update"]
    assert_same_tensors(run.best_file, run.checkpoint_file(best["update"]))
    assert_same_tensors(run.weights_file, run.best_file)


def test_the_best_weights_by_bleu_are_those_of_the_highest_exit_and_the_first_of_equals(data: PreparedData, tmp_path: Path) -> None:
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


def test_the_average_is_the_mean_of_the_last_checkpoints_and_older_ones_are_gone(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", short_training("training.final=average", "training.average=3"), data)
    train(run, data)
    assert [update for update, _ in run.checkpoints()] == [6, 9, 12]
    parts = [load_tensors(file)[0] for _, file in run.checkpoints()]
    for name, tensor in load_tensors(run.weights_file)[0].items():
        torch.testing.assert_close(tensor, torch.stack([part[name] for part in parts]).mean(dim=0))


def test_the_last_update_is_validated_and_can_be_the_best(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", short_training("training.updates=3", "training.final=best"), data)
    train(run, data)
    assert load_tensors(run.best_file)[1]["update"] == "3"
    assert_same_tensors(run.weights_file, run.checkpoint_file(3))


def test_training_stops_when_patience_is_lost(data: PreparedData, tmp_path: Path) -> None:
    changes = (*OFTEN, "validation.metric=bleu", "validation.sentences=5", "training.patience=2", "training.updates=100")
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


def batches_of(data: PreparedData, run: Run) -> list[list[int]]:
    config = run.config.training
    stream = BatchStream(data.pairs("train"), max_tokens=config.batch_tokens, seed=config.seed)
    return [sorted(indices.tolist()) for indices, _ in islice(stream.from_position(Position()), config.updates)]


def poison(training: Training, data: PreparedData, batches: list[list[int]]) -> int:
    """Spoils the embedding of a source token, and returns the first update from the third on that alone can see it."""
    pairs = data.pairs("train")
    words = [{int(token) for number in batch for token in pairs.source(number)} for batch in batches]
    for update in range(3, len(batches) + 1):
        for token in words[update - 1] - set().union(*words[: update - 1]):
            with torch.no_grad():
                training.model.source_embedding.weight[token] = float("nan")
            return update
    raise AssertionError("every later batch has only words of the earlier ones")


def test_a_loss_that_is_not_a_number_stops_with_its_pairs_and_keeps_the_last_good_state(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", short_training("training.save_every=1", "training.batch_tokens=20"), data)
    batches = batches_of(data, run)
    with Reporter(run, is_main=True) as reporter:
        training = Training(run, data, ALONE, reporter, no_scores)
        update = poison(training, data, batches)
        with pytest.raises(TrainingError) as caught:
            training.go()
    pairs = ", ".join(str(number + 1) for number in batches[update - 1])
    first = data.source_tokenizer.decode(data.pairs("train").source(min(batches[update - 1])))
    expected = (
        f"the loss is not a number at update {update}, in the batch of training pairs {pairs} (numbered as prepared; the first is "
        f"{first!r}); {run.state_file} still holds the last good state; lower training.learning_rate (now 0.01) or look at those pairs"
    )
    assert str(caught.value) == expected
    assert json.loads(load_tensors(run.state_file)[1]["progress"])["update"] == update - 1
    assert not run.weights_file.exists()


def test_a_failure_before_anything_was_saved_says_so(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", short_training(), data)
    with Reporter(run, is_main=True) as reporter:
        training = Training(run, data, ALONE, reporter, no_scores)
        torch.nn.init.constant_(training.model.classifiers[2], float("inf"))
        with pytest.raises(TrainingError, match=r"at update 1, .*; nothing was saved yet; lower training.learning_rate"):
            training.go()


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
        save_tensors(run.state_file, {name: tensor for name, tensor in tensors.items() if name.startswith("model.")}, notes)
    elif damage == "other model":
        save_tensors(run.state_file, {name: tensor for name, tensor in tensors.items() if "classifiers.1" not in name}, notes)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("flipped", "does not have the contents that were saved"),
        ("cut", "is damaged or cut short"),
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
