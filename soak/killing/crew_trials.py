"""A command with workers that is killed again and again: its driver, its workers, and the nodes of its
cluster; and the script around it, on this machine and on a Ray cluster."""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WORDS = (ROOT / "tests" / "samples" / "text" / "test.de").read_text(encoding="utf-8").split()
PATIENCE = 600.0  # seconds without anything happening, after which a command hangs
NODES = 3

sys.path.insert(0, str(ROOT))
from anydepth.bulk.ray_cluster import STARTED_WITH  # noqa: E402


def environment() -> dict[str, str]:
    """That of commands: this package, and one thread."""
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def write_lines(file: Path, count: int, chance: random.Random) -> None:
    """Sentences of words that the sample runs know, few of them twice."""
    lines = (" ".join(chance.choices(WORDS, k=chance.randint(5, 20))) for _ in range(count))
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@dataclass(kw_only=True)
class CrewTrial(ABC):
    """One job, its driver, and who was killed so far."""

    where: list[str]  # the options that say where
    log: Path
    nodes: "NodesToKill | None" = None  # where it is on a Ray cluster
    kills: Counter[str] = field(default_factory=Counter)
    driver: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """The command that begins the job, and goes on with it."""

    @abstractmethod
    def at_work(self) -> list[int]:
        """The processes that have begun a piece of work and not finished it."""

    @abstractmethod
    def verdict(self, name: str, wanted: int) -> bool:
        """Whether all is well at the end; one line says what came of it."""

    def has_hit(self, kind: str) -> bool:
        """Whether what was just killed had a piece of work."""
        return True

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.driver = subprocess.Popen(
                self.command(), env=environment(), stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, kind: str, act: Callable[[list[int]], bool], chance: random.Random) -> bool:
        """Waits until a piece is begun and a moment longer, then lets `act` kill; False once the job
        has ended."""
        assert self.driver is not None
        deadline = time.monotonic() + PATIENCE
        while self.driver.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"nothing happens any more; see {self.log}: {self.log.read_text()[-2000:]}")
            if self.at_work():
                time.sleep(chance.uniform(0, 0.5))
                if (working := self.at_work()) and self.driver.poll() is None and act(working) and self.has_hit(kind):
                    self.kills[kind] += 1
                    return True
            time.sleep(0.05)
        return False

    def kill_driver(self, chance: random.Random) -> bool:
        """Kills the process that gives out work and starts the same command again, also where that hit
        nothing."""

        def act(working: list[int]) -> bool:
            assert self.driver is not None
            self.driver.kill()
            self.driver.wait()
            return True

        is_hit = self.kill("driver", act, chance)
        if self.driver is not None and self.driver.returncode == -signal.SIGKILL:
            self.start()
        return is_hit

    def kill_worker(self, chance: random.Random) -> bool:
        """Kills a process that is at work."""

        def act(working: list[int]) -> bool:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(working), signal.SIGKILL)
                return True
            return False

        return self.kill("worker", act, chance)

    def kill_node(self, chance: random.Random) -> bool:
        """Takes a node of the cluster away, with whatever works on it, and adds another."""

        def act(working: list[int]) -> bool:
            assert self.nodes is not None
            self.nodes.exchange(chance)
            return True

        return self.kill("node", act, chance)

    def disturb(self, kills: int, chance: random.Random) -> None:
        """Starts the job and kills, at first one of each kind; fewer where the job ends before."""
        acts = [self.kill_driver, self.kill_worker]
        if self.nodes is not None:
            acts = [self.kill_node, self.kill_worker, self.kill_driver]
        self.start()
        for number in range(kills):
            if not (acts[number] if number < len(acts) else chance.choice(acts))(chance):
                return

    def finish(self) -> None:
        """Waits for the end of the job, which must be a good one, as long as its log grows."""
        assert self.driver is not None
        length, deadline = -1, 0.0
        while (code := self.driver.poll()) is None:
            if (grown := self.log.stat().st_size) > length:
                length, deadline = grown, time.monotonic() + PATIENCE
            assert time.monotonic() < deadline, f"nothing happens any more: {self.log.read_text()[-2000:]}"
            time.sleep(0.2)
        assert code == 0, f"exit code {code}: {self.log.read_text()[-2000:]}"

    @property
    def hits(self) -> str:
        return ", ".join(f"{kind} {count}" for kind, count in sorted(self.kills.items()))


@dataclass
class NodesToKill:
    """A Ray cluster of several nodes on this machine, each with room for one worker; a head without
    any stays."""

    cluster: Any
    nodes: list[Any]

    @classmethod
    def start(cls) -> "NodesToKill":
        os.environ.update(STARTED_WITH)
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        return cls(cluster, [cluster.add_node(num_cpus=1) for _ in range(NODES)])

    def exchange(self, chance: random.Random) -> None:
        """Takes a node away and adds another."""
        node = self.nodes.pop(chance.randrange(len(self.nodes)))
        self.cluster.remove_node(node, allow_graceful=False)
        self.nodes.append(self.cluster.add_node(num_cpus=1))

    def processes(self) -> list[int]:
        """Those that start the workers of each node."""
        return [each.process.pid for node in self.nodes for each in node.all_processes.get("raylet", [])]


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    with suppress(OSError):  # it may end while it is looked at
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


# From a name, the options that say where, the nodes of the cluster and the number of kills.
TrialMaker = Callable[[str, list[str], NodesToKill | None, int], CrewTrial]


def on_this_machine(make: TrialMaker, kills: int, chance: random.Random) -> bool:
    trial = make("local", ["--workers", "2"], None, kills)
    trial.disturb(kills, chance)
    return trial.verdict("local", kills)


def on_a_cluster(make: TrialMaker, kills: int, chance: random.Random) -> bool:
    nodes = NodesToKill.start()
    try:
        trial = make("ray", ["--on", "ray", "--address", nodes.cluster.address], nodes, kills)
        trial.disturb(kills, chance)
        return trial.verdict("ray", kills)
    finally:
        nodes.cluster.shutdown()


def soak(name: str, doc: str | None, kills_in_full: int, prepare: Callable[[Path, random.Random], TrialMaker]) -> int:
    """A script that kills jobs in both places; `prepare` readies a folder for them. Gives its exit
    code."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--size", type=float, default=1.0, help=f"share of {kills_in_full} kills of each job")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--on", choices=["local", "ray", "both"], default="both")
    options = parser.parse_args()
    chance, kills = random.Random(options.seed), max(3, round(kills_in_full * options.size))
    fine, skipped = True, ""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        make = prepare(Path(place), chance)
        if options.on in ("local", "both"):
            fine &= on_this_machine(make, kills, chance)
        if options.on in ("ray", "both"):
            if find_spec("ray") is None:
                skipped = "; THE RAY HALF WAS SKIPPED, Ray is not installed: pip install 'anydepth[ray]'"
            else:
                fine &= on_a_cluster(make, kills, chance)
    state = "FAILED" if not fine else "what was tried is well" if skipped else "all is well"
    print(f"{name}: {state} at seed {options.seed}{skipped}")
    return 0 if fine else 1
