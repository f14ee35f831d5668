"""Files that ask for too much, or are none, are refused in one line that names them, even if a seal
vouches for them; nothing hangs."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from cli.commands import anydepth, assert_refused
from tiny import tiny_config, tiny_model

from anydepth.bleu_oracle.table import load_scores
from anydepth.cli import main as cli
from anydepth.errors import ConfigError, CorpusError, RunError, UsageError
from anydepth.experiments.definition import load_study
from anydepth.experiments.measuring import load_statistics
from anydepth.experiments.records import RunRecord, read_record
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.training_runs import trained
from anydepth.files.seal import Seal
from anydepth.model.checkpoint import average_tensors, load_tensors, model_tensors, save_tensors, stored_shapes
from anydepth.model.memory import check_memory
from anydepth.runs.metrics import metric_line
from anydepth.runs.models import check_shape, sizes_of
from anydepth.runs.run import Run
from anydepth.text.corpus import LONGEST_LINE, open_lines
from anydepth.text.tokenizer import Tokenizer, train_tokenizer


def with_setting(run: Path, name: str, value: object) -> None:
    """Puts another value for the first setting of that name into the run's configuration."""
    text = (run / "config.toml").read_text(encoding="utf-8")
    (run / "config.toml").write_text(
        re.sub(rf"^{name} = .*$", f"{name} = {value}", text, count=1, flags=re.MULTILINE), encoding="utf-8"
    )
    Seal(run).make()


@pytest.mark.parametrize("name", ["blocks", "dim", "ffn_dim", "max_length"])
def test_a_run_whose_settings_ask_for_10_to_the_9_is_refused_by_name(own_run: Path, name: str) -> None:
    with_setting(own_run, name, 10**9)
    for arguments in (["translate", own_run], ["train", "--resume", "--to", own_run]):
        assert_refused(
            anydepth(*arguments), "config.toml", f"{name} = 1000000000 cannot be used", "less than or equal to"
        )


@pytest.mark.parametrize(
    ("name", "value", "was"),
    [("blocks", 256, 3), ("dim", 65536, 16), ("ffn_dim", 65536, 24)],
    ids=["blocks", "dim", "ffn_dim"],
)
def test_settings_within_the_limits_are_compared_with_the_weights_before_memory_is_taken(
    own_run: Path, name: str, value: int, was: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(run: Run) -> None:
        raise AssertionError("a model was made")

    monkeypatch.setattr("anydepth.runs.models.new_model", no_memory)
    monkeypatch.setattr("anydepth.training.loop.new_model", no_memory)
    with_setting(own_run, name, value)
    for arguments, file in (
        (["translate", own_run], "model.safetensors"),
        (["train", "--resume", "--to", own_run], "state.safetensors"),
    ):
        outcome = anydepth(*arguments)
        assert_refused(
            outcome,
            f"{file} does not fit its configuration: model.",
            f" is {was} in the file and {value} in ",
            "config.toml",
        )


def test_the_sizes_of_a_model_are_those_of_its_tensors(tmp_path: Path) -> None:
    config = tiny_config()
    save_tensors(tmp_path / "weights", model_tensors(tiny_model()))
    assert sizes_of(stored_shapes(tmp_path / "weights")) == {
        "model.encoder.blocks": config.model.encoder.blocks,
        "model.encoder.dim": config.model.encoder.dim,
        "model.encoder.ffn_dim": config.model.encoder.ffn_dim,
        "model.blocks": config.model.blocks,
        "model.decoder.dim": config.model.decoder.dim,
        "model.decoder.ffn_dim": config.model.decoder.ffn_dim,
    }


def test_a_model_larger_than_the_machine_is_refused_before_it_is_made() -> None:
    shape = tiny_config(
        "model.blocks=256", "model.decoder.dim=65536", "model.decoder.ffn_dim=65536", "model.heads=4"
    ).model
    with pytest.raises(
        ConfigError, match=r"has [\d,]+ weights, which takes [\d,.]+ GB, and this machine has [\d,.]+ GB; lower"
    ):
        check_memory(shape, source_vocab=10, target_vocab=10, is_joint=False)
    check_memory(tiny_config().model, source_vocab=10, target_vocab=10, is_joint=False)


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(
    "make", [a_pipe, a_device, a_loop, Path.mkdir], ids=["a pipe", "a device", "a loop", "a folder"]
)
@pytest.mark.parametrize("file", ["config.toml", "data.json", "model.safetensors", "tokenizer.model"])
def test_what_is_no_file_is_named_and_not_waited_for(
    own_run: Path, text: Path, file: str, make: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_run / file).unlink()
    make(own_run / file)
    outcome = anydepth("evaluate", own_run, "--test", text / "test")
    assert outcome.code in (1, 2), outcome.err
    assert_refused(outcome, str(own_run), file.partition(".")[0], code=outcome.code)


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "true", '"1.5"', "null", "0", "3.5", "1e999"])
def test_a_point_whose_average_exit_is_no_average_exit_meets_no_wish(own_tuned_run: Path, value: str) -> None:
    file = own_tuned_run / "operating_points.json"
    text = re.sub(r'"average_exit": [0-9.]+', f'"average_exit": {value}', file.read_text(encoding="utf-8"), count=1)
    file.write_text(text, encoding="utf-8")
    Seal(own_tuned_run).make()
    assert_refused(
        anydepth("translate", own_tuned_run, "--average-exit", "1.01", stdin=b"hund\n"),
        str(file),
        "operating points",
        "tune again",
    )


