"""Kills commands while they work, looks whether what they left is whole, and lets them come to
their end.

A kill is SIGKILL to the whole process group. It counts only if it hit work in progress: the process
was still running, and it had begun to write (a file had grown or a temporary one was there, or it
was about to do its n-th write, n > 1); a study's step was running, too. Others are tried again.
Afterwards one whole version, old or new, must be found under the folder's name, the same command
must come to its end, and its result must be that of a command that nobody disturbed. `--size 1` is
200 kills.

Commands are forked from this process, which has torch loaded, so that a trial does not begin with
seconds of imports.
"""

import argparse
import itertools
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ["OMP_NUM_THREADS"] = "1"  # a process with OpenMP's threads cannot be forked

import torch  # noqa: E402

import anydepth.experiments.study  # noqa: E402
import anydepth.training.start  # noqa: E402, F401 (loaded before forking)
from anydepth.cli import main as cli  # noqa: E402
from anydepth.errors import AnydepthError  # noqa: E402
from anydepth.experiments.execution import Execution, Going  # noqa: E402
from anydepth.experiments.steps import StudyStep  # noqa: E402
from anydepth.model.checkpoint import load_tensors  # noqa: E402
from anydepth.runs.operating_points import load_points  # noqa: E402
from anydepth.runs.run import Run  # noqa: E402
from anydepth.text.prepared import PreparedData  # noqa: E402

KILLS = {"train": 40, "train --overwrite": 20, "train --resume": 50, "prepare --overwrite": 40, "tune": 25, "study": 25}
SHOWN = 5
PATIENCE = 300.0
MISSES = 50  # in a row, before a trial counts as failed
KILLS_OF_A_STUDY = 5
OPERATIONS = ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir")
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
# What depends on the clock, on the folder and on how often a study was started, and not on what it
# computed.
CLOCK = re.compile(r'"(minutes|training_minutes|tokens_per_second|stamp|command)": [^,\n]*')
SETTINGS = """
[model]
blocks = 3
heads = 2
dropout = 0.1
max_length = 40
encoder = { blocks = 1, dim = 16, ffn_dim = 24 }
decoder = { dim = 16, ffn_dim = 20 }

[training]
updates = 12
batch_tokens = 150
learning_rate = 1e-2
warmup = 4
log_every = 1
save_every = 3
final = "FINAL"
average = 3

[validation]
every = 4
sentences = 0

[decoding]
beam = 1
length_ratio = 1.0
length_offset = 3
"""


class WrongError(Exception):
    """What a kill must not do."""


# processes


def launch(arguments: list[object], log: Path, *, at_write: int | None = None, count_to: Path | None = None) -> int:
    """The number of a process, leader of its own group, that does `anydepth ARGUMENTS` and writes
    what it says to `log`.

    With `at_write` it kills its group just before that write (1, 2, ...); with `count_to` it notes
    how many there were.
    """
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code: Any = 70
    try:
        os.setsid()
        for number, file in (
            (0, os.open(os.devnull, os.O_RDONLY)),
            (1, os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)),
        ):
            os.dup2(file, number)
        os.dup2(1, 2)
        writes = watch_writes(at_write)
        sys.argv = ["anydepth", *map(str, arguments)]
        try:
            cli.main()
            code = 0
        except SystemExit as ending:
            code = ending.code or 0
        if count_to is not None:
            count_to.write_text(str(next(writes) - 1))
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)


def watch_writes(deadly: int | None) -> "itertools.count[int]":
    """Counts flushes, renames, removals and new folders from now on, and kills the group before the
    `deadly` one."""
    writes = itertools.count(1)

    def watched(operation: Callable[..., Any]) -> Callable[..., Any]:
        def operate(*arguments: Any, **options: Any) -> Any:
            if next(writes) == deadly:
                os.killpg(0, signal.SIGKILL)
            return operation(*arguments, **options)

        return operate

    for name in OPERATIONS:
        setattr(os, name, watched(getattr(os, name)))
    return writes


