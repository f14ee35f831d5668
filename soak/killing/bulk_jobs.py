"""A bulk job that is killed again and again: its driver, its workers, and the nodes of its cluster."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "tests" / "samples" / "runs" / "exits"
WORDS = (ROOT / "tests" / "samples" / "text" / "test.de").read_text(encoding="utf-8").split()
OPTIONS = ["--beam", "4", "--policy", "fixed:3"]
PATIENCE = 600.0  # seconds without anything happening, after which a job hangs
NODES = 3


sys.path.insert(0, str(ROOT))
from anydepth.bulk.ray_cluster import STARTED_WITH  # noqa: E402


def environment() -> dict[str, str]:
    """That of commands: this package, and one thread."""
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def command(verb: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "anydepth", verb, str(RUN), *map(str, arguments), *OPTIONS]


def write_lines(file: Path, count: int, chance: random.Random) -> None:
    """Sentences of words that the run knows, few of them twice."""
    lines = (" ".join(chance.choices(WORDS, k=chance.randint(5, 20))) for _ in range(count))
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def translated(file: Path) -> tuple[bytes, float]:
    """What `anydepth translate` makes of a file, and its seconds."""
    start = time.monotonic()
    quietly = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}  # it warns of every line that is too long
    found = subprocess.run(command("translate", file), env=environment(), check=True, **quietly)
    return found.stdout, time.monotonic() - start


@dataclass
class BulkTrial:
    """One job, its driver, and who was killed so far."""

    source: Path
    to: Path
    shard_lines: int
    where: list[str]  # the options that say where
    log: Path
    kills: Counter[str] = field(default_factory=Counter)
    driver: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = ["--to", self.to, "--shard-lines", self.shard_lines, "--retries", 1000, *self.where]
        with self.log.open("ab") as log:
            self.driver = subprocess.Popen(
                command("bulk", self.source, *options),
                env=environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def at_work(self) -> list[int]:
        """The processes that have begun a shard and not finished it, by their notes."""
        found = []
        for note in (self.to / "begun").rglob("*.json"):
            shard = note.name.split(".")[0]
            if not (self.to / "done" / note.parent.name / f"{shard}.json").exists():
                with suppress(OSError, ValueError):  # a note that is being written
                    process = int(json.loads(note.read_text())["process"])
                    if is_alive(process):
                        found.append(process)
        return found

    def kill(self, kind: str, act: Callable[[list[int]], bool], chance: random.Random) -> bool:
        """Waits until a shard is begun and a moment longer, then lets `act` kill; False once the job
        has ended."""
        assert self.driver is not None
        deadline = time.monotonic() + PATIENCE
        while self.driver.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"nothing happens any more; see {self.log}: {self.log.read_text()[-2000:]}")
            if self.at_work():
                time.sleep(chance.uniform(0, 0.5))
                if (working := self.at_work()) and self.driver.poll() is None and act(working):
                    self.kills[kind] += 1
                    return True
            time.sleep(0.05)
        return False

    def kill_driver(self, chance: random.Random) -> bool:
        """Kills the process that gives out shards and starts the same command again."""

        def act(working: list[int]) -> bool:
            assert self.driver is not None
            self.driver.kill()
            self.driver.wait()
            return True

        if not self.kill("driver", act, chance):
            return False
        self.start()
        return True

    def kill_worker(self, chance: random.Random) -> bool:
        """Kills a process that is at work on a shard."""

        def act(working: list[int]) -> bool:
            with suppress(ProcessLookupError):
                os.kill(chance.choice(working), signal.SIGKILL)
                return True
            return False

        return self.kill("worker", act, chance)

    def finish(self) -> None:
        """Waits for the end of the job, which must be a good one."""
        assert self.driver is not None
        code = self.driver.wait(timeout=PATIENCE)
        assert code == 0, f"exit code {code}: {self.log.read_text()[-2000:]}"

    def repeats(self) -> int:
        """How often shards were begun beyond the first time."""
        begun = Counter(note.name.split(".")[0] for note in (self.to / "begun").rglob("*.json"))
        return sum(begun.values()) - len(begun)

    def output(self) -> bytes:
        return b"".join(file.read_bytes() for file in sorted((self.to / "output" / self.source.name).iterdir()))


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

    def kill_node(self, trial: BulkTrial, chance: random.Random) -> bool:
        """Takes a node away, with whatever works on it, and adds another."""

        def act(working: list[int]) -> bool:
            node = self.nodes.pop(chance.randrange(len(self.nodes)))
            self.cluster.remove_node(node, allow_graceful=False)
            return True

        hit = trial.kill("node", act, chance)
        if hit:
            self.nodes.append(self.cluster.add_node(num_cpus=1))
        return hit


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    with suppress(OSError):  # it may end while it is looked at
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
