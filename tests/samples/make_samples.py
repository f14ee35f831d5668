"""Makes the samples of this folder with the `anydepth` command of an older checkout.

    python make_samples.py --anydepth OLD/.venv/bin/anydepth --to tests/samples

Only the standard library is needed here: all that is kept was written by the command. Notes of
absolute folders and of the processor are replaced by neutral ones, and every run
is sealed again by the same command.
"""

import argparse
import array
import hashlib
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

WORDS = {
    "der": "the",
    "hund": "dog",
    "läuft": "runs",
    "und": "and",
    "katze": "cat",
    "schläft": "sleeps",
    "gern": "gladly",
}
SPLITS = {"train": (400, 2), "valid": (9, 5), "test": (12, 5)}  # sentences, and the words of the shortest
SETTINGS = """
[model]
blocks = 3
heads = 2
dropout = 0.0
max_length = 40

[model.encoder]
blocks = 1
dim = 8
ffn_dim = 12

[model.decoder]
dim = 8
ffn_dim = 10

[training]
updates = 2000
batch_tokens = 300
learning_rate = 1e-2
warmup = 100
log_every = 500
save_every = 10000
final = "last"

[validation]
every = 1000
sentences = 3

[decoding]
beam = 2
length_ratio = 1.0
length_offset = 3
"""
TRANSLATED = 6  # lines of the test text
POLICIES = (["--policy", "fixed:1"], ["--policy", "geometric"], ["--average-exit", "2"], ["--policy", "confidence:0.7"])
ENGINES = (["--engine", "native"], ["--engine", "torch"], ["--engine", "onnx"], ["--engine", "native", "--int8"])
TRANSLATIONS = [
    *(["runs/exits", *engine, *policy] for engine in ENGINES for policy in POLICIES),
    ["runs/exits", "--engine", "onnx", "--int8", "--policy", "geometric"],
    *(
        [run, "--engine", engine, *options]
        for engine in ("native", "torch")
        for run, *options in (
            ("runs/aligned",),
            ("runs/aligned", "--policy", "fixed:2"),
            ("runs/aligned", "--policy", "uniform:3"),
            ("runs/sequence", "--policy", "sequence"),
            ("runs/baseline",),
        )
    ),
]
CHECKED = [
    *("data/joint", "data/separate", "runs/aligned", "runs/exits", "runs/sequence", "runs/stopped", "runs/baseline"),
    *("runs/exits/export/onnx", "runs/exits/export/onnx-int8", "runs/exits/export/ctranslate2-exit2"),
]
STOPPED_AFTER = 20  # a checkpoint of this update is waited for before the training is interrupted
FINAL_UPDATE = 60
SCORED = ["score-exits", "runs/aligned", "--sentences", "50"]
RESUMED = ["train", "--resume", "--to", "runs/stopped", "--set", f"training.updates={FINAL_UPDATE}"]
TAUGHT = ["train", "--resume", "--to", "runs/sequence", "--set", "training.updates=5"]
STUDY = ["figures6-9", "--data", "data/joint", "--config", "study.toml", "--jobs", "1", "--title", "seven words"]
KEPT_TEXT = ("test.de", "test.en")
RESUMABLE = ("stopped",)  # runs that keep their training state