@pytest.mark.parametrize(
    "policy", ["oracle:0.5", "geometric:2,2", "geometric", "geometric:" + "0.5," * 9, "fixed:9", "confidence:0.5", ""]
)
def test_a_point_with_a_policy_that_no_tuning_finds_is_refused_by_name(own_tuned_run: Path, policy: str) -> None:
    file = own_tuned_run / "operating_points.json"
    values = json.loads(file.read_text(encoding="utf-8"))
    values["sets"][0]["points"][0]["policy"] = policy
    file.write_text(json.dumps(values), encoding="utf-8")
    Seal(own_tuned_run).make()
    assert_refused(
        anydepth("translate", own_tuned_run, "--average-exit", "3", stdin=b"hund\n"),
        str(file),
        "cannot be read as operating points",
    )


def test_a_line_without_an_end_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "endless").write_bytes(b"x" * (LONGEST_LINE + 1))
    with pytest.raises(CorpusError, match=r"endless line 1 has more than 16,777,216 bytes; give one sentence per line"):
        list(open_lines(tmp_path / "endless"))
    with pytest.raises(CorpusError, match=r"^/dev/zero line 1 has more than"):
        list(open_lines(Path("/dev/zero")))


def test_a_tokenizer_whose_pieces_are_no_text_is_named(tmp_path: Path) -> None:
    good = train_tokenizer(["hund und katze"] * 9, vocab_size=275).model_bytes
    (tmp_path / "bad.model").write_bytes(good.replace(b"un", b"\xffn"))
    with pytest.raises(
        CorpusError, match=r"bad.model is not a tokenizer: the SentencePiece model has pieces that are no text"
    ):
        Tokenizer.load(tmp_path / "bad.model")


def test_checkpoints_of_two_models_have_no_average(tmp_path: Path) -> None:
    for name, size in (("first", 2), ("second", 3)):
        save_tensors(tmp_path / name, {"weight": torch.zeros(size)})
    with pytest.raises(RunError, match=r"second is not a checkpoint of the same model as .*first"):
        average_tensors([tmp_path / "first", tmp_path / "second"])


@pytest.mark.parametrize(
    "name", ["pairs out of order", "scores of one dimension", "a recipe that nests", "a number as text"]
)
def test_scores_that_are_no_table_are_named(tmp_path: Path, name: str) -> None:
    pairs = torch.tensor([2, 1]) if name == "pairs out of order" else torch.tensor([1, 2])
    scores = (
        torch.zeros(2, dtype=torch.float64)
        if name == "scores of one dimension"
        else torch.zeros(2, 3, dtype=torch.float64)
    )
    recipe: object = {"metric": "bleu", "signature": "", "beam": 1, "length_penalty": 1.0, "weights": "", "data": ""}
    text = {"a recipe that nests": "[" * 100_000, "a number as text": json.dumps(recipe | {"beam": "1"})}.get(
        name, json.dumps(recipe)
    )
    tensors = {
        f"{split}.{part}": tensor.clone()
        for split in ("train", "valid")
        for part, tensor in (("pairs", pairs), ("scores", scores))
    }
    save_tensors(tmp_path / "scores", tensors, {"recipe": text})
    with pytest.raises(RunError, match=r"scores has no scores of exits .*; make them with `anydepth score-exits`"):
        load_scores(tmp_path / "scores")


