"""A trial of each verb but study: one kill, what it leaves, and the verb brought to its end."""

import os
import random
import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path

from toy.language import MODEL, WORDS

from anydepth.runs.operating_points import load_points
from anydepth.runs.run import Run
from anydepth.text.prepared import PreparedData
from killing.processes import (
    Usual,
    WrongError,
    check_same,
    ending_of,
    finish,
    has_hit,
    has_temporaries,
    launch,
    stat_of,
    state_of,
    tensors_of,
    usual,
)

SETTINGS = f"""{MODEL}
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
        return [
            "tune",
            folder,
            "--valid",
            self.place / "valid",
            "--policy",
            "confidence",
            "--objective",
            "average-exit",
            *few,
        ]

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
