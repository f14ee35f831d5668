"""Runs that start from the weights of another: what they keep of it, how they learn where to stop,
and what is refused without a trace."""

import json
import re
import shutil
import signal
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
import torch
from tiny import (
    BLOCKS,
    exit_code_of,
    free_port,
    in_own_process,
    prepare_tiny,
    short_training,
    signal_at_write,
    train_as_worker,
    train_in_own_process,
)
from training.metrics import train_lines, train_losses

from anydepth.errors import ConfigError, RunError
from anydepth.files.checksums import file_hash
from anydepth.files.seal import write_text
from anydepth.model.checkpoint import load_tensors, model_tensors, not_finite, save_tensors
from anydepth.runs.models import HALTING, load_model, new_model
from anydepth.runs.run import Run, create_run
from anydepth.text.batches import BatchStream, Position
from anydepth.text.prepared import PreparedData
from anydepth.training.start import continued_run, train_run, training_data

KINDS = ["sequence", "multinomial", "geometric"]


@pytest.fixture(scope="module")
def origin(data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A trained run without a halting module, which tests only read."""
    run = Run(tmp_path_factory.mktemp("origin") / "run")
    config = short_training("training.updates=3", "training.minutes=5", "decoding.beam=3")
    train_run(run.folder, lambda: create_run(run.folder, config, data))
    return run


def go_on_from(origin: Run, folder: Path, *changes: str) -> Run:
    """A run that starts from the weights of `origin` and is trained to its end."""
    train_run(
        folder,
        lambda: continued_run(folder, origin.folder, None, list(changes), overwrite=False),
    )
    return Run(folder)


def test_a_continued_run_starts_from_the_weights_and_keeps_tokenizers_data_and_settings(
    origin: Run, tmp_path: Path
) -> None:
    changes = ("exits.halting=geometric", "training.updates=1", "training.learning_rate=1e-9", "training.final=last")
    run = go_on_from(origin, tmp_path / "run", *changes)
    before, after = load_tensors(origin.weights_file)[0], load_tensors(run.weights_file)[0]
    assert after.keys() - before.keys() == {"halting.stop_score.weight", "halting.stop_score.bias"}
    torch.testing.assert_close({name: after[name] for name in before}, before, atol=1e-7, rtol=0)
    mine, theirs = ([tokenizer.fingerprint for tokenizer in each.tokenizers()] for each in (run, origin))
    assert mine == theirs
    assert run.data_note() == origin.data_note()
    assert run.config == short_training(*changes, "decoding.beam=3"), "all but the limit of minutes"
    assert load_model(run).halting is not None
    note = json.loads(run.origin_file.read_text(encoding="utf-8"))
    assert note == {"run": str(origin.folder.resolve()), "weights": file_hash(origin.weights_file)}


def test_a_run_that_lost_the_weights_to_start_from_does_not_start_from_chance(origin: Run, tmp_path: Path) -> None:
    run = continued_run(
        tmp_path / "run", origin.folder, None, ["exits.halting=geometric", "training.updates=1"], overwrite=False
    )
    run.start_file.unlink()
    with pytest.raises(
        RunError, match=r"there is no .*start.safetensors, which this run was to start from; make the run again"
    ):
        train_run(run.folder, lambda: run)


def test_a_run_with_weights_to_start_from_but_without_a_note_of_their_origin_starts_from_them(
    origin: Run, tmp_path: Path
) -> None:
    changes = ["exits.halting=geometric", "training.updates=1", "training.learning_rate=1e-9", "training.final=last"]
    run = continued_run(tmp_path / "run", origin.folder, None, changes, overwrite=False)
    run.origin_file.unlink()
    run.seal.make()
    train_run(run.folder, lambda: run)
    before, after = load_tensors(origin.weights_file)[0], load_tensors(run.weights_file)[0]
    torch.testing.assert_close({name: after[name] for name in before}, before, atol=1e-7, rtol=0)


def test_the_settings_of_a_continued_run_may_come_from_a_file_and_from_changes(origin: Run, tmp_path: Path) -> None:
    (tmp_path / "exits.toml").write_text('[exits]\nhalting = "multinomial"\noracle = "likelihood"\n', encoding="utf-8")
    run = continued_run(
        tmp_path / "run",
        origin.folder,
        tmp_path / "exits.toml",
        ["exits.oracle=correctness", "training.minutes=2"],
        overwrite=False,
    )
    expected = (
        "training.updates=3",
        "decoding.beam=3",
        "exits.halting=multinomial",
        "exits.oracle=correctness",
        "training.minutes=2",
    )
    assert run.config == short_training(*expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("oracle", ["likelihood", "correctness"])
def test_every_halting_module_learns_from_every_oracle_and_tells_how(
    origin: Run, tmp_path: Path, kind: str, oracle: str
) -> None:
    run = go_on_from(origin, tmp_path / "run", f"exits.halting={kind}", f"exits.oracle={oracle}", "training.updates=2")
    lines = train_lines(run)
    assert [line["update"] for line in lines] == [1, 2]
    for line in lines:
        assert line["exit_loss"] > 0
        for shares in (line["oracle_exits"], line["halting_exits"]):
            assert len(shares) == BLOCKS
            assert sum(shares) == pytest.approx(1)
    fresh = {name: tensor for name, tensor in load_tensors(run.weights_file)[0].items() if name.startswith(HALTING)}
    assert len(fresh) == 2
    assert "exit loss" in run.log_file.read_text(encoding="utf-8")


def test_an_exit_loss_falls_where_there_is_nothing_else_to_learn(origin: Run, tmp_path: Path) -> None:
    changes = (
        "exits.halting=geometric",
        "exits.stop_gradient=true",
        "exits.exit_penalty=1e6",
        "training.updates=8",
        "model.dropout=0",
    )
    run = go_on_from(origin, tmp_path / "run", *changes)
    first, *_, last = train_lines(run)
    assert first["oracle_exits"] == last["oracle_exits"] == [1.0, 0.0, 0.0, 0.0]
    assert last["exit_loss"] < 0.9 * first["exit_loss"]


def test_a_run_without_a_halting_module_tells_nothing_of_exits(origin: Run) -> None:
    assert not any(
        key in line for line in train_lines(origin) for key in ("exit_loss", "oracle_exits", "halting_exits")
    )


def test_a_run_continued_from_a_continued_run_keeps_its_halting_module_unless_another_is_asked_for(
    origin: Run, tmp_path: Path
) -> None:
    hardly = ("training.updates=1", "training.learning_rate=1e-9", "training.final=last")
    second = go_on_from(origin, tmp_path / "second", "exits.halting=geometric", *hardly)
    third = go_on_from(second, tmp_path / "third", *hardly, "training.seed=9")
    torch.testing.assert_close(
        load_tensors(third.weights_file)[0], load_tensors(second.weights_file)[0], atol=1e-7, rtol=0
    )
    fourth = go_on_from(second, tmp_path / "fourth", *hardly, "exits.halting=multinomial")
    assert {name for name in load_tensors(fourth.weights_file)[0] if name.startswith(HALTING)} == {
        "halting.token_scores.weight",
        "halting.token_scores.bias",
    }


@pytest.mark.parametrize("write", [5, 14])
def test_a_continued_run_killed_before_its_first_save_starts_from_the_same_weights(
    origin: Run, tmp_path: Path, write: int
) -> None:
    """`write` counts flushes, renames and removals of files: the metrics are written anew (4), then
    comes the first checkpoint (6), then the state, whose fourth write is its renaming."""
    changes = ["exits.halting=geometric", "exits.path_weight=0.5", "training.updates=4", "training.final=last"]
    whole = continued_run(tmp_path / "whole", origin.folder, None, changes, overwrite=False)
    parted = Run(Path(shutil.copytree(whole.folder, tmp_path / "parted")))
    data_folder, config = Path(whole.data_note()["folder"]), whole.config
    assert exit_code_of(in_own_process(train_in_own_process, whole.folder, data_folder, config)) == 0
    disturb = partial(signal_at_write, signal.SIGKILL, write)
    assert (
        exit_code_of(in_own_process(train_in_own_process, parted.folder, data_folder, config, disturb))
        == -signal.SIGKILL
    )
    assert not parted.state_file.exists()
    assert len(train_lines(parted)) == 3, "it was killed after some updates"
    assert exit_code_of(in_own_process(train_in_own_process, parted.folder, data_folder, config)) == 0
    assert load_tensors(parted.weights_file)[0].keys() == load_tensors(whole.weights_file)[0].keys()
    assert parted.weights_file.read_bytes() == whole.weights_file.read_bytes()
    assert train_losses(parted) == train_losses(whole)


def test_a_batch_that_one_workers_oracle_refuses_is_left_out_by_every_worker_and_told_once(
    data: PreparedData, origin: Run, tmp_path: Path
) -> None:
    config = short_training("exits.halting=geometric", "training.batch_tokens=20", "training.updates=2")
    run = create_run(tmp_path / "run", config, data, origin=origin, start=load_tensors(origin.weights_file)[0])
    pairs, stream = data.pairs("train"), BatchStream(data.pairs("train"), max_tokens=20, seed=run.config.training.seed)
    first, second = ([int(number) for number in batch] for batch, _ in islice(stream.from_position(Position()), 2))
    seen, others = ({int(token) for number in batch for token in pairs.source(number)} for batch in (first, second))
    model = new_model(run)
    with torch.no_grad():
        model.source_embedding.weight[min(others - seen)] = 3e38  # a number, and no longer one after the first sum
    save_tensors(run.start_file, model_tensors(model))
    port = free_port()
    processes = [
        in_own_process(train_as_worker, rank, 2, port, run.folder, data.folder, run.config) for rank in range(2)
    ]
    assert [exit_code_of(process) for process in processes] == [0, 0]
    log = run.log_file.read_text(encoding="utf-8")
    (number,) = second
    assert log.count("update 1 is left out: the loss is not a number in the batch of training pairs ") == 1
    assert f"training pairs {number + 1} (numbered as prepared; " in log
    assert not not_finite(load_tensors(run.weights_file)[0])


def refused_without_a_trace(
    kind: type[Exception], message: str, folder: Path, origin: Path, *changes: str, data: Path | None = None
) -> None:
    """Nothing is written at `folder`, which may exist, nor beside it."""
    before = {path: path.read_bytes() if path.is_file() else b"" for path in folder.parent.rglob("*")}
    with pytest.raises(kind, match=message):
        continued_run(folder, origin, None, list(changes), data_folder=data, overwrite=True)
    assert {path: path.read_bytes() if path.is_file() else b"" for path in folder.parent.rglob("*")} == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model.blocks=3", r"^model\.blocks = 3 is not that of .*run \(4\); --from keeps the shape of the model$"),
        (
            "model.classifiers=tied",
            r"^model\.classifiers = 'tied' is not that of .*run \('untied'\); --from keeps the shape of the model$",
        ),
        (
            "model.decoder.dim=16",
            r"^model\.decoder = .*'dim': 16.* is not that of .*'dim': 12.*; --from keeps the shape of the model$",
        ),
        ("model.bloks=3", r"^--set model\.bloks=3: there is no setting model\.bloks; did you mean model\.blocks\?$"),
    ],
)
def test_a_model_of_another_shape_is_refused(origin: Run, tmp_path: Path, change: str, message: str) -> None:
    refused_without_a_trace(ConfigError, message, tmp_path / "run", origin.folder, "exits.halting=geometric", change)


def test_dropout_is_no_shape(origin: Run, tmp_path: Path) -> None:
    changes = ["model.dropout=0.3", "model.attention_dropout=0.1"]
    run = continued_run(tmp_path / "run", origin.folder, None, changes, overwrite=False)
    assert (run.config.model.dropout, run.config.model.attention_dropout) == (0.3, 0.1)


def test_text_in_another_vocabulary_is_refused(origin: Run, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = prepare_tiny(tmp_path / "other", joint=True)
    message = (
        rf"{re.escape(str(other.folder))} has another vocabulary than .*; only text prepared with the run's "
        r"tokenizer can be used"
    )
    refused_without_a_trace(RunError, message, tmp_path / "run", origin.folder, data=other.folder)


def test_a_continued_run_finds_its_data_where_it_has_moved_to(data: PreparedData, origin: Run, tmp_path: Path) -> None:
    lost = Run(Path(shutil.copytree(origin.folder, tmp_path / "lost")))
    write_text(lost.data_file, json.dumps(lost.data_note() | {"folder": str(tmp_path / "gone")}))
    message = rf"the data of .*lost is no longer at {re.escape(str(tmp_path / 'gone'))}; say where it is with --data$"
    refused_without_a_trace(RunError, message, tmp_path / "run", lost.folder)
    run = continued_run(tmp_path / "run", lost.folder, None, [], data_folder=data.folder, overwrite=False)
    assert training_data(run).fingerprint == data.fingerprint


def test_an_unfinished_origin_is_refused(data: PreparedData, tmp_path: Path) -> None:
    unfinished = create_run(tmp_path / "unfinished", short_training(), data)
    message = r"unfinished has no model\.safetensors to start from; let its training end first$"
    refused_without_a_trace(RunError, message, tmp_path / "run", unfinished.folder)


def test_an_origin_that_is_no_run_is_refused(tmp_path: Path) -> None:
    message = rf"^{re.escape(str(tmp_path / 'none'))} is not a run directory: it has no config\.toml"
    refused_without_a_trace(RunError, message, tmp_path / "run", tmp_path / "none")


def test_a_run_cannot_be_continued_into_itself(origin: Run, tmp_path: Path) -> None:
    own = Path(shutil.copytree(origin.folder, tmp_path / "own"))
    for same in (own, own / "checkpoints" / ".."):
        refused_without_a_trace(RunError, r"^--from .* and --to .* are the same run; choose another --to$", same, own)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_numbers_are_refused(origin: Run, tmp_path: Path, bad: float) -> None:
    own = Run(Path(shutil.copytree(origin.folder, tmp_path / "own")))
    tensors = load_tensors(own.weights_file)[0]
    tensors["decoder.1.feed_forward.inner.bias"][3] = bad
    save_tensors(own.weights_file, tensors)
    message = (
        rf"^{re.escape(str(own.weights_file))} has weights that are not numbers "
        r"\(decoder\.1\.feed_forward\.inner\.bias\); "
        r"train again with a lower training\.learning_rate$"
    )
    refused_without_a_trace(RunError, message, tmp_path / "run", own.folder, "exits.halting=geometric")


def test_damaged_weights_are_refused(origin: Run, tmp_path: Path) -> None:
    own = Run(Path(shutil.copytree(origin.folder, tmp_path / "own")))
    own.weights_file.write_bytes(own.weights_file.read_bytes()[:-100])
    refused_without_a_trace(RunError, r"model\.safetensors is not as the run wrote it", tmp_path / "run", own.folder)


def test_a_continued_run_replaces_another_only_on_demand(origin: Run, tmp_path: Path) -> None:
    run = continued_run(tmp_path / "run", origin.folder, None, ["training.seed=5"], overwrite=False)
    with pytest.raises(RunError, match=r"run exists already; choose another --to, go on with --resume"):
        continued_run(run.folder, origin.folder, None, ["training.seed=6"], overwrite=False)
    assert run.config.training.seed == 5
    continued_run(run.folder, origin.folder, None, ["training.seed=6"], overwrite=True)
    assert run.config.training.seed == 6
