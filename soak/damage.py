"""Damages files of runs, prepared data and exports, one at a time, and looks what each verb makes
of it.

Every trial copies a folder, damages one file in it and calls a verb in this process through the
command's own `main`. The verb must refuse the damage in one line that names the file, or give what
it gives without the damage. `--size 1` is 10,000 trials.
"""

import argparse
import hashlib
import io
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")

FULL_SIZE = 10_000
PROCESSES = 2
SHOWN = 5
SHARE_READ = 0.8
LEAST_REFUSED = (
    0.5  # with fewer refusals than this share of the trials, the damage hit what nobody reads, and little was shown
)
WORDS = {
    "der": "the",
    "hund": "dog",
    "läuft": "runs",
    "und": "and",
    "katze": "cat",
    "schläft": "sleeps",
    "gern": "gladly",
    "heute": "today",
}
APPENDED = {"metrics.jsonl", "train.log"}  # written in place, so that a hard link would reach the original
SETTINGS = """
[model]
blocks = 3
heads = 2
dropout = 0.1
max_length = 40
encoder = { blocks = 1, dim = 16, ffn_dim = 24 }
decoder = { dim = 16, ffn_dim = 20 }

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


@dataclass(frozen=True)
class Outcome:
    """What a verb left: exit code, standard output, standard error, and a traceback if it let one
    through."""

    code: int
    out: str
    err: str
    trace: str = ""


def call(*arguments: object) -> Outcome:
    """The outcome of `anydepth ARGUMENTS` in this process."""
    from anydepth.cli import main as cli

    out, err, before, trace, code = io.StringIO(), io.StringIO(), sys.argv, "", 0
    sys.argv = ["anydepth", *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            cli.main()
    except SystemExit as ending:
        code = int(ending.code or 0)
    except BaseException:
        trace = traceback.format_exc()
    finally:
        sys.argv = before
    return Outcome(code, out.getvalue(), err.getvalue(), trace)


def done(*arguments: object) -> Outcome:
    """The outcome of a verb that must succeed."""
    outcome = call(*arguments)
    assert outcome.code == 0 and not outcome.trace, (arguments, outcome)
    return outcome


class Killed(BaseException):
    """Stands for a kill: nothing of the command's own cleans up after it."""


def killed_after_saves(saves: int, *arguments: object) -> None:
    """Trains until the run was saved so many times; with 0 until its first update is over."""
    from anydepth.training.loop import Training

    save, report, left = Training.save, Training.report, [saves]

    def counted_save(training: Training) -> None:
        save(training)
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    def last_report(*given: object) -> None:
        raise Killed

    Training.save = counted_save  # type: ignore[method-assign]
    if saves == 0:
        Training.report = last_report  # type: ignore[method-assign, assignment]
    try:
        outcome = call(*arguments)
    finally:
        Training.save, Training.report = save, report  # type: ignore[method-assign]
    assert "Killed" in outcome.trace, outcome


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
    done("tune", place / "exits", "--valid", text / "valid", "--candidates", 30, "--segment", 0.5, "--beam", 2)
    for int8 in ([], ["--int8"]):
        done("export", place / "exits", "--format", "onnx", *int8)
    done("export", place / "exits", "--format", "ctranslate2", "--exit", 2)
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


def copied(origin: Path, to: Path) -> Path:
    """A copy of a folder whose files are hard links, but for those that are written in place."""

    def link(source: str, target: str) -> None:
        shutil.copy(source, target) if Path(source).name in APPENDED else os.link(source, target)

    shutil.copytree(origin, to, copy_function=link)
    return to


@dataclass(frozen=True)
class Scene:
    """A verb, the folders that it gets, and what counts of its outcome. `weight` is its share of
    the trials."""

    name: str
    weight: int
    folders: tuple[str, ...]
    look: Callable[[Path], tuple[Outcome, str]]
    damaged: Callable[[str], bool] = lambda name: True
    reads: frozenset[str] = (
        frozenset()
    )  # kinds of files that most of its trials damage; the others' damage should go unnoticed