def ending_of(process: int) -> int:
    """The exit code of a process that must end; minus the signal's number if a signal ended it."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise WrongError(f"the command did not end in {PATIENCE:.0f} seconds")


def finish(arguments: list[object], log: Path) -> None:
    """Does a command that must come to a good end."""
    log.unlink(missing_ok=True)
    code = ending_of(launch(arguments, log))
    if code != 0:
        last = (log.read_text(encoding="utf-8").splitlines() or [""])[-1]
        raise WrongError(f"anydepth {' '.join(map(str, arguments))}: exit code {code}: {last}")


def is_running(process: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@dataclass(frozen=True)
class Usual:
    """How a command goes if nobody disturbs it: its writes and its seconds."""

    writes: int
    seconds: float


def usual(arguments: list[object], log: Path) -> Usual:
    """Does a command once and looks how it goes."""
    note, started = log.with_suffix(".count"), time.monotonic()
    code = ending_of(launch(arguments, log, count_to=note))
    if code != 0:
        raise SystemExit(f"cannot begin: anydepth {' '.join(map(str, arguments))}: {log.read_text(encoding='utf-8')}")
    return Usual(int(note.read_text()), time.monotonic() - started)


def has_hit(
    arguments: list[object], log: Path, usual: Usual, randomness: random.Random, has_begun: Callable[[], bool]
) -> bool:
    """Starts a command and kills it, at one of its writes or at any moment after it has begun to
    write; whether that hit it at work."""
    if randomness.random() < 0.5:
        return ending_of(launch(arguments, log, at_write=randomness.randint(2, usual.writes))) == -signal.SIGKILL
    process = launch(arguments, log)
    while not has_begun():
        ended, _ = os.waitpid(process, os.WNOHANG)
        if ended:
            return False
        time.sleep(0.0005)
    time.sleep(randomness.uniform(0, usual.seconds))
    os.killpg(process, signal.SIGKILL)
    return ending_of(process) == -signal.SIGKILL  # one that had ended by itself keeps its own exit code


# what is looked at


def tensors_of(path: Path) -> dict[str, bytes]:
    """The bytes of every tensor in a file."""
    return {name: tensor.numpy().tobytes() for name, tensor in load_tensors(path)[0].items()}


def state_of(*paths: Path) -> list[object]:
    """What changes when one of these files does."""
    return [(found.st_size, found.st_mtime_ns, found.st_ino) if (found := stat_of(path)) else None for path in paths]


def stat_of(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def has_temporaries(folder: Path) -> bool:
    """Whether something is being written in `folder` or in its place."""
    beside = folder.with_name(f".{folder.name}.tmp")
    try:
        return (beside.is_dir() and any(beside.iterdir())) or any(folder.glob("**/.*.tmp"))
    except FileNotFoundError:
        return False


def check_same(what: str, mine: object, theirs: object) -> None:
    if mine != theirs:
        raise WrongError(f"{what} differs from that of an undisturbed command")


# the trials


@dataclass
class Bench:
    """What all trials share: text, data, runs and results that nobody disturbed."""

    place: Path
    usuals: dict[str, Usual] = field(default_factory=dict)
    weights: dict[str, dict[str, bytes]] = field(default_factory=dict)
    prepared: dict[int, str] = field(default_factory=dict)
    points: object = None
    study: dict[str, object] = field(default_factory=dict)

    def config(self, final: str) -> Path:
        return self.place / f"{final}.toml"

    def training(self, folder: Path, final: str, *more: object) -> list[object]:
        return ["train", self.config(final), "--data", self.place / "data", "--to", folder, *more]

    def preparing(self, folder: Path, vocabulary: int, *more: object) -> list[object]:
        splits = [word for split in ("train", "valid", "test") for word in (f"--{split}", self.place / split)]
        return [
            "prepare",
            "--source-lang",
            "de",
            "--target-lang",
            "en",
            *splits,
            "--vocab-size",
            vocabulary,
            "--to",
            folder,
            *more,
        ]

    def tuning(self, folder: Path) -> list[object]:
        few = ["--candidates", 60, "--segment", 0.25, "--decoded", 2, "--beam", 1]
        return ["tune", folder, "--valid", self.place / "valid", "--policy", "confidence", *few]

    def studying(self, folder: Path) -> list[object]:
        jobs = os.cpu_count() or 1  # a thread for each: see OMP_NUM_THREADS
        return [
            "study",
            "figures6-9",
            "--data",
            self.place / "data",
            "--to",
            folder,
            "--config",
            self.config("best"),
            "--jobs",
            jobs,
        ]


FINALS = ("best", "average")
VOCABULARIES = (300, 310)


def write_text(place: Path) -> None:
    """Text in two made-up languages; no held-out sentence is in the training text."""
    randomness, seen = random.Random(1), set()
    for split, count, shortest in (("train", 60, 1), ("valid", 9, 5), ("test", 9, 5)):
        sentences = []
        while len(sentences) < count:
            words = tuple(randomness.choices(list(WORDS), k=randomness.randint(shortest, 7)))
            if words not in seen:
                seen.add(words)
                sentences.append(words)
        (place / f"{split}.de").write_text("".join(" ".join(words) + "\n" for words in sentences), encoding="utf-8")
        (place / f"{split}.en").write_text(
            "".join(" ".join(WORDS[word] for word in words) + "\n" for words in sentences), encoding="utf-8"
        )


def make_bench(place: Path) -> Bench:
    """The text, the data, and what undisturbed commands make of them."""
    bench, log = Bench(place), place / "undisturbed.log"
    write_text(place)
    for vocabulary in VOCABULARIES:
        bench.usuals["prepare"] = usual(bench.preparing(place / f"data-{vocabulary}", vocabulary), log)
        bench.prepared[vocabulary] = PreparedData.open(place / f"data-{vocabulary}").fingerprint
    shutil.copytree(place / f"data-{VOCABULARIES[1]}", place / "data")
    for final in FINALS:
        bench.config(final).write_text(SETTINGS.replace("FINAL", final), encoding="utf-8")
        bench.usuals["train"] = usual(bench.training(place / f"run-{final}", final), log)
        bench.weights[final] = tensors_of(Run(place / f"run-{final}").weights_file)
        leave_half(bench, place / f"half-{final}", final, log)
    return bench


def leave_half(bench: Bench, folder: Path, final: str, log: Path) -> None:
    """Leaves a training that was killed after it had saved a state and before it ended."""
    for write in range(bench.usuals["train"].writes // 3, bench.usuals["train"].writes):
        code = ending_of(launch(bench.training(folder, final), log, at_write=write))
        if code == -signal.SIGKILL and Run(folder).state_file.exists() and not Run(folder).weights_file.exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
    raise SystemExit("cannot begin: no training was killed halfway")


def finish_training(bench: Bench, folder: Path, final: str, log: Path) -> None:
    """Lets a training that was killed come to its end, and compares its weights."""
    is_begun = Run(folder).config_file.exists()
    finish(["train", "--resume", "--to", folder] if is_begun else bench.training(folder, final), log)
    check_same("model.safetensors", tensors_of(Run(folder).weights_file), bench.weights[final])


def train_trial(bench: Bench, place: Path, randomness: random.Random) -> bool:
    """A new training, killed."""
    folder, final = place / "run", randomness.choice(FINALS)
    metrics, log = Run(folder).metrics_file, place / "log"
    begun = lambda: has_temporaries(folder) or bool((found := stat_of(metrics)) and found.st_size)  # noqa: E731
    if not has_hit(bench.training(folder, final), log, bench.usuals["train"], randomness, begun):
        return False
    if folder.exists():
        assert Run(folder).config
    finish_training(bench, folder, final, log)
    return True


def overwrite_trial(bench: Bench, place: Path, randomness: random.Random) -> bool:
    """A training that replaces one that had ended, killed."""
    old, new = randomness.sample(FINALS, 2)
    folder, log = Path(shutil.copytree(bench.place / f"run-{old}", place / "run")), place / "log"
    before = state_of(Run(folder).metrics_file)
    begun = lambda: has_temporaries(folder) or state_of(folder / "metrics.jsonl") != before  # noqa: E731
    if not has_hit(bench.training(folder, new, "--overwrite"), log, bench.usuals["train"], randomness, begun):
        return False
    found = Run(folder).config.training.final  # there is one, put back if need be
    if found == old:
        check_same("the run that was to be replaced", tensors_of(Run(folder).weights_file), bench.weights[old])
        finish(bench.training(folder, new, "--overwrite"), log)
    finish_training(bench, folder, new, log)
    return True


def resume_trial(bench: Bench, place: Path, randomness: random.Random) -> bool:
    """A training that goes on, killed."""
    final = randomness.choice(FINALS)
    folder, log = Path(shutil.copytree(bench.place / f"half-{final}", place / "run")), place / "log"
    before = state_of(Run(folder).metrics_file, Run(folder).state_file)

    def begun() -> bool:
        return has_temporaries(folder) or state_of(folder / "metrics.jsonl", folder / "state.safetensors") != before

    if not has_hit(["train", "--resume", "--to", folder], log, bench.usuals["train"], randomness, begun):
        return False
    finish_training(bench, folder, final, log)
    return True


def prepare_trial(bench: Bench, place: Path, randomness: random.Random) -> bool:
    """Data that replaces other data, killed."""
    old, new = randomness.sample(VOCABULARIES, 2)
    folder, log = Path(shutil.copytree(bench.place / f"data-{old}", place / "data")), place / "log"
    command = bench.preparing(folder, new, "--overwrite")
    if not has_hit(command, log, bench.usuals["prepare"], randomness, lambda: has_temporaries(folder)):
        return False
    data = PreparedData.open(folder)
    data.verify()
    if data.fingerprint not in (bench.prepared[old], bench.prepared[new]):
        raise WrongError("the data is neither the old nor the new")
    finish(command, log)
    PreparedData.open(folder).verify()
    check_same("the data", PreparedData.open(folder).fingerprint, bench.prepared[new])
    left = sorted(path.name for path in place.iterdir() if path.name not in ("data", "log"))
    if left:
        raise WrongError(f"{left[0]} was left beside the data")
    return True


def tune_trial(bench: Bench, place: Path, randomness: random.Random) -> bool:
    """A tuning, killed."""
    folder, log = Path(shutil.copytree(bench.place / "run-best", place / "run")), place / "log"
    run = Run(folder)
    begun = lambda: has_temporaries(folder) or (folder / "tuning.jsonl").exists()  # noqa: E731
    if not has_hit(bench.tuning(folder), log, bench.usuals["tune"], randomness, begun):
        return False
    if run.points_file.exists():
        check_same("operating_points.json", load_points(run), bench.points)
    check_same("model.safetensors", tensors_of(run.weights_file), bench.weights["best"])
    finish(bench.tuning(folder), log)
    check_same("operating_points.json", load_points(run), bench.points)
    return True


# studies


class Forked:
    """A step's process in the place of one that would load torch first."""

    def __init__(self, process: int) -> None:
        self.pid, self.code = process, None

    def poll(self) -> int | None:
        if self.code is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if ended else None
        return self.code

    def wait(self, timeout: float | None = None) -> int:
        self.code = ending_of(self.pid) if self.code is None else self.code
        return self.code

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)