@pytest.mark.parametrize(
    "line", ["{", "[]", "null", '{"update": 1e999, "seconds": 1}', '{"update": "x", "seconds": 1}', "[" * 100_000]
)
def test_a_damaged_line_of_the_metrics_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "metrics.jsonl").write_text(metric_line({"update": 3, "seconds": 2.5}) + line + "\n", encoding="utf-8")
    with pytest.raises(RunError, match=r"metrics.jsonl, line 2 is damaged"):
        trained(Run(tmp_path))


def test_records_and_statistics_of_a_study_are_named_when_they_are_none(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    for text in ("{", "[]", '{"format": 1}', "[" * 100_000):
        (tmp_path / "study.json").write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=r"study.json cannot be read"):
            load_study(folder)
        with pytest.raises(UsageError, match=r"study.json is no record of a study"):
            read_record(tmp_path / "study.json", RunRecord)
    folder.statistics.mkdir()
    save_tensors(folder.run_statistics("run"), {"test/fixed:1": torch.zeros(3, 4, dtype=torch.int32)})
    with pytest.raises(RunError, match=r"run.safetensors has no statistics of sentences under test/fixed:1"):
        load_statistics(folder, "run")


def test_a_weights_file_that_is_a_pipe_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "weights")
    for read in (load_tensors, stored_shapes):
        with pytest.raises(RunError, match=r"weights is damaged or cut short \(it is a pipe, not a file\)"):
            read(tmp_path / "weights")


def test_an_error_is_one_line_whatever_is_in_a_name(tmp_path: Path) -> None:
    outcome = anydepth("translate", tmp_path / "two\nlines \x1b[31m\udcff" / ("x" * 200))
    assert_refused(outcome, r"two\nlines \x1b[31m\udcff")
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried")]
)
def test_want_of_memory_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "make_app", lambda: fail)
    assert_refused(anydepth(), "there is not enough memory for this; lower --batch-tokens", code=1)


def test_other_errors_of_torch_are_not_called_want_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(cli, "make_app", lambda: fail)
    with pytest.raises(RuntimeError, match="a bug"):
        anydepth()


def test_check_shape_looks_at_the_names_with_their_prefix(own_run: Path) -> None:
    check_shape(Run(own_run), own_run / "model.safetensors")
    check_shape(Run(own_run), own_run / "state.safetensors", prefix="model.")
    with pytest.raises(
        RunError,
        match=r"state.safetensors does not fit its configuration: model.encoder.blocks is 0 in the file and 1 in",
    ):
        check_shape(Run(own_run), own_run / "state.safetensors")


def test_a_loop_of_links_is_told_in_one_line(tmp_path: Path, text: Path, run: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    prepare = [
        "prepare",
        "--source-lang",
        "de",
        "--target-lang",
        "en",
        "--train",
        text / "train",
        "--valid",
        text / "valid",
    ]
    for arguments in (
        ["data", "multi30k", "--archive", loop, "--to", tmp_path / "to"],
        [*prepare, "--to", loop],
        ["train", "--from", run, "--to", loop],
    ):
        outcome = anydepth(*arguments)
        assert_refused(outcome, str(loop), code=outcome.code)
        assert outcome.code in (1, 2)


def test_a_device_is_no_archive(tmp_path: Path) -> None:
    assert_refused(
        anydepth("data", "multi30k", "--archive", "/dev/zero", "--to", tmp_path / "to"),
        "/dev/zero is neither a file nor a folder",
    )


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("exit_scores.safetensors", ["score-exits"]),
        ("metrics.jsonl", ["train", "--resume", "--to"]),
        ("train.log", ["train", "--resume", "--to"]),
    ],
    ids=["scores", "metrics", "log"],
)
def test_a_pipe_in_the_place_of_what_is_to_be_written_is_not_waited_for(
    own_run: Path, file: str, command: list[str]
) -> None:
    (own_run / file).unlink(missing_ok=True)
    Run(own_run).seal.make()
    os.mkfifo(own_run / file)
    assert_refused(anydepth(*command, own_run), f"{file} is not a file; remove it")


def test_a_pipe_in_the_place_of_what_tuning_remembers_is_not_waited_for(own_tuned_run: Path, held_out: Path) -> None:
    (own_tuned_run / "tuning.jsonl").unlink()
    os.mkfifo(own_tuned_run / "tuning.jsonl")
    assert_refused(anydepth("tune", own_tuned_run, "--valid", held_out), "tuning.jsonl is not a file; remove it")
