"""train refuses settings, data and places that it cannot use in one sentence, and touches
nothing."""

import json
import shutil
from pathlib import Path

import pytest
from cli.commands import Outcome, anydepth, assert_refused, contents, done
from cli.conftest import options_for_prepare


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("model.blokcs=3", ["model.blokcs", "did you mean model.blocks?"]),
        ("modle.blocks=3", ["modle", "did you mean model?"]),
        ("model.encoder.width=3", ["model.encoder.width", "known here: blocks, dim, ffn_dim"]),
        ("model.blocks=many", ["model.blocks = 'many'", "integer"]),
        ("model.blocks=0", ["model.blocks = 0", "greater than or equal to 1"]),
        ("model.dropout=1.5", ["model.dropout = 1.5", "less than 1"]),
        ("model.classifiers=tide", ["model.classifiers = 'tide'", "'tied'"]),
        ("model.heads=3", ["model.encoder.dim = 16 is not divisible by model.heads = 3", "try 15 or 18"]),
        ("training.exit_weights=[1.0, 2.0]", ["training.exit_weights has 2 numbers", "3 exits"]),
        ("model.blocks", ["model.blocks is not of the form section.key=value"]),
        ("model.blocks.deep=3", ["model.blocks"]),
        ("model=3", ["model is a section of settings", "3", "blocks"]),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_with_the_cure(
    data: Path, settings: Path, tmp_path: Path, change: str, words: list[str]
) -> None:
    outcome = anydepth("train", settings, "--data", data, "--to", tmp_path / "run", "--set", change)
    assert_refused(outcome, *words)
    assert outcome.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("[model]\nblock = 3\n", ["bad.toml", "model.block", "did you mean model.blocks?"]),
        ("[model\n", ["bad.toml is not valid TOML"]),
        ("model = 3\n", ["bad.toml", "model is a section of settings"]),
    ],
)
def test_a_configuration_file_with_a_fault_is_named(data: Path, tmp_path: Path, toml: str, words: list[str]) -> None:
    (tmp_path / "bad.toml").write_text(toml, encoding="utf-8")
    assert_refused(anydepth("train", tmp_path / "bad.toml", "--data", data, "--to", tmp_path / "run"), *words)
    assert not (tmp_path / "run").exists()


def test_missing_files_are_named(data: Path, settings: Path, tmp_path: Path) -> None:
    assert_refused(
        anydepth("train", tmp_path / "no.toml", "--data", data, "--to", tmp_path / "run"), f"{tmp_path / 'no.toml'}"
    )
    assert_refused(
        anydepth("train", settings, "--data", tmp_path / "no", "--to", tmp_path / "run"),
        f"{tmp_path / 'no'}",
        "manifest.json",
    )
    assert_refused(anydepth("train", "--to", tmp_path / "run"), "CONFIG", "--data")
    assert list(tmp_path.iterdir()) == []