def fork_steps() -> None:
    """Lets studies fork their steps, and note their numbers in a file beside the study."""

    def start(execution: Execution, step: StudyStep) -> Going:
        step.log.unlink(missing_ok=True)
        process = launch(["study-step", execution.folder.path, step.name], step.log)
        with open(steps_file(execution.folder.path), "a", encoding="utf-8") as file:
            print(json.dumps({"process": process, "log": str(step.log)}), file=file, flush=True)
        return Going(step, Forked(process))  # type: ignore[arg-type]

    Execution.start = start  # type: ignore[method-assign]


def steps_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.steps")


def running_steps(folder: Path) -> Iterator[int]:
    """The processes of the study's steps that are running and have written something."""
    if not steps_file(folder).exists():
        return
    for line in steps_file(folder).read_text(encoding="utf-8").splitlines(keepends=True):
        note = json.loads(line) if line.endswith("\n") else {}
        if note and is_running(note["process"]) and (found := stat_of(Path(note["log"]))) and found.st_size:
            yield note["process"]


def kill_study(bench: Bench, folder: Path, log: Path, randomness: random.Random) -> bool:
    """Starts a study and kills it at a step, half of the times without the step; whether the step
    was at work. False at its end, too."""
    steps_file(folder).unlink(missing_ok=True)
    process = launch(bench.studying(folder), log)
    wait, first = randomness.uniform(0, bench.usuals["study"].seconds / 2), time.monotonic()
    while True:
        ended, _ = os.waitpid(process, os.WNOHANG)
        if ended:
            return False
        going = list(running_steps(folder)) if time.monotonic() - first > wait else []
        for step in going:
            os.kill(step, signal.SIGSTOP)
        going = [step for step in going if is_running(step)]  # now they stay where they are
        if going:
            break
        time.sleep(0.002)
    os.killpg(process, signal.SIGKILL)
    code = ending_of(process)
    for step in going:
        if randomness.random() < 0.5:
            os.killpg(step, signal.SIGKILL)
        os.kill(step, signal.SIGCONT)  # where it was not killed it finds out by itself
    return code == -signal.SIGKILL


