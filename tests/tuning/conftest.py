"""A run that knows some words and where to stop, shared by the tests of tuning."""

import random
import shutil
from pathlib import Path

import pytest
from evaluation.translators import training_pairs, write_pairs
from tiny import prepare_tiny, tiny_config, train

from anydepth.runs.run import Run, create_run

WORDS = {"der": "the", "hund": "dog", "läuft": "runs", "und": "and", "die": "a", "katze": "cat", "schläft": "sleeps"}
MAX_LENGTH = 30


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that knows some words and where to stop, beside held-out text."""
    folder = tmp_path_factory.mktemp("trained")
    data = prepare_tiny(folder)
    config = tiny_config(
        *(
            "exits.halting=geometric",
            f"model.max_length={MAX_LENGTH}",
            "validation.sentences=0",
            "validation.every=1000",
        ),
        *("training.updates=120", "training.batch_tokens=150", "training.learning_rate=0.02", "training.warmup=10"),
        *("training.log_every=1000", "training.save_every=1000", "training.final=last"),
        *("decoding.beam=2", "decoding.length_ratio=1.0", "decoding.length_offset=3"),
    )
    run = create_run(folder / "run", config, data)
    train(run, data)
    known, randomness = set(training_pairs(run)), random.Random(11)
    pairs: list[tuple[str, str]] = []
    while len(pairs) < 7:
        words = randomness.choices(list(WORDS), k=randomness.randint(2, 6))
        pair = " ".join(words), " ".join(WORDS[word] for word in words)
        if pair not in known:
            pairs.append(pair)
    write_pairs(folder / "held", pairs)
    return run


@pytest.fixture
def run(trained: Run, tmp_path: Path) -> Run:
    """A copy of the run, which a test may tune and spoil."""
    return Run(shutil.copytree(trained.folder, tmp_path / "run"))


@pytest.fixture(scope="session")
def held(trained: Run) -> str:
    return str(trained.folder.parent / "held")