def test_data_that_lost_a_part_is_refused_by_name(data: Path, settings: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(data, tmp_path / "data")
    (broken / "train.en.tokens").write_bytes(b"\0")
    assert_refused(
        anydepth("train", settings, "--data", broken, "--to", tmp_path / "run"), "train.en.tokens has 1 bytes"
    )
    (broken / "train.en.tokens").unlink()
    assert_refused(
        anydepth("train", settings, "--data", broken, "--to", tmp_path / "run"), "train.en.tokens is missing"
    )
    assert not (tmp_path / "run").exists()


def test_a_run_is_replaced_only_on_demand(own_run: Path, data: Path, settings: Path) -> None:
    before = contents(own_run)
    command = (
        "train",
        settings,
        "--data",
        data,
        "--to",
        own_run,
        "--set",
        "training.updates=3",
        "--set",
        "validation.sentences=0",
    )
    assert_refused(anydepth(*command), f"{own_run} exists already", "--resume", "--overwrite")
    assert contents(own_run) == before
    done(*command, "--overwrite")
    after = contents(own_run)
    assert [name for name in after if "update-" in name] == ["checkpoints/update-0000003.safetensors"]
    assert after["model.safetensors"] != before["model.safetensors"]


def test_overwriting_with_bad_settings_keeps_the_run(own_run: Path, data: Path, settings: Path) -> None:
    before = contents(own_run)
    assert_refused(
        anydepth("train", settings, "--data", data, "--to", own_run, "--overwrite", "--set", "model.heads=3"),
        "model.heads = 3",
    )
    assert contents(own_run) == before


def test_a_folder_of_something_else_is_never_replaced(data: Path, settings: Path, tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("dear diary", encoding="utf-8")
    assert_refused(
        anydepth("train", settings, "--data", data, "--to", tmp_path, "--overwrite"), "is not a run directory"
    )
    assert contents(tmp_path) == {"diary.txt": b"dear diary"}


def resume(folder: Path, *options: object) -> Outcome:
    return anydepth("train", "--resume", "--to", folder, *options)


def test_a_finished_run_goes_on_for_more_updates(own_run: Path) -> None:
    assert "going on after update 60" in resume(own_run, "--set", "training.updates=64").err
    assert "updates = 64" in (own_run / "config.toml").read_text(encoding="utf-8")
    assert (own_run / "checkpoints" / "update-0000064.safetensors").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--set", "model.blocks=2"], ["--set model.blocks=2", "start a new run"]),
        (["--set", "training.learning_rate=1"], ["--set training.learning_rate=1"]),
        (
            ["--set", "training.updates=few"],
            ["error: --set training.updates=few: training.updates = 'few' cannot be used"],
        ),
        (["--set", "training.updates=70", "--set", "training.seed=2"], ["--set training.seed=2"]),
        (["config.toml"], ["a new run needs CONFIG and --data"]),
        (["demo", "--data", "elsewhere"], ["is not that of", "a resumed run keeps its settings, except updates"]),
        (["--data", "elsewhere"], ["elsewhere holds no manifest.json"]),
        (["--overwrite"], ["--resume goes on with the run at --to and --overwrite replaces it"]),
        (["--from", "elsewhere"], ["elsewhere is not a run directory"]),
    ],
)
def test_a_resumed_run_keeps_its_settings(own_run: Path, options: list[str], words: list[str]) -> None:
    before = contents(own_run)
    assert_refused(resume(own_run, *options), *words)
    assert contents(own_run) == before


def test_one_command_makes_a_run_and_goes_on_with_it(data: Path, settings: Path, tmp_path: Path) -> None:
    few = ["--set", "training.updates=2", "--set", "validation.sentences=0"]
    command = ["train", settings, "--data", data, "--to", tmp_path / "run", "--resume", *few]
    assert "trained 2 updates" in done(*command).err
    again = done(*command).err
    assert "the budget was spent after update 2" in again
    assert "trained 4 updates" in done(*command, "--set", "training.updates=4").err
    before = contents(tmp_path / "run")
    outcome = anydepth(*command, "--set", "training.seed=7")
    assert_refused(outcome, f"training.seed = 7 is not that of {tmp_path / 'run'} (1), and a resumed run keeps its")
    outcome = anydepth("train", "--from", tmp_path / "run", "--to", tmp_path / "run", "--resume")
    assert_refused(outcome, f"{tmp_path / 'run'} did not start from {tmp_path / 'run'} as it is now")
    assert contents(tmp_path / "run") == before