def study_results(folder: Path) -> dict[str, object]:
    """The weights and the records of a study, without clock and place."""
    found: dict[str, object] = {}
    for file in sorted((folder / "records").rglob("*.json")):
        found[str(file.relative_to(folder))] = CLOCK.sub("", file.read_text(encoding="utf-8")).replace(
            str(folder), "STUDY"
        )
    for file in sorted((folder / "runs").glob("*/model.safetensors")):
        found[str(file.relative_to(folder))] = tensors_of(file)
    return found


def study_trial(bench: Bench, place: Path, randomness: random.Random, kills: int) -> int:
    """How many kills hit a study at work before it came to its end, with the results of one that
    nobody disturbed."""
    folder, log, hits = place / "study", place / "log", 0
    while hits < kills and kill_study(bench, folder, log, randomness):
        hits += 1
        for run in (folder / "runs").glob("[!.]*"):
            assert Run(run).config
    finish(bench.studying(folder), log)
    check_same("the study", study_results(folder), bench.study)
    return hits


# the whole

TRIALS: dict[str, Callable[[Bench, Path, random.Random], bool]] = {
    "train": train_trial,
    "train --overwrite": overwrite_trial,
    "train --resume": resume_trial,
    "prepare --overwrite": prepare_trial,
    "tune": tune_trial,
}