def weights_digest(path: Path) -> str:
    """What tells the weights in a file from others; the order in which safetensors writes them does
    not."""
    from anydepth.model.checkpoint import own_tensors

    digest = hashlib.sha256()
    for name, tensor in sorted(own_tensors(path)[0].items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()


def translated(*options: object) -> Callable[[Path], tuple[Outcome, str]]:
    def look(place: Path) -> tuple[Outcome, str]:
        outcome = call("translate", place / "exits", place.parent / "test.de", "--json", *options)
        return outcome, outcome.out

    return look


def evaluated(place: Path) -> tuple[Outcome, str]:
    options = ["--test", place.parent / "test", "--policy", "fixed:2", "--average-exit", 2.5, "--json"]
    outcome = call("evaluate", place / "exits", *options)
    if outcome.code or outcome.trace:
        return outcome, ""
    keys = ("policy", "scores", "average_exit", "exit_counts", "flops_share")
    return outcome, json.dumps([[result[key] for key in keys] for result in json.loads(outcome.out)["results"]])


def resumed(name: str) -> Callable[[Path], tuple[Outcome, str]]:
    def look(place: Path) -> tuple[Outcome, str]:
        outcome = call("train", "--resume", "--to", place / name, "--data", place / "data")
        weights = place / name / "model.safetensors"
        return outcome, weights_digest(weights) if outcome.code == 0 and not outcome.trace else ""

    return look


def checked(place: Path) -> tuple[Outcome, str]:
    outcome = call("check", place / "exits" / "export" / "ctranslate2-exit2")
    return outcome, str(outcome.code)


def in_export(folder: str) -> Callable[[str], bool]:
    return lambda name: not name.startswith("exits/export/") or name.startswith(f"exits/export/{folder}/")


READ_TO_TRANSLATE = frozenset(
    {"seal.json", "config.toml", "tokenizer.model", "model.safetensors", "operating_points.json"}
)
SCENES = (
    Scene(
        "translate torch",
        22,
        ("exits",),
        translated("--engine", "torch", "--average-exit", 2.5),
        in_export("no"),
        READ_TO_TRANSLATE,
    ),
    Scene(
        "translate native",
        30,
        ("exits",),
        translated("--engine", "native", "--average-exit", 2.5),
        in_export("no"),
        READ_TO_TRANSLATE,
    ),
    Scene(
        "translate onnx",
        12,
        ("exits",),
        translated("--engine", "onnx"),
        lambda name: name.startswith("exits/export/onnx/"),
    ),
    Scene(
        "translate onnx int8",
        4,
        ("exits",),
        translated("--engine", "onnx", "--int8"),
        lambda name: name.startswith("exits/export/onnx-int8/"),
    ),
    Scene("evaluate", 10, ("exits",), evaluated, in_export("no"), READ_TO_TRANSLATE | {"data.json"}),
    Scene("train --resume", 12, ("interrupted", "data"), resumed("interrupted")),
    Scene("train --resume, begun", 6, ("begun", "data"), resumed("begun")),
    Scene("check ctranslate2", 4, ("exits",), checked, lambda name: name.startswith("exits/export/ctranslate2-exit2/")),
)


def flip_bit(file: Path, sibling: Path, randomness: random.Random) -> None:
    data = bytearray(file.read_bytes())
    if data:
        data[randomness.randrange(len(data))] ^= 1 << randomness.randrange(8)
    rewrite(file, bytes(data))


def change_byte(file: Path, sibling: Path, randomness: random.Random) -> None:
    data = bytearray(file.read_bytes())
    if data:
        data[randomness.randrange(len(data))] = randomness.randrange(256)
    rewrite(file, bytes(data))


def cut(file: Path, sibling: Path, randomness: random.Random) -> None:
    data = file.read_bytes()
    rewrite(file, data[: randomness.randrange(len(data))] if data else data)


def delete(file: Path, sibling: Path, randomness: random.Random) -> None:
    file.unlink()


def take_siblings(file: Path, sibling: Path, randomness: random.Random) -> None:
    if sibling.exists():
        rewrite(file, sibling.read_bytes())
    else:
        file.unlink()


def swap_inside(file: Path, sibling: Path, randomness: random.Random) -> None:
    others = sorted(
        other
        for other in file.parent.iterdir()
        if other.is_file() and other != file and other.name != ".seal.json.lock"
    )
    if not others:
        return
    other = randomness.choice(others)
    mine, theirs = file.read_bytes(), other.read_bytes()
    rewrite(file, theirs)
    rewrite(other, mine)


def append(file: Path, sibling: Path, randomness: random.Random) -> None:
    rewrite(file, file.read_bytes() + randomness.randbytes(randomness.randint(1, 40)))


def empty(file: Path, sibling: Path, randomness: random.Random) -> None:
    rewrite(file, b"")


def rewrite(file: Path, data: bytes) -> None:
    """Gives the file other contents; the original, which may be the same by a hard link, keeps its
    own."""
    file.unlink()
    file.write_bytes(data)


DAMAGES = {
    "flipped bit": flip_bit,
    "changed byte": change_byte,
    "cut": cut,
    "deleted": delete,
    "sibling's": take_siblings,
    "swapped inside": swap_inside,
    "lengthened": append,
    "emptied": empty,
}


@dataclass(frozen=True)
class Trial:
    """What was damaged and how, and what came of it: refused, no effect, traceback, silent change,
    or not named."""

    number: int
    scene: str
    kind: str
    damage: str
    verdict: str
    story: str = ""


def kind_of(name: str) -> str:
    """The kind of a file: its name without numbers."""
    return re.sub(r"\d+", "#", name.rpartition("/")[2])


def files_of(folder: Path) -> Iterator[str]:
    """The files under a folder, by their names in it; locks and leftovers are none that a user
    has."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            yield path.relative_to(folder).as_posix()


class Laboratory:
    """The folders to damage, and what each verb gives without damage."""

    def __init__(self, place: Path) -> None:
        import torch

        torch.set_num_threads(1)
        self.place = place
        self.bench = Path(tempfile.mkdtemp(dir=place))
        for language in ("de", "en"):
            shutil.copy(place / "one" / "text" / f"test.{language}", self.bench)
        self.expected = {scene.name: self.seen(scene) for scene in SCENES}

    def seen(self, scene: Scene) -> str:
        """What the verb gives without damage, twice the same."""
        results = []
        for _ in range(2):
            with self.copy(scene) as place:
                outcome, result = scene.look(place)
            assert outcome.code == 0 and result and not outcome.trace, (scene.name, outcome)
            results.append(result)
        assert results[0] == results[1], f"{scene.name} gives not twice the same"
        return results[0]

    @contextmanager
    def copy(self, scene: Scene) -> Iterator[Path]:
        """A place with copies of the folders of a scene, for a while."""
        with tempfile.TemporaryDirectory(dir=self.bench) as place:
            for folder in scene.folders:
                copied(self.place / "one" / folder, Path(place) / folder)
            yield Path(place)

    def try_one(self, number: int, seed: int) -> Trial:
        """Trial `number`, which depends on it and on the seed alone."""
        randomness = random.Random(f"{seed} {number}")
        scene = randomness.choices(SCENES, [scene.weight for scene in SCENES])[0]
        damage = randomness.choice(list(DAMAGES))
        with self.copy(scene) as place:
            names = [name for name in files_of(place) if scene.damaged(name)]
            kinds = {kind_of(name) for name in names}
            kind = randomness.choice(
                sorted((kinds & scene.reads if randomness.random() < SHARE_READ else kinds) or kinds)
            )
            name = randomness.choice([name for name in names if kind_of(name) == kind])
            DAMAGES[damage](place / name, self.place / "two" / name, randomness)
            outcome, result = scene.look(place)
            verdict = judged(outcome, result, self.expected[scene.name], place, name)
        story = "" if verdict in ("refused", "no effect") else f"{name}\n{outcome.err[-600:]}{outcome.trace[-1500:]}"
        return Trial(number, scene.name, kind, damage, verdict, story)


def judged(outcome: Outcome, result: str, expected: str, place: Path, name: str) -> str:
    """The verdict on a trial."""
    if outcome.trace:
        return "traceback"
    if outcome.code == 0:
        return "no effect" if result == expected else "silent change"
    errors = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    is_one_line = outcome.code in (1, 2) and len(errors) == 1 and outcome.err.endswith(errors[0] + "\n")
    folder = place / name.partition("/")[0]
    is_named = is_one_line and (str(folder) in errors[0] or Path(name).name in errors[0])
    return "refused" if is_named and not outcome.out else "not named"


_laboratory: Laboratory | None = None


def start_worker(place: Path) -> None:
    global _laboratory
    _laboratory = Laboratory(place)


def try_some(numbers: list[int], seed: int) -> list[Trial]:
    assert _laboratory is not None
    return [_laboratory.try_one(number, seed) for number in numbers]


def table(trials: list[Trial], column: Callable[[Trial], str]) -> str:
    """How many trials of each kind ended how."""
    verdicts = ("refused", "no effect", "traceback", "silent change", "not named")
    counts = Counter((column(trial), trial.verdict) for trial in trials)
    rows = sorted({kind for kind, _ in counts})
    lines = [f"{'':34}" + "".join(f"{verdict:>15}" for verdict in verdicts)]
    return "\n".join(
        [*lines, *(f"{row:34}" + "".join(f"{counts[row, verdict]:15,}" for verdict in verdicts) for row in rows)]
    )


def run_trials(place: Path, numbers: list[int], seed: int, processes: int) -> list[Trial]:
    """All trials, side by side; progress goes to standard error."""
    chunks = [numbers[start : start + 20] for start in range(0, len(numbers), 20)]
    trials: list[Trial] = []
    started = time.monotonic()
    with ProcessPoolExecutor(processes, get_context("spawn"), start_worker, (place,)) as pool:
        for part in pool.map(try_some, chunks, [seed] * len(chunks)):
            trials += part
            if len(trials) % 500 < len(part):
                print(
                    f"{len(trials):,} of {len(numbers):,}, {len(trials) / (time.monotonic() - started):.1f} trials/s",
                    file=sys.stderr,
                )
    return trials


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=float, default=1.0, help="share of the 10,000 trials")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one trial to do again")
    parser.add_argument("--processes", type=int, default=PROCESSES)
    options = parser.parse_args()
    numbers = [options.only] if options.only is not None else list(range(max(1, round(FULL_SIZE * options.size))))
    with tempfile.TemporaryDirectory(prefix="anydepth-damage-") as folder:
        place = Path(folder)
        for name, seed in (("one", 1), ("two", 2)):
            build(place / name, seed)
        trials = run_trials(place, numbers, options.seed, min(options.processes, len(numbers)))
    print(table(trials, lambda trial: trial.kind))
    print(table(trials, lambda trial: trial.damage))
    print(table(trials, lambda trial: trial.scene))
    wrong = [trial for trial in trials if trial.verdict not in ("refused", "no effect")]
    for trial in wrong[:SHOWN]:
        print(
            f"\ntrial {trial.number} of seed {options.seed}: {trial.verdict}: {trial.scene}, {trial.damage}: "
            f"{trial.story}"
        )
    counts = Counter(trial.verdict for trial in trials)
    print(
        f"damage: {len(trials):,} trials: {counts['refused']:,} refused by name, {counts['no effect']:,} "
        "without effect, "
        f"{counts['traceback']:,} tracebacks, {counts['silent change']:,} silent changes, "
        f"{counts['not named']:,} not named in one line"
    )
    if len(trials) > 50 and counts["refused"] < LEAST_REFUSED * len(trials):
        print(f"damage: only {counts['refused']:,} of {len(trials):,} trials were refused, which shows little")
        return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