def test_a_command_that_torchrun_would_start_again_in_vain_is_refused(
    data: Path, settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    command = ["train", settings, "--data", data, "--to", tmp_path / "run"]
    assert_refused(anydepth(*command), "torchrun --max-restarts 3 starts this command again", "give --resume, too")
    assert not (tmp_path / "run").exists()


def test_a_run_does_not_go_on_with_other_data(text: Path, settings: Path, tmp_path: Path) -> None:
    done("prepare", *options_for_prepare(text, tmp_path / "data"))
    done("train", settings, "--data", tmp_path / "data", "--to", tmp_path / "run", "--set", "training.updates=2")
    done("prepare", *options_for_prepare(text, tmp_path / "data"), "--max-tokens", 12, "--overwrite")
    before = contents(tmp_path / "run")
    assert_refused(
        resume(tmp_path / "run", "--set", "training.updates=4"),
        str(tmp_path / "data"),
        "is not the data",
        "fingerprint",
    )
    assert contents(tmp_path / "run") == before
    shutil.rmtree(tmp_path / "data")
    assert_refused(resume(tmp_path / "run", "--set", "training.updates=4"), str(tmp_path / "data"))
    assert contents(tmp_path / "run") == before


def test_a_training_state_that_is_damaged_is_named(own_run: Path) -> None:
    whole = (own_run / "state.safetensors").read_bytes()
    (own_run / "state.safetensors").write_bytes(whole[: len(whole) // 2])
    assert_refused(resume(own_run, "--set", "training.updates=64"), "state.safetensors is not as the run wrote it")


def continued(origin: Path, to: Path, *options: object) -> Outcome:
    return anydepth("train", "--from", origin, "--to", to, "--set", "exits.halting=geometric", *options)


def test_a_run_teaches_its_model_where_to_stop_from_the_weights_of_another(run: Path, tmp_path: Path) -> None:
    before, new = contents(run), tmp_path / "new"
    done(
        "train",
        "--from",
        run,
        "--to",
        new,
        "--set",
        "exits.halting=geometric",
        "--set",
        "training.updates=4",
        "--set",
        "training.log_every=2",
    )
    assert contents(run) == before
    assert contents(new)["tokenizer.model"] == before["tokenizer.model"]
    lines = [json.loads(line) for line in (new / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    told = [line for line in lines if line["event"] == "train"]
    assert [line["update"] for line in told] == [2, 4]
    assert all(len(line["oracle_exits"]) == len(line["halting_exits"]) == 3 and line["exit_loss"] > 0 for line in told)
    assert done("translate", new, "--policy", "geometric:0.5", stdin="der hund läuft\n".encode()).out.count("\n") == 1
    assert_refused(
        anydepth("translate", run, "--policy", "geometric", stdin=b"hund\n"),
        "it has none",
        "--set exits.halting=geometric",
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["--set", "model.blocks=2"],
            ["model.blocks = 2 is not that of", "(3)", "--from keeps the shape of the model"],
        ),
        (
            ["--set", "exits.exit_penalty=-1"],
            [
                "error: --set exits.exit_penalty=-1: exits.exit_penalty = -1 cannot be used",
                "greater than or equal to 0",
            ],
        ),
        (
            ["--set", "training.mode=mixed"],
            ['exits.halting = "geometric" learns from the states of all blocks', 'training.mode = "aligned"'],
        ),
        (["--data", "elsewhere"], ["elsewhere holds no manifest.json"]),
        (["no.toml"], ["there is no configuration at no.toml"]),
    ],
)
def test_a_continued_run_refuses_what_does_not_fit_its_origin_and_writes_nothing(
    run: Path, tmp_path: Path, options: list[str], words: list[str]
) -> None:
    assert_refused(continued(run, tmp_path / "new", *options), *words)
    assert list(tmp_path.iterdir()) == []


def test_an_origin_in_another_vocabulary_unfinished_or_the_same_run_is_refused(
    run: Path, own_run: Path, own_text: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new"
    done("prepare", *options_for_prepare(own_text, own_text / "data"), "--separate")
    assert_refused(
        continued(run, new, "--data", own_text / "data"), f"{own_text / 'data'} has another vocabulary than {run}"
    )
    assert_refused(continued(own_run, own_run), "are the same run; choose another --to")
    (own_run / "model.safetensors").unlink()
    assert_refused(continued(own_run, new), f"{own_run / 'model.safetensors'} is missing, but the run has written it")
    done("seal", own_run)
    assert_refused(
        continued(own_run, new), f"{own_run} has no model.safetensors to start from", "let its training end first"
    )
    assert_refused(continued(tmp_path / "no", new), f"{tmp_path / 'no'} is not a run directory")
    assert not new.exists()


def test_a_continued_run_leaves_an_existing_run_alone(run: Path, own_run: Path) -> None:
    before = contents(own_run)
    assert_refused(continued(run, own_run), f"{own_run} exists already", "--overwrite")
    assert_refused(continued(run, own_run, "--overwrite", "--set", "model.blocks=2"), "model.blocks = 2")
    assert contents(own_run) == before
