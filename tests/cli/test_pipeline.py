"""From text to translations through the verbs alone."""

import gzip
import json
import re
from pathlib import Path

import pytest
from cli.commands import anydepth, assert_refused, contents, done
from cli.conftest import SPLITS, options_for_prepare

from anydepth.text.prepared import PreparedData

BRIEF = [
    *(
        "--set",
        "training.updates=4",
        "--set",
        "validation.every=2",
        "--set",
        "validation.sentences=2",
        "--set",
        "training.average=2",
    ),
]


def sentences(outcome_out: str) -> list[str]:
    """The lines of an output that ends with a line end."""
    assert outcome_out.endswith("\n")
    return outcome_out.split("\n")[:-1]


def test_a_run_holds_all_that_later_commands_need(run: Path, text: Path, data: Path, tmp_path: Path) -> None:
    assert {path.name for path in run.iterdir()} == {
        *(
            "config.toml",
            "data.json",
            "tokenizer.model",
            "model.safetensors",
            "best-0000060.safetensors",
            "state.safetensors",
        ),
        *("metrics.jsonl", "train.log", "checkpoints", "seal.json", ".seal.json.lock"),
    }
    hidden = data.rename(tmp_path / "elsewhere")
    try:
        out = done("translate", run, text / "test.de").out
        done("evaluate", run, "--test", text / "test")
    finally:
        hidden.rename(data)
    assert len(sentences(out)) == SPLITS["test"]


def test_metrics_are_json_lines_with_the_figures_of_every_exit(run: Path) -> None:
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(event["event"], event["update"]) for event in events] == [
        *[
            ("train", 10),
            ("train", 20),
            ("train", 30),
            ("valid", 30),
            ("train", 40),
            ("train", 50),
            ("train", 60),
            ("valid", 60),
        ],
    ]
    assert {len(event["nll"]) for event in events} == {3}
    assert events[-2]["nll"][2] < events[0]["nll"][2], "training must lower the loss, or other tests compare noise"


def test_gzipped_text_makes_the_same_data(text: Path, data: Path, tmp_path: Path) -> None:
    for path in text.glob("*.*"):
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    done("prepare", *options_for_prepare(tmp_path, tmp_path / "data"))
    assert PreparedData.open(tmp_path / "data").fingerprint == PreparedData.open(data).fingerprint
    PreparedData.open(tmp_path / "data").verify()


@pytest.mark.parametrize(
    "change", ["model.classifiers=untied", "model.classifiers=shared", "model.classifiers=tied", "training.mode=mixed"]
)
def test_every_kind_of_model_trains_evaluates_and_translates(
    change: str, text: Path, data: Path, settings: Path, tmp_path: Path
) -> None:
    done("train", settings, "--data", data, "--to", tmp_path / "run", *BRIEF, "--set", change)
    rows = json.loads(done("evaluate", tmp_path / "run", "--test", text / "test", "--each-exit", "--json").out)[
        "results"
    ]
    assert [row["policy"] for row in rows] == ["fixed:1", "fixed:2", "fixed:3", "uniform:seed=1"]
    assert (
        len(sentences(done("translate", tmp_path / "run", text / "test.de", "--policy", "uniform").out))
        == SPLITS["test"]
    )


def test_the_baseline_has_its_last_exit_only(text: Path, data: Path, settings: Path, tmp_path: Path) -> None:
    done(
        "train",
        settings,
        "--data",
        data,
        "--to",
        tmp_path / "run",
        *BRIEF,
        "--set",
        "model.exits=last",
        "--set",
        "training.final=average",
    )
    (row,) = json.loads(done("evaluate", tmp_path / "run", "--test", text / "test", "--each-exit", "--json").out)[
        "results"
    ]
    assert (row["policy"], row["average_exit"]) == ("fixed:3", 3.0)


def test_separate_vocabularies_work_from_text_to_translation(text: Path, settings: Path, tmp_path: Path) -> None:
    done(
        "prepare",
        *options_for_prepare(text, tmp_path / "data"),
        "--separate",
        "--vocab-size",
        290,
        "--test",
        text / "test",
    )
    assert {"tokenizer.de.model", "tokenizer.en.model", "test.de", "test.en"} <= contents(tmp_path / "data").keys()
    done("train", settings, "--data", tmp_path / "data", "--to", tmp_path / "run", *BRIEF)
    assert {"tokenizer.source.model", "tokenizer.target.model"} <= contents(tmp_path / "run").keys()
    assert len(sentences(done("translate", tmp_path / "run", text / "test.de").out)) == SPLITS["test"]


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(
    data: Path, settings: Path, tmp_path: Path
) -> None:
    for name, seed in (("one", 7), ("two", 7), ("three", 8)):
        done("train", settings, "--data", data, "--to", tmp_path / name, *BRIEF, "--set", f"training.seed={seed}")
    one, two, three = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two", "three"))
    assert one == two
    assert one != three


def test_epochs_count_from_1_in_the_metrics_as_in_the_log(run: Path) -> None:
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    log = re.findall(
        r"^update (\d+)  epoch (\d+) ", (run / "train.log").read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    told = [(line["update"], line["epoch"]) for line in metrics if line["event"] == "train"]
    assert told == [(int(update), int(epoch)) for update, epoch in log]
    assert told[0][1] == 1 or told[0][0] > 1
    assert {epoch for _, epoch in told} != {told[0][1]}, "several epochs, else this shows little"


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf"])
def test_no_time_to_train_is_refused_by_the_option_s_name(
    data: Path, settings: Path, tmp_path: Path, minutes: str
) -> None:
    outcome = anydepth("train", settings, "--data", data, "--to", tmp_path / "run", "--minutes", minutes)
    assert_refused(outcome, f"error: --minutes {minutes} is no time to train for; give a number above 0")
    assert not (tmp_path / "run").exists()


def test_minutes_end_a_run_whose_updates_are_not_done(data: Path, settings: Path, tmp_path: Path) -> None:
    outcome = done(
        "train",
        settings,
        "--data",
        data,
        "--to",
        tmp_path / "run",
        "--minutes",
        "0.005",
        "--set",
        "training.updates=1000000",
    )
    assert "trained " in outcome.err.splitlines()[-1]
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_the_built_in_corpus_is_written_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anydepth.demo.corpus.SPLIT_SIZES", {"train": 30, "valid": 5, "test": 7})
    outcome = done("corpus", "--to", tmp_path / "corpus")
    assert (outcome.out, outcome.err) == ("", "train: 30 pairs\nvalid: 5 pairs\ntest: 7 pairs\n")
    assert {name: text.count(b"\n") for name, text in contents(tmp_path / "corpus").items()} == {
        **{"test.de": 7, "test.en": 7, "train.de": 30, "train.en": 30, "valid.de": 5, "valid.en": 5},
    }
    assert done("corpus", "--to", tmp_path / "other", "--seed", 2)
    assert contents(tmp_path / "other") != contents(tmp_path / "corpus")
    before = contents(tmp_path / "corpus")
    assert_refused(
        anydepth("corpus", "--to", tmp_path / "corpus", "--seed", 2), "exists already and would be overwritten"
    )
    assert contents(tmp_path / "corpus") == before
