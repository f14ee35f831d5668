"""The folders that are damaged: text, prepared data, runs and exports."""

import random
from pathlib import Path

from toy.language import MODEL, WORDS

from damaging.calls import BULK_OPTIONS, bulk_in_this_process, done, killed_after_saves

SETTINGS = f"""{MODEL}
[training]
updates = 8
batch_tokens = 200
learning_rate = 2e-2
warmup = 3
log_every = 1
save_every = 2
final = "average"
average = 3

[validation]
every = 4
sentences = 2

[decoding]
beam = 2
length_ratio = 1.0
length_offset = 3
"""


def write_text(folder: Path, seed: int) -> None:
    """Sentences and their translations word by word as train, valid and test in .de and .en."""
    folder.mkdir()
    randomness = random.Random(seed)
    for split, count in (("train", 60), ("valid", 6), ("test", 5)):
        sentences = [
            randomness.choices(list(WORDS), k=randomness.randint(2 + 3 * (split != "train"), 7)) for _ in range(count)
        ]
        for language, spell in (("de", str), ("en", WORDS.__getitem__)):
            lines = [" ".join(spell(word) for word in sentence) for sentence in sentences]
            (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def build(place: Path, seed: int) -> None:
    """Makes at `place` what is to be damaged; another seed makes a sibling with files of the same
    names."""
    text, data, settings = place / "text", place / "data", place / "tiny.toml"
    place.mkdir()
    write_text(text, seed)
    settings.write_text(SETTINGS, encoding="utf-8")
    splits = [word for split in ("train", "valid", "test") for word in (f"--{split}", text / split)]
    done("prepare", "--source-lang", "de", "--target-lang", "en", *splits, "--vocab-size", 310, "--to", data)
    done("train", settings, "--data", data, "--to", place / "first", "--set", f"training.seed={seed}")
    done("score-exits", place / "first", "--beam", 1)
    done("train", "--from", place / "first", "--to", place / "exits", "--set", "exits.halting=geometric")
    words = ["--size", 3, "--tolerance", 100, "--beam", 2]  # whatever it costs: a default to damage
    done("vocabulary", place / "exits", "--valid", text / "valid", *words)
    done(
        "tune",
        place / "exits",
        "--valid",
        text / "valid",
        "--objective",
        "average-exit",
        "--candidates",
        30,
        "--segment",
        0.5,
        "--beam",
        2,
    )
    for int8 in ([], ["--int8"]):
        done("export", place / "exits", "--format", "onnx", *int8)
    done("export", place / "exits", "--format", "ctranslate2", "--exit", 2)
    with bulk_in_this_process():
        done("bulk", place / "exits", text / "test.de", "--to", place / "bulk", *BULK_OPTIONS)
    interrupted = ["train", settings, "--data", data, "--to", place / "interrupted", "--set", f"training.seed={seed}"]
    killed_after_saves(3, *interrupted)
    oracle = [
        "--set",
        "exits.halting=sequence",
        "--set",
        "exits.oracle=bleu",
        "--set",
        "training.updates=4",
        "--set",
        "training.final=best",
    ]
    killed_after_saves(0, "train", "--from", place / "first", "--to", place / "begun", *oracle)
