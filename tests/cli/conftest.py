"""A made-up language pair, its prepared data and small runs, trained and tuned, shared by all tests
of the command line."""

import json
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from cli.commands import Outcome, done

from anydepth.runs.operating_points import OperatingPoint

WORDS = {
    "der": "the",
    "hund": "dog",
    "läuft": "runs",
    "und": "and",
    "katze": "cat",
    "schläft": "sleeps",
    "gern": "gladly",
}
SPLITS = {"train": 60, "valid": 6, "test": 8}
HELD_OUT = 9
TUNING = ["--objective", "average-exit", "--candidates", 30, "--segment", 0.5, "--decoded", 1, "--beam", 1]
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


def write_text_pairs(folder: Path, split: str, count: int, *, shortest: int = 1) -> None:
    """`count` sentences and their translations word by word as SPLIT.de and SPLIT.en."""
    randomness = random.Random(split)
    sentences = [randomness.choices(list(WORDS), k=randomness.randint(shortest, 6)) for _ in range(count)]
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
def held_out(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prefix of text that shares no sentence with the training text, to tune on."""
    folder = tmp_path_factory.mktemp("held-out")
    write_text_pairs(folder, "held", HELD_OUT, shortest=5)
    held, train = (
        (path.parent / f"{path.name}.de").read_text(encoding="utf-8").splitlines()
        for path in (folder / "held", text / "train")
    )
    assert not set(held) & set(train)
    return folder / "held"


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
def study_data(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepared text whose held-out sets share no sentence with the training text."""
    folder = tmp_path_factory.mktemp("study-text")
    for split, count in (("valid", 9), ("test", 12)):
        write_text_pairs(folder, split, count, shortest=5)
    languages = ["--source-lang", "de", "--target-lang", "en", "--train", text / "train"]
    done(
        "prepare",
        *languages,
        "--valid",
        folder / "valid",
        "--test",
        folder / "test",
        "--vocab-size",
        310,
        "--to",
        folder / "data",
    )
    return folder / "data"


@pytest.fixture(scope="session")
def study_settings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model that saves often."""
    file = tmp_path_factory.mktemp("study-settings") / "tiny.toml"
    text = SETTINGS.replace("sentences = 3", "sentences = 0").replace("save_every = 20", "save_every = 5")
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def run(data: Path, settings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run, which tests only read."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    done("train", settings, "--data", data, "--to", folder)
    return folder


@pytest.fixture(scope="session")
def exits_run(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learned where to stop, geometric-like, from the trained one; tests only read
    it."""
    folder = tmp_path_factory.mktemp("runs") / "exits"
    done("train", "--from", run, "--to", folder, "--set", "exits.halting=geometric", "--set", "training.updates=150")
    return folder


@dataclass(frozen=True)
class Tuned:
    """A run that was tuned, and what the command said."""

    run: Path
    outcome: Outcome

    @property
    def points(self) -> list[OperatingPoint]:
        """What is stored with the run."""
        (found,) = json.loads((self.run / "operating_points.json").read_text(encoding="utf-8"))["sets"]
        return [OperatingPoint(**point) for point in found["points"]]


@pytest.fixture(scope="session")
def tuned(exits_run: Path, held_out: Path, tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    """The run that learned where to stop with its operating points, which tests only read."""
    folder = shutil.copytree(exits_run, tmp_path_factory.mktemp("runs") / "tuned")
    return Tuned(folder, done("tune", folder, "--valid", held_out, *TUNING))


@pytest.fixture
def own_run(run: Path, tmp_path: Path) -> Path:
    """A copy of the trained run, which a test may spoil."""
    return shutil.copytree(run, tmp_path / "own-run")


@pytest.fixture
def own_tuned_run(tuned: Tuned, tmp_path: Path) -> Path:
    """A copy of the tuned run, which a test may spoil."""
    return shutil.copytree(tuned.run, tmp_path / "own-tuned-run")


@pytest.fixture
def own_text(text: Path, tmp_path: Path) -> Path:
    """A copy of the text, which a test may spoil."""
    return shutil.copytree(text, tmp_path / "own-text")
