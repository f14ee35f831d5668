"""The valid world that hostile cases are copies of: text, prepared data, runs, points, an export,
an evaluation and two studies."""

import json
import os
import random
import shutil
import sys
from pathlib import Path

from toy.language import WORDS

from hostile.commands import PREPARE, TUNE
from hostile.values import put

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
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
updates = 4
batch_tokens = 300
warmup = 2
log_every = 1
save_every = 2
[exits]
exit_penalty = 0.1
[validation]
every = 2
sentences = 2
[decoding]
beam = 2
length_ratio = 1.0
length_offset = 3
"""
ALIGNED = {
    "format": 1,
    "run": "aligned",
    "variant": "aligned",
    "seed": 1,
    "role": "aligned",
    "blocks": 3,
    "settings": {"model.blocks": 3},
    "measurements": [
        {
            "split": split,
            "kind": "fixed",
            "policy": f"fixed:{n}",
            "family": "fixed",
            "bleu": 30.0 + n,
            "low": 29.0,
            "high": 35.0,
            "average_exit": float(n),
            "exit_counts": [1, 2, 3],
            "flops_share": 0.5,
        }
        for split in ("valid", "test")
        for n in (1, 2, 3)
    ],
}


def call(command: str) -> None:
    """A command that must succeed."""
    from anydepth.cli import main as cli

    sys.argv = ["anydepth", *command.split()]
    try:
        cli.main()
    except SystemExit as ending:
        assert not ending.code, command


def make_world(folder: Path) -> None:
    """Text, prepared data, a run, one that learned where to stop with its points, its export, an
    evaluation and a study."""
    folder.mkdir()
    os.chdir(folder)
    randomness = random.Random(1)
    for split, count in (("train", 60), ("valid", 6), ("test", 4), ("held", 5)):
        shortest = 7 if split == "held" else 1
        sentences = [
            randomness.choices(list(WORDS), k=randomness.randint(shortest, shortest + 4)) for _ in range(count)
        ]
        for language, translated in (("de", str), ("en", WORDS.__getitem__)):
            lines = [" ".join(map(translated, sentence)) + "\n" for sentence in sentences]
            Path(f"{split}.{language}").write_text("".join(lines), encoding="utf-8")
    Path("tiny.toml").write_text(CONFIG, encoding="utf-8")
    call(f"prepare {PREPARE} --test test --to data")
    call("train tiny.toml --data data --to run")
    call("train --from run --to exits --set exits.halting=geometric")
    call(f"tune exits {TUNE}")
    call("export exits --format onnx")
    call("score-exits run")
    with open("evaluation.json", "w", encoding="utf-8") as file:
        before, sys.stdout = sys.stdout, file
        call("evaluate exits --test test --each-exit --json")
        sys.stdout = before
    shutil.copytree(
        ROOT / "docs" / "results" / "demo", "study", ignore=shutil.ignore_patterns("*.svg", "*.html", "*.png")
    )
    runs = Path("study/records/runs")
    runs.mkdir(exist_ok=True)
    if not any(runs.iterdir()):
        (runs / "aligned.json").write_text(json.dumps(ALIGNED), encoding="utf-8")
    make_begun_study()


def make_begun_study() -> None:
    """A study that was begun on the prepared text and has done nothing yet."""
    from anydepth.config.loading import load_config
    from anydepth.experiments.definition import Study, default_second_stage, save_study
    from anydepth.experiments.places import LocalPlace
    from anydepth.experiments.study_folder import StudyFolder
    from anydepth.experiments.wishes import data_record, versions_record
    from anydepth.text.prepared import PreparedData

    data, config = PreparedData.open(Path("data")), load_config(Path("tiny.toml"))
    study = Study(
        experiments=("table3",),
        config=config,
        data=data_record(Path("data"), data),
        seeds=1,
        second_stage=default_second_stage(config),
        title="tiny",
        command="anydepth study table3",
        machine=LocalPlace.of(1).machine,
        versions=versions_record(),
    )
    Path("begun").mkdir()
    save_study(StudyFolder(Path("begun")), study, [])


def vouch(folder: Path) -> None:
    """Lets what was made hostile pass for what the program wrote, where the program would tell by
    its checksums: an attacker would, too."""
    from anydepth.files.checksums import CHECKSUM, with_checksum
    from anydepth.files.seal import Seal

    for name in ("data/manifest.json", "exits/export/onnx/manifest.json"):
        if not (folder / name).is_file():
            continue
        try:
            values = json.loads((folder / name).read_bytes())
            values.pop(CHECKSUM)
            put(folder / name, json.dumps(with_checksum(values)).encode())
        except (OSError, ValueError, RecursionError, AttributeError, KeyError, TypeError):
            continue  # then it has none
    for name in ("run", "exits"):
        if all((folder / name / file).is_file() for file in ("config.toml", "model.safetensors")):
            Seal(folder / name).make()
