"""Kills workers of a training under `torchrun --max-restarts`, and compares what it ends with.

Two workers train a tiny model. One of them, drawn at random, gets SIGKILL at a random moment: in
most cases after the restarted workers have made an update, else while they start. torchrun starts
both again with the same command, which has --resume. A kill costs at most the updates since the
last state, and the weights at the end are those of two workers that nobody disturbed, bit for bit.
`--size 1` is 100 kills.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from killing.processes import WrongError, check_same, is_running, tensors_of  # noqa: E402
from killing.trials import Bench, write_text  # noqa: E402
from toy.language import MODEL  # noqa: E402

from anydepth.runs.run import Run  # noqa: E402

FULL = 100
WORKERS = 2
SAVE_EVERY = 10
EARLY = 0.2  # the share of kills while the workers start
PATIENCE = 300.0
SETTINGS = f"""{MODEL}
[training]
updates = UPDATES
batch_tokens = 150
learning_rate = 1e-2
warmup = 4
log_every = 1
save_every = {SAVE_EVERY}
final = "average"
average = 3

[validation]
every = 25
sentences = 0
"""


@dataclass
class WorkerKills:
    """A training under torchrun, and what came of killing its workers."""

    bench: Bench
    chance: random.Random
    updates: int
    kills: Counter[int] = field(default_factory=Counter)  # by rank
    early: int = 0
    lost: list[int] = field(default_factory=list)

    def start(self, folder: Path, *, restarts: int) -> "subprocess.Popen[bytes]":
        """torchrun at work on the run in `folder`, whose talk goes to a file beside it."""
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(WORKERS)]
        command = [*torchrun, "--max-restarts", str(restarts), "-m", "anydepth"]
        arguments = map(str, self.bench.training(folder, "torchrun", "--resume"))
        with open(folder.with_suffix(".log"), "ab") as log:
            return subprocess.Popen(
                [sys.executable, *command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
                start_new_session=True,
            )

    def disturbed(self, folder: Path, wanted: int) -> None:
        """A training with as many kills as are wanted, spread over its updates."""
        targets = sorted(self.chance.sample(range(1, self.updates - SAVE_EVERY), wanted))
        agent = self.start(folder, restarts=wanted + 1)
        dead: set[int] = set()
        try:
            for target in targets:
                self.kill_one(agent, folder, target, dead)
            agent.wait(PATIENCE * 2)
        finally:
            if agent.poll() is None:
                for process in (*children_of(agent.pid), agent.pid):  # workers have sessions of their own
                    os.kill(process, signal.SIGKILL)
                agent.wait()
        if agent.returncode:
            raise WrongError(f"torchrun ended with exit code {agent.returncode}; {last_words(folder)}")

    def kill_one(self, agent: "subprocess.Popen[bytes]", folder: Path, target: int, dead: set[int]) -> None:
        """Kills one worker of those that run now: while they start, or once update `target` was
        made and another one in this life."""
        workers = self.workers(agent, folder, dead)
        is_early, log = self.chance.random() < EARLY, folder / "train.log"
        begin, deadline = len(lines_of(log)), time.monotonic() + PATIENCE
        if is_early:
            time.sleep(self.chance.uniform(0, 4))
        else:
            while not any(made >= target for made in updates_of(lines_of(log)[begin:])):
                if agent.poll() is not None or time.monotonic() > deadline:
                    raise WrongError(f"update {target} did not come (exit code {agent.poll()}); {last_words(folder)}")
                time.sleep(0.002)
            time.sleep(self.chance.uniform(0, 0.1))
        rank = self.chance.randrange(WORKERS)
        if not is_running(workers[rank]):
            raise WrongError(f"worker {rank} had ended before it was killed; {last_words(folder)}")
        os.kill(workers[rank], signal.SIGKILL)
        self.kills[rank] += 1
        self.early += is_early
        dead.update(workers)

    def workers(self, agent: "subprocess.Popen[bytes]", folder: Path, dead: set[int]) -> list[int]:
        """The processes of the workers, by rank, once there are new ones."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and agent.poll() is None:
            found = {rank_of(process): process for process in children_of(agent.pid) if process not in dead}
            if all(rank in found for rank in range(WORKERS)):
                return [found[rank] for rank in range(WORKERS)]
            time.sleep(0.005)
        raise WrongError(f"no workers came (exit code {agent.poll()}); {last_words(folder)}")

    def check(self, folder: Path, whole: Path) -> None:
        """Raises what is wrong with the end of a disturbed training."""
        reached = 0
        for line in lines_of(folder / "train.log"):
            if found := re.match(r"going on after update ([\d,]+)", line):
                self.lost.append(reached - int(found[1].replace(",", "")))
                reached -= self.lost[-1]
            reached = max([reached, *updates_of([line])])
        if max(self.lost, default=0) > SAVE_EVERY:
            raise WrongError(f"a kill cost {max(self.lost)} updates, but a state is saved every {SAVE_EVERY}")
        check_same("model.safetensors", tensors_of(Run(folder).weights_file), tensors_of(Run(whole).weights_file))
        talk = folder.with_suffix(".log").read_text(encoding="utf-8", errors="replace")
        if "Traceback (most recent call last)" in talk:
            raise WrongError(f"a worker left a traceback: {talk[talk.index('Traceback') :][:2000]}")


