"""A real model of a made-up language in seconds: it learns to translate unseen sentences, and to
stop early. test_system.py has more."""

import json
from pathlib import Path

import pytest
from cli.commands import done
from cli.conftest import write_text_pairs

pytestmark = pytest.mark.timeout(900)
SETTINGS = """
[model]
blocks = 3
heads = 2
classifiers = "tied"
dropout = 0.0

[model.encoder]
blocks = 1
dim = 32
ffn_dim = 64

[model.decoder]
dim = 32
ffn_dim = 64

[training]
updates = 300
batch_tokens = 600
learning_rate = 8e-3
warmup = 50
cooldown = 0.5
save_every = 1000
final = "last"

[validation]
every = 300
sentences = 0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text, prepared data, and two runs: one that translates at every exit, one that learned from
    it where to stop."""
    folder = tmp_path_factory.mktemp("small-system")
    for split, count in (("train", 400), ("valid", 20), ("test", 40)):
        write_text_pairs(folder, split, count, shortest=3)
    (folder / "small.toml").write_text(SETTINGS, encoding="utf-8")
    text = [word for split in ("train", "valid", "test") for word in (f"--{split}", folder / split)]
    done("prepare", "--source-lang", "de", "--target-lang", "en", *text, "--vocab-size", 310, "--to", folder / "data")
    done("train", folder / "small.toml", "--data", folder / "data", "--to", folder / "run")
    changes = ["exits.halting=geometric", "exits.oracle=likelihood", "exits.rate_factor=6", "training.updates=60"]
    changes += ["exits.exit_penalty=0", "training.learning_rate=3e-3"]
    done(
        "train",
        "--from",
        folder / "run",
        "--to",
        folder / "exits",
        *(word for change in changes for word in ("--set", change)),
    )
    return folder


def measured(run: Path, *options: object) -> dict[str, tuple[float, float]]:
    """BLEU and average exit on the test text, by policy."""
    rows = json.loads(done("evaluate", run, "--test", run.parent / "test", "--beam", 1, "--json", *options).out)[
        "results"
    ]
    return {row["policy"]: (row["scores"]["bleu"]["value"], row["average_exit"]) for row in rows}


def test_it_translates_unseen_sentences_at_every_exit(folder: Path) -> None:
    seen = set((folder / "train.de").read_text(encoding="utf-8").splitlines())
    unseen = [line for line in (folder / "test.de").read_text(encoding="utf-8").splitlines() if line not in seen]
    assert len(unseen) > 30
    figures = measured(folder / "run", "--each-exit")
    bleu = {policy: bleu for policy, (bleu, _) in figures.items()}
    assert bleu["fixed:3"] > 60 and min(bleu.values()) > 45, bleu
    assert [figures[f"fixed:{exit}"][1] for exit in (1, 2, 3)] == [1, 2, 3] and 1.5 < figures["uniform:seed=1"][1] < 2.5


def test_it_learns_where_to_stop_and_thresholds_choose_the_depth_for_little_bleu(folder: Path) -> None:
    thresholds = (0, 0.2, 0.5, 0.8, 1)
    figures = list(
        measured(folder / "exits", *(word for tau in thresholds for word in ("--policy", f"geometric:{tau}"))).values()
    )
    exits = [average_exit for _, average_exit in figures]
    assert exits == sorted(exits) and exits[0] == 1 and exits[-1] == 3, "a higher threshold never stops earlier"
    assert 1 < exits[2] < 3
    (shallow, _), *_, (deep, _) = figures
    assert figures[2][0] > max(shallow, deep) - 10 and deep > 60, figures
