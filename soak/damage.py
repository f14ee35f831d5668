"""Damages files of runs, prepared data and exports, one at a time, and looks what each verb makes
of it.

Every trial copies a folder, damages one file in it and calls a verb in this process through the
command's own `main`. The verb must refuse the damage in one line that names the file, or give what
it gives without the damage. `--size 1` is 10,000 trials.
"""

import argparse
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from damaging.calls import Outcome
from damaging.damages import DAMAGES
from damaging.folders import build
from damaging.scenes import SCENES, Scene

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("OMP_NUM_THREADS", "1")

FULL_SIZE = 10_000
PROCESSES = 2
SHOWN = 5
SHARE_READ = 0.8
# With fewer refusals than this share of the trials, the damage hit what nobody reads, and little
# was shown
LEAST_REFUSED = 0.5
APPENDED = {"metrics.jsonl", "train.log"}  # written in place, so that a hard link would reach the original


def copied(origin: Path, to: Path) -> Path:
    """A copy of a folder whose files are hard links, but for those that are written in place."""

    def link(source: str, target: str) -> None:
        shutil.copy(source, target) if Path(source).name in APPENDED else os.link(source, target)

    shutil.copytree(origin, to, copy_function=link)
    return to


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
        f"damage: {len(trials):,} trials: {counts['refused']:,} refused by name, {counts['no effect']:,} without "
        f"effect, {counts['traceback']:,} tracebacks, {counts['silent change']:,} silent changes, "
        f"{counts['not named']:,} not named in one line"
    )
    if len(trials) > 50 and counts["refused"] < LEAST_REFUSED * len(trials):
        print(f"damage: only {counts['refused']:,} of {len(trials):,} trials were refused, which shows little")
        return 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