@dataclass
class Counts:
    """What came of the kills."""

    seed: int
    hits: Counter[str] = field(default_factory=Counter)
    misses: int = 0
    lost: int = 0
    different: int = 0
    unhit: list[str] = field(default_factory=list)

    def attempt(self, verb: str, number: int, body: Callable[[Path, random.Random], int]) -> int:
        """One trial in a folder of its own; what goes wrong is told and counted."""
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
            try:
                hits = int(body(Path(place), random.Random(f"{self.seed} {verb} {number}")))
            except Exception as error:  # counted as wrong, and the last line and exit code tell
                self.lost += isinstance(error, AnydepthError)  # a folder that does not open
                self.different += not isinstance(error, AnydepthError)
                if self.lost + self.different <= SHOWN:
                    print(f"kills: WRONG: seed {self.seed}, {verb}, trial {number}: {error}", flush=True)
                hits = 1
        self.hits[verb] += hits
        self.misses += hits == 0
        return hits

    def kill(self, bench: Bench, verb: str, wanted: int) -> None:
        """As many kills of a verb as are wanted."""
        for number in itertools.count(1):
            left = wanted - self.hits[verb]
            if left <= 0:
                return
            if number > MISSES + 3 * wanted:
                self.unhit.append(f"only {self.hits[verb]} of {number} kills of {verb} hit it at work")
                return
            if verb == "study":
                most = min(left, KILLS_OF_A_STUDY)
                self.attempt(verb, number, lambda place, chance, most=most: study_trial(bench, place, chance, most))
            else:
                self.attempt(verb, number, lambda place, chance: TRIALS[verb](bench, place, chance))

    def told(self) -> str:
        """The closing line."""
        verbs = ", ".join(f"{verb} {count}" for verb, count in self.hits.items())
        return (
            f"kills: {sum(self.hits.values())} kills that hit work in progress ({verbs}), {self.misses} misses "
            "tried again: "
            f"{self.lost} lost folders, {self.different} different results{''.join(f'; {each}' for each in self.unhit)}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Kills commands while they work.")
    parser.add_argument("--size", type=float, default=1.0, help="share of 200 kills")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    fork_steps()
    counts = Counts(options.seed)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        bench = make_bench(Path(place))
        tuned = Path(shutil.copytree(bench.place / "run-best", bench.place / "tuned"))
        bench.usuals["tune"] = usual(bench.tuning(tuned), bench.place / "tune.log")
        bench.points = load_points(Run(tuned))
        bench.usuals["study"] = usual(bench.studying(bench.place / "study"), bench.place / "study.log")
        bench.study = study_results(bench.place / "study")
        for verb, full in KILLS.items():
            counts.kill(bench, verb, max(1, round(full * options.size)))
    print(counts.told())
    raise SystemExit(1 if counts.lost or counts.different or counts.unhit else 0)


if __name__ == "__main__":
    main()