def children_of(process: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def rank_of(process: int) -> int:
    """The rank of a worker; -1 for another process."""
    try:
        found = re.search(rb"(?:^|\0)RANK=(\d+)", Path(f"/proc/{process}/environ").read_bytes())
    except OSError:
        return -1
    return int(found[1]) if found else -1


def lines_of(log: Path) -> list[str]:
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


def updates_of(lines: list[str]) -> list[int]:
    """The updates that lines of train.log tell of."""
    found = (re.match(r"update ([\d,]+)  epoch ", line) for line in lines)
    return [int(each[1].replace(",", "")) for each in found if each]


def last_words(folder: Path) -> str:
    return " | ".join(lines_of(folder.with_suffix(".log"))[-5:])


def main() -> None:
    parser = argparse.ArgumentParser(description="Kills workers of a training under torchrun.")
    parser.add_argument("--size", type=float, default=1.0, help=f"share of {FULL} kills")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    started, wanted, wrong = time.monotonic(), max(2, round(FULL * options.size)), 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        counts = WorkerKills(Bench(place), random.Random(options.seed), updates=4 * SAVE_EVERY + 25 * wanted)
        write_text(place)
        subprocess.run(
            [sys.executable, "-m", "anydepth", *map(str, counts.bench.preparing(place / "data", 300))],
            check=True,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        settings = SETTINGS.replace("UPDATES", str(counts.updates))
        counts.bench.config("torchrun").write_text(settings, encoding="utf-8")
        try:
            if counts.start(place / "whole", restarts=0).wait(PATIENCE * 2):
                raise WrongError(f"the undisturbed training failed; {last_words(place / 'whole')}")
            counts.disturbed(place / "run", wanted)
            counts.check(place / "run", place / "whole")
        except (WrongError, subprocess.TimeoutExpired) as error:
            wrong = 1
            print(f"torchrun_kills: WRONG: seed {options.seed}: {error}", flush=True)
    kills = f"{sum(counts.kills.values())} kills ({counts.kills[0]} of rank 0, {counts.kills[1]} of rank 1"
    cost = (
        f"a kill cost {sum(counts.lost) / max(1, len(counts.lost)):.1f} updates, at most {max(counts.lost, default=0)}"
    )
    same = "other weights or none" if wrong else "the same weights"
    print(
        f"torchrun_kills: {kills}, {counts.early} while they started) in {time.monotonic() - started:.0f} seconds: "
        f"{same}; {cost}"
    )
    raise SystemExit(1 if wrong or sum(counts.kills.values()) < wanted else 0)


if __name__ == "__main__":
    main()
