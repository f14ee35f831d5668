"""demo: from nothing to a table and samples, and nothing that is done is done again."""

from pathlib import Path

import pytest
from cli.commands import anydepth, assert_refused, done

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


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Settings of a tiny model; the corpus and the vocabulary are small, too."""
    monkeypatch.setattr("anydepth.text.demo.corpus.SPLIT_SIZES", {"train": 400, "valid": 10, "test": 220})
    monkeypatch.setattr("anydepth.demo.VOCAB_SIZE", 400)
    (tmp_path / "small.toml").write_text(SETTINGS, encoding="utf-8")
    return tmp_path / "small.toml"


def test_the_demo_shows_every_exit_and_three_samples_and_repeats_no_finished_work(small: Path, tmp_path: Path) -> None:
    first = done("demo", "--to", tmp_path / "demo", "--config", small)
    policies = [line.split()[0] for line in first.out.splitlines() if line.startswith(("fixed:", "uniform"))]
    assert policies == ["fixed:1", "fixed:2", "uniform:seed=1"]
    assert [first.out.count(f"\n  {label} ") for label in ("source", "exits", "reference")] == [3, 3, 3]
    assert (tmp_path / "demo" / "evaluation.json").exists()
    weights = tmp_path / "demo" / "model" / "model.safetensors"
    written = weights.stat().st_mtime_ns

    second = done("demo", "--to", tmp_path / "demo", "--config", small)
    assert "prepared already" in second.err
    assert "trained already" in second.err
    assert weights.stat().st_mtime_ns == written
    assert second.out.split("\n\n")[1:] == first.out.split("\n\n")[1:], "the same samples"


def test_a_demo_without_its_configuration_is_refused_before_it_writes(tmp_path: Path) -> None:
    assert_refused(anydepth("demo", "--to", tmp_path / "demo", "--config", tmp_path / "no.toml"), str(tmp_path / "no.toml"))
    assert list(tmp_path.iterdir()) == []


def test_a_demo_with_other_settings_than_before_is_refused(small: Path, tmp_path: Path) -> None:
    done("demo", "--to", tmp_path / "demo", "--config", small)
    small.write_text(SETTINGS.replace("updates = 2", "updates = 3"), encoding="utf-8")
    assert_refused(anydepth("demo", "--to", tmp_path / "demo", "--config", small), "was made with other settings", out="")
