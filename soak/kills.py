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
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ["OMP_NUM_THREADS"] = "1"  # a process with OpenMP's threads cannot be forked

import torch  # noqa: E402
from killing.processes import usual  # noqa: E402
from killing.studies import fork_steps, study_results, study_trial  # noqa: E402
from killing.trials import (  # noqa: E402
    Bench,
    make_bench,
    overwrite_trial,
    prepare_trial,
    resume_trial,
    train_trial,
    tune_trial,
)

import anydepth.experiments.study  # noqa: E402
import anydepth.training.start  # noqa: E402, F401 (loaded before forking)
from anydepth.errors import AnydepthError  # noqa: E402
from anydepth.runs.operating_points import load_points  # noqa: E402
from anydepth.runs.run import Run  # noqa: E402

KILLS = {"train": 40, "train --overwrite": 20, "train --resume": 50, "prepare --overwrite": 40, "tune": 25, "study": 25}
SHOWN = 5
MISSES = 50  # in a row, before a trial counts as failed
KILLS_OF_A_STUDY = 5

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
        """One trial in a folder of its own; what goes wrong is printed and counted."""
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
            f"kills: {sum(self.hits.values())} kills that hit work in progress ({verbs}), {self.misses} misses tried "
            f"again: {self.lost} lost folders, {self.different} different "
            f"results{''.join(f'; {each}' for each in self.unhit)}"
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