@dataclass(frozen=True)
class Maker:
    """A folder, and the command that works in it."""

    command: str
    folder: Path

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """The command in a process of its own, on one thread, so that sums are rounded alike."""
        environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        return subprocess.Popen(
            [self.command, *arguments],
            cwd=self.folder,
            env=environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def do(self, *arguments: str) -> str:
        """What the command wrote to its standard output; it must succeed."""
        return self.outputs(*arguments)[0]

    def outputs(self, *arguments: str) -> tuple[str, str]:
        """What the command wrote to its standard output and to its standard error; it must
        succeed."""
        print("anydepth", *arguments, flush=True)
        process = self.start(*arguments)
        out, err = process.communicate()
        if process.returncode != 0:
            raise SystemExit(f"anydepth {' '.join(arguments)}: {err}")
        return out, err

    def interrupt(self, *arguments: str, when: Callable[[], bool]) -> None:
        """Begins what the command does, and interrupts it once `when` is true."""
        print("anydepth", *arguments, "(interrupted)", flush=True)
        process = self.start(*arguments)
        while not when():
            assert process.poll() is None, f"it ended too early: {process.communicate()[1]}"
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert process.returncode != 0, "it ended before it could be interrupted"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--anydepth", required=True, help="the command of an older checkout")
    parser.add_argument("--to", required=True, type=Path, help="folder for the samples")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    maker = Maker(shutil.which(options.anydepth) or str(Path(options.anydepth).absolute()), options.to)
    for old in ("text", "data", "runs", "studies", "measured", "expected"):
        shutil.rmtree(maker.folder / old, ignore_errors=True)
    make_data(maker)
    make_runs(maker)
    make_exports(maker)
    make_studies(maker)
    make_measurements(maker)
    make_expected(maker)
    clean(maker.folder)


def make_data(maker: Maker) -> None:
    """Text of a made-up language, prepared with one vocabulary and with two."""
    text = maker.folder / "text"
    text.mkdir()
    for split, (count, shortest) in SPLITS.items():
        randomness = random.Random(split)
        sentences = [randomness.choices(list(WORDS), k=randomness.randint(shortest, 6)) for _ in range(count)]
        for language, translate in (("de", str), ("en", WORDS.__getitem__)):
            lines = [" ".join(translate(word) for word in sentence) + "\n" for sentence in sentences]
            (text / f"{split}.{language}").write_text("".join(lines), encoding="utf-8")
    (maker.folder / "tiny.toml").write_text(SETTINGS, encoding="utf-8")
    texts = ["--train", "text/train", "--valid", "text/valid", "--test", "text/test"]
    languages = ["--source-lang", "de", "--target-lang", "en"]
    maker.do("prepare", *languages, *texts, "--vocab-size", "350", "--to", "data/joint")
    maker.do("prepare", *languages, *texts, "--vocab-size", "330", "--separate", "--to", "data/separate")


def make_runs(maker: Maker) -> None:
    """A run of each kind; one of them is interrupted."""
    train(maker, "aligned", "tiny.toml", "--data", "data/joint")
    exits = ["--set", "exits.halting=geometric", "--set", "training.updates=300"]
    train(maker, "exits", "--from", "runs/aligned", *exits)
    maker.do(
        "tune",
        "runs/exits",
        "--valid",
        "text/valid",
        "--objective",
        "average-exit",
        "--candidates",
        "30",
        "--segment",
        "0.5",
    )
    maker.do(*SCORED)
    bleu = ["--set", "exits.halting=sequence", "--set", "exits.oracle=bleu", "--set", "training.updates=100"]
    train(maker, "sequence", "--from", "runs/aligned", *bleu)
    single = ["--set", "model.blocks=2", "--set", "model.exits=last", "--set", "training.updates=500"]
    train(maker, "baseline", "tiny.toml", "--data", "data/separate", *single)
    make_stopped_run(maker)


def train(maker: Maker, name: str, *arguments: str) -> None:
    """A run that is trained to its end; what only further training needs is left out of it."""
    maker.do("train", *arguments, "--to", f"runs/{name}")
    finish_run(maker, Path("runs") / name)


def make_stopped_run(maker: Maker) -> None:
    """A run in mixed mode with two vocabularies, interrupted soon after its second checkpoint."""
    changes = [
        *("training.mode=mixed", "training.paths=2", "model.classifiers=tied", "model.dropout=0.1"),
        *("training.warmup=20", "training.save_every=10", "training.log_every=10", "validation.every=15"),
        *("training.final=average", "training.average=2", "validation.sentences=0"),
    ]
    options = [word for change in changes for word in ("--set", change)]
    checkpoint = maker.folder / "runs" / "stopped" / "checkpoints" / f"update-{STOPPED_AFTER:07d}.safetensors"
    arguments = ["train", "tiny.toml", "--data", "data/separate", *options, "--to", "runs/stopped"]
    maker.interrupt(*arguments, when=checkpoint.exists)
    finish_run(maker, Path("runs/stopped"))


def finish_run(maker: Maker, run: Path) -> None:
    """Replaces absolute folders in the notes of a run, drops what is not needed, and seals the
    rest."""
    folder = maker.folder / run
    unneeded = [folder / "train.log"]
    if run.name not in RESUMABLE:
        unneeded += [folder / "state.safetensors", *folder.glob("best-*"), *folder.glob("checkpoints/*")]
    for file in unneeded:
        file.unlink(missing_ok=True)
    for file, key in ((folder / "data.json", "folder"), (folder / "origin.json", "run")):
        if file.exists():
            note = json.loads(file.read_text(encoding="utf-8"))
            note[key] = Path(os.path.relpath(note[key], maker.folder.resolve())).as_posix()
            file.write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")
    maker.do("seal", str(run))


def make_exports(maker: Maker) -> None:
    """The run with a halting module for ONNX Runtime, in both precisions, and cut for
    CTranslate2."""
    maker.do("export", "runs/exits", "--format", "onnx")
    maker.do("export", "runs/exits", "--format", "onnx", "--int8")
    maker.do("export", "runs/exits", "--format", "ctranslate2", "--exit", "2")


def make_studies(maker: Maker) -> None:
    """A study that is complete, of which the records are kept, and one that was stopped
    half-way."""
    settings = re.sub("updates = .*", "updates = 200", SETTINGS).replace("sentences = 3", "sentences = 0")
    (maker.folder / "study.toml").write_text(settings, encoding="utf-8")
    half, whole = maker.folder / "studies" / "half", maker.folder / "studies" / "whole"
    maker.interrupt("study", *STUDY, "--to", "studies/half", when=lambda: measured_runs(half) == 2)
    for run in sorted((half / "runs").iterdir()):
        finish_run(maker, run.relative_to(maker.folder))
    maker.do("study", *STUDY, "--to", "studies/whole")
    for heavy in ("runs", "statistics", "steps", "logs"):
        shutil.rmtree(whole / heavy, ignore_errors=True)
    shutil.rmtree(half / "logs")
    for study in (half, whole):
        neutralize(study / "study.json")


def measured_runs(study: Path) -> int:
    """How many runs of a study have been measured, markers included."""
    return len(list((study / "steps").glob("measure-*.json")))


def make_measurements(maker: Maker) -> None:
    """What `evaluate --json` and `bench --json` write."""
    folder = maker.folder / "measured"
    folder.mkdir()
    asked = ["runs/exits", "--test", "text/test"]
    evaluation = maker.do("evaluate", *asked, "--each-exit", "--policy", "geometric", "--json")
    (folder / "evaluation.json").write_text(evaluation, encoding="utf-8")
    rounds = ["--batch", "2", "--beam", "1", "--rounds", "2", "--engine", "native", "--engine", "torch", "--fp32"]
    maker.do("bench", *asked, *rounds, "--average-exit", "2", "--to", "measured/bench.json")
    neutralize(folder / "bench.json")


def neutralize(file: Path) -> None:
    """Replaces the names of the processor and of the system, and the revision, in a JSON file."""
    values = json.loads(file.read_text(encoding="utf-8"))
    recipe = values.get("recipe", values)
    recipe["machine"] |= {name: "unnamed" for name in ("processor", "cpu", "system") if name in recipe["machine"]}
    recipe["versions"] |= {name: None for name in ("revision",) if name in recipe["versions"]}
    file.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def make_expected(maker: Maker) -> None:
    """What the version that made the samples does with them."""
    expected = maker.folder / "expected"
    expected.mkdir()
    lines = (maker.folder / "text" / "test.de").read_text(encoding="utf-8").splitlines(keepends=True)
    (maker.folder / "lines.de").write_text("".join(lines[:TRANSLATED]), encoding="utf-8")
    write_json(expected / "translations.json", expected_translations(maker))
    counts = {folder: count_of_files(maker.outputs("check", folder)[1]) for folder in CHECKED}
    write_json(expected / "checks.json", counts)
    write_json(expected / "scores.json", json.loads(maker.do(*SCORED, "--json")))
    maker.do("report", "studies/whole", "--to", "page")
    shutil.copyfile(maker.folder / "page" / "report.md", expected / "report.md")
    write_json(expected / "trained.json", expected_weights(maker))


def expected_translations(maker: Maker) -> list[dict[str, object]]:
    """The translations of a few lines with every engine and policy."""
    translations: list[dict[str, object]] = []
    for run, *options in TRANSLATIONS:
        out = maker.do("translate", run, "lines.de", *options, "--json")
        found = [json.loads(line) for line in out.splitlines()]
        translations.append({"run": run, "options": options, "translations": found})
    return translations


def count_of_files(said: str) -> int:
    """How many files `anydepth check` says that it found whole."""
    found = re.search("([0-9]+) files", said)
    assert found, said
    return int(found[1])


def expected_weights(maker: Maker) -> dict[str, object]:
    """The weights that two runs end with: their hash, which is the same where numbers are rounded
    alike, and the norm of every tensor."""
    python = [str(Path(maker.command).with_name("python")), str(Path(__file__).with_name("arithmetic.py"))]
    expected: dict[str, object] = {"arithmetic": subprocess.check_output(python, text=True).strip()}
    for name, command in (("stopped", RESUMED), ("sequence", TAUGHT)):
        first, second = (trained_weights(maker, name, command) for _ in range(2))
        assert first == second, f"two trainings of runs/{name} end with different weights"
        expected[name] = {"sha256": hashlib.sha256(first).hexdigest(), "norms": norms(first)}
    return expected


def norms(data: bytes) -> dict[str, float]:
    """The norms of the tensors of a safetensors file."""
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    found = {}
    for name, about in sorted(header.items()):
        first, last = about["data_offsets"]
        assert about["dtype"] == "F32", about
        found[name] = math.sqrt(sum(value * value for value in array.array("f", data[start + first : start + last])))
    return found


def trained_weights(maker: Maker, name: str, command: list[str]) -> bytes:
    """The weights that `command` leaves in a copy of the run."""
    place = maker.folder / "again"
    shutil.copytree(maker.folder / "data", place / "data")
    shutil.copytree(maker.folder / "runs" / name, place / "runs" / name)
    Maker(maker.command, place).do(*command)
    weights = (place / "runs" / name / "model.safetensors").read_bytes()
    shutil.rmtree(place)
    return weights


def write_json(file: Path, values: object) -> None:
    file.write_text(json.dumps(values, ensure_ascii=False) + "\n", encoding="utf-8")


def clean(folder: Path) -> None:
    """Removes what was only needed on the way, and shows that no absolute folder is left."""
    for file in unneeded_files(folder):
        file.unlink()
    shutil.rmtree(folder / "page")
    places = {str(folder.resolve()).encode(), str(Path.home()).encode() + b"/", b"/tmp/"}
    for file in folder.rglob("*"):
        if file.is_file() and file.suffix != ".py":
            assert not any(place in file.read_bytes() for place in places), f"{file} holds an absolute folder"


def unneeded_files(folder: Path) -> Iterator[Path]:
    yield from (folder / name for name in ("tiny.toml", "lines.de"))
    yield from (file for file in (folder / "text").iterdir() if file.name not in KEPT_TEXT)
    yield from (file for file in list(folder.rglob("*")) if file.is_file() and file.name.endswith(".lock"))


if __name__ == "__main__":
    main()
