"""demo: from nothing to a table and samples, and nothing that is done is done again."""

import re
from pathlib import Path

import pytest
from cli.commands import anydepth, assert_refused, done

from anydepth.inference.engines.native.native_engine import has_native
from anydepth.tuning.tune import TuneSettings

ROUNDS = 2
PICTURES = ("clock.png", "tradeoff.png", "tokens.png")
SETTINGS = """
[model]
blocks = 2
heads = 2
[model.encoder]
blocks = 1
dim = 8
ffn_dim = 8
[model.decoder]
dim = 8
ffn_dim = 8
[training]
updates = 2
[validation]
sentences = 0
[decoding]
beam = 1
length_ratio = 0.1
length_offset = 2
"""


EXITS = """
[exits]
halting = "geometric"
[training]
updates = 2
"""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Settings of a tiny model; the corpus and the vocabulary are small, too."""
    monkeypatch.setattr("anydepth.demo.corpus.SPLIT_SIZES", {"train": 400, "valid": 10, "test": 90})
    monkeypatch.setattr("anydepth.demo.walkthrough.VOCAB_SIZE", 400)
    monkeypatch.setattr("anydepth.demo.walkthrough.ROUNDS", ROUNDS)
    monkeypatch.setattr(
        "anydepth.demo.walkthrough.TUNING",
        TuneSettings(objective="average-exit", candidates=20, segment=0.5, decoded=1),
    )
    (tmp_path / "exits.toml").write_text(EXITS, encoding="utf-8")
    (tmp_path / "small.toml").write_text(SETTINGS, encoding="utf-8")
    return tmp_path / "small.toml"


def test_the_demo_shows_every_exit_and_three_samples_and_repeats_no_finished_work(small: Path, tmp_path: Path) -> None:
    command = ("demo", "--to", tmp_path / "demo", "--config", small, "--exits-config", tmp_path / "exits.toml")
    first = done(*command)
    policies = [
        line.split()[0]
        for line in first.out.splitlines()
        if line.startswith(("fixed:", "uniform", "confidence:", "geometric:"))
    ]
    assert policies[:3] == ["fixed:1", "fixed:2", "uniform:seed=1"]
    assert {policy.partition(":")[0] for policy in policies[3:]} == {"confidence", "geometric", "fixed"}
    assert policies.count("fixed:2") >= 2, "once in the table of policies, once in that of engines"
    rounds = [line for line in first.err.splitlines() if re.search(r": round \d of \d$", line)]
    assert [line.rpartition(":")[2] for line in rounds] == [" round 1 of 2", " round 2 of 2"] * 3
    assert "\nvocabulary " in first.out and "\nsystem  " in first.out, "the check of the words, and the race"
    assert ("torch tokens/s" in first.out) and ("native-int8 tokens/s" in first.out) == has_native()
    assert [first.out.count(f"\n  {label:<11}") for label in ("source", "exits", "reference")] == [3, 3, 3]
    assert (tmp_path / "demo" / "evaluation.json").exists()
    made = [
        tmp_path / "demo" / name
        for name in ("model/model.safetensors", "exits/model.safetensors", "exits/operating_points.json")
    ]
    written = [file.stat().st_mtime_ns for file in made]
    assert all((tmp_path / "demo" / picture).read_bytes().startswith(b"\x89PNG") for picture in PICTURES)

    second = done(*command)
    assert "prepared already" in second.err and "learned already" in second.err
    assert second.err.count("trained already") == 2 and second.err.count("is tuned already") == 2
    assert [file.stat().st_mtime_ns for file in made] == written
    samples = [each.out[each.out.index("\n  source ") :] for each in (first, second)]
    assert samples[0] == samples[1]


def test_a_demo_without_its_configuration_is_refused_before_it_writes(tmp_path: Path) -> None:
    assert_refused(
        anydepth("demo", "--to", tmp_path / "demo", "--config", tmp_path / "no.toml"), str(tmp_path / "no.toml")
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak  # a second whole demo for one refusal
def test_a_demo_with_other_settings_than_before_is_refused(small: Path, tmp_path: Path) -> None:
    done("demo", "--to", tmp_path / "demo", "--config", small, "--exits-config", tmp_path / "exits.toml")
    small.write_text(SETTINGS.replace("updates = 2", "updates = 3"), encoding="utf-8")
    assert_refused(
        anydepth("demo", "--to", tmp_path / "demo", "--config", small, "--exits-config", tmp_path / "exits.toml"),
        "was made with other settings",
        out="",
    )
