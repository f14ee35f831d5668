"""A made-up language pair, its prepared data and one small trained run, shared by all tests of the command line."""

import random
import shutil
from pathlib import Path

import pytest
from cli.commands import done

WORDS = {"der": "the", "hund": "dog", "läuft": "runs", "und": "and", "katze": "cat", "schläft": "sleeps", "gern": "gladly"}
SPLITS = {"train": 60, "valid": 6, "test": 8}
SETTINGS = """
[model]
blocks = 3
heads = 2
dropout = 0.1
max_length = 40

[model.encoder]
blocks = 1
dim = 16
ffn_dim = 24

[model.decoder]
dim = 16
ffn_dim = 20

[training]
updates = 60
batch_tokens = 300
learning_rate = 2e-2
warmup = 10
log_every = 10
save_every = 20

[validation]
every = 30
sentences = 3

[decoding]
beam = 2
length_ratio = 1.0
length_offset = 3
"""


def write_text_pairs(folder: Path, split: str, count: int) -> None:
    """`count` sentences and their translations word by word as SPLIT.de and SPLIT.en."""
    randomness = random.Random(split)
    sentences = [randomness.choices(list(WORDS), k=randomness.randint(1, 6)) for _ in range(count)]
    for language, translate in (("de", str), ("en", WORDS.__getitem__)):
        lines = [" ".join(translate(word) for word in sentence) + "\n" for sentence in sentences]
        (folder / f"{split}.{language}").write_text("".join(lines), encoding="utf-8")


def options_for_prepare(text: Path, to: Path) -> list[object]:
    """The options of `anydepth prepare` for the text in `text`."""
    languages = ["--source-lang", "de", "--target-lang", "en"]
    return [*languages, "--train", text / "train", "--valid", text / "valid", "--vocab-size", 310, "--to", to]


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train, valid and test in .de and .en."""
    folder = tmp_path_factory.mktemp("text")
    for split, count in SPLITS.items():
        write_text_pairs(folder, split, count)
    return folder


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration of a small model."""
    file = tmp_path_factory.mktemp("settings") / "tiny.toml"
    file.write_text(SETTINGS, encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def data(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The text, prepared with one vocabulary."""
    folder = tmp_path_factory.mktemp("prepared") / "data"
    done("prepare", *options_for_prepare(text, folder))
    return folder


@pytest.fixture(scope="session")
def run(data: Path, settings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run, which tests only read."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    done("train", settings, "--data", data, "--to", folder)
    return folder


@pytest.fixture
def own_run(run: Path, tmp_path: Path) -> Path:
    """A copy of the trained run, which a test may spoil."""
    return shutil.copytree(run, tmp_path / "own-run")


@pytest.fixture
def own_text(text: Path, tmp_path: Path) -> Path:
    """A copy of the text, which a test may spoil."""
    return shutil.copytree(text, tmp_path / "own-text")
