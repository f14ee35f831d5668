"""Kills single-process trainings again and again, and compares what they end with.

Each training of a tiny model is started, killed (SIGKILL to its group), started again with the same
command, which has --resume, and so on, until one life comes to its end; then the next training
begins. A life is killed at one of its writes, or at any moment after it has reported its first
update. A kill costs at most the updates since the last state, and the weights at the end are those
of a training that nobody disturbed, bit for bit. `--size 1` is 1,000 kills.

Lives are forked from this process, which has torch loaded, so that none begins with seconds of
imports.
"""

import argparse
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ["OMP_NUM_THREADS"] = "1"  # a process with OpenMP's threads cannot be forked

import torch  # noqa: E402
from killing.processes import WrongError, check_same, ending_of, launch, tensors_of, usual  # noqa: E402
from killing.trials import FINALS, SETTINGS, Bench, write_text  # noqa: E402

import anydepth.training.start  # noqa: E402, F401 (loaded before forking)
from anydepth.model.checkpoint import not_finite, own_tensors  # noqa: E402
from anydepth.runs.run import Run  # noqa: E402

FULL = 1000
SHOWN = 5
SAVE_EVERY = int(re.findall(r"(?m)^save_every = (\d+)$", SETTINGS)[0])
LIVES = 40  # of one training, before it is left alone


@dataclass
class TrainingKills:
    """What came of the kills."""

    bench: Bench
    chance: random.Random
    kills: int = 0
    trainings: int = 0
    wrong: int = 0
    lost: list[int] = field(default_factory=list)  # updates that each kill cost

    def life(self, folder: Path, final: str, *, is_doomed: bool) -> bool:
        """Starts the training or goes on with it; whether it came to its end, which one that is not
        doomed does."""
        log = folder.with_suffix(".log")
        command = self.bench.training(folder, final, "--resume")
        if is_doomed and self.chance.random() < 0.5:
            code = ending_of(
                launch(command, log, at_write=self.chance.randint(1, self.bench.usuals[final].writes // 2))
            )
        else:
            process = launch(command, log)
            if is_doomed:
                self.kill_after_an_update(process, folder)
            code = ending_of(process)
        if code not in (0, -signal.SIGKILL):
            last = (log.read_text(encoding="utf-8").splitlines() or [""])[-1]
            raise WrongError(f"a life ended with exit code {code}: {last}")
        return code == 0

    def kill_after_an_update(self, process: int, folder: Path) -> None:
        """Kills a life a moment after its metrics have changed; one that ends before is left
        alone."""
        before, deadline = sizes(folder), time.monotonic() + 60
        while sizes(folder) == before and time.monotonic() < deadline:
            if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                return
            time.sleep(0.0005)
        time.sleep(self.chance.uniform(0, 0.1))
        os.killpg(process, signal.SIGKILL)

    def training(self, place: Path, wanted: int) -> None:
        """One training, killed up to `wanted` times; what is wrong with it is raised."""
        folder, final, before = place / "run", self.chance.choice(FINALS), self.kills
        for life in range(LIVES):
            had = last_update(folder)
            if self.life(folder, final, is_doomed=self.kills - before < wanted and life + 1 < LIVES):
                break
            self.kills += 1
            reached, saved = max(had, last_update(folder)), saved_update(folder)
            self.lost.append(reached - saved)
            if reached - saved > SAVE_EVERY:
                raise WrongError(f"a kill cost {reached - saved} updates, but a state is saved every {SAVE_EVERY}")
        check_same("model.safetensors", tensors_of(Run(folder).weights_file), self.bench.weights[final])

    def go(self, wanted: int, seed: int) -> None:
        """Trainings one after the other until there were as many kills as are wanted."""
        while self.kills < wanted and self.wrong < SHOWN:
            self.trainings += 1
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
                try:
                    self.training(Path(place), wanted - self.kills)
                except Exception as error:  # counted as wrong, and the last line and exit code tell
                    self.wrong += 1
                    print(f"training_kills: WRONG: seed {seed}, training {self.trainings}: {error}", flush=True)


def sizes(folder: Path) -> list[int]:
    """What changes with every update that is reported."""
    files = (folder / "metrics.jsonl", folder / "train.log")
    return [file.stat().st_size if file.exists() else 0 for file in files]


def last_update(folder: Path) -> int:
    """The last update that the metrics tell of."""
    file = folder / "metrics.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
    return max((json.loads(line)["update"] for line in lines if line.endswith("\n")), default=0)


def saved_update(folder: Path) -> int:
    """The update of the last state, which must be whole and made of numbers."""
    state = Run(folder).state_file
    if not state.exists():
        return 0
    Run(folder).seal.check(state)
    tensors, notes = own_tensors(state)
    if bad := not_finite(tensors):
        raise WrongError(f"{bad} of a state is not finite")
    return int(json.loads(notes["progress"])["update"])


def undisturbed(place: Path) -> Bench:
    """The text, the data, and what undisturbed trainings make of them."""
    bench, log = Bench(place), place / "undisturbed.log"
    write_text(place)
    usual(bench.preparing(place / "data", 300), log)
    for final in FINALS:
        bench.config(final).write_text(SETTINGS.replace("FINAL", final), encoding="utf-8")
        bench.usuals[final] = usual(bench.training(place / f"run-{final}", final), log)
        bench.weights[final] = tensors_of(Run(place / f"run-{final}").weights_file)
    return bench


def main() -> None:
    parser = argparse.ArgumentParser(description="Kills single-process trainings again and again.")
    parser.add_argument("--size", type=float, default=1.0, help=f"share of {FULL:,} kills")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    started, wanted = time.monotonic(), max(1, round(FULL * options.size))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        counts = TrainingKills(undisturbed(Path(place)), random.Random(options.seed))
        counts.go(wanted, options.seed)
    cost = (
        f"a kill cost {sum(counts.lost) / max(1, len(counts.lost)):.1f} updates, at most {max(counts.lost, default=0)}"
    )
    print(
        f"training_kills: {counts.kills:,} kills in {counts.trainings:,} trainings, {time.monotonic() - started:.0f} "
        f"seconds: {counts.wrong} went wrong; {cost}"
    )
    raise SystemExit(1 if counts.wrong or counts.kills < wanted else 0)


if __name__ == "__main__":
    main()
