"""A bulk job that is killed again and again."""

import json
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from killing.crew_trials import ROOT, CrewTrial, environment, is_alive

RUN = ROOT / "tests" / "samples" / "runs" / "exits"
OPTIONS = ["--beam", "4", "--policy", "fixed:3"]


def command(verb: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "anydepth", verb, str(RUN), *map(str, arguments), *OPTIONS]


def translated(file: Path) -> tuple[bytes, float]:
    """What `anydepth translate` makes of a file, and its seconds."""
    start = time.monotonic()
    quietly = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}  # it warns of every line that is too long
    found = subprocess.run(command("translate", file), env=environment(), check=True, **quietly)
    return found.stdout, time.monotonic() - start


@dataclass(kw_only=True)
class BulkTrial(CrewTrial):
    """A job that translates `source` into the folder `to`."""

    source: Path
    to: Path
    shard_lines: int

    def command(self) -> list[str]:
        options = ["--to", self.to, "--shard-lines", self.shard_lines, "--retries", 1000, *self.where]
        return command("bulk", self.source, *options)

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

    def repeats(self) -> int:
        """How often shards were begun beyond the first time."""
        begun = Counter(note.name.split(".")[0] for note in (self.to / "begun").rglob("*.json"))
        return sum(begun.values()) - len(begun)

    def output(self) -> bytes:
        return b"".join(file.read_bytes() for file in sorted((self.to / "output" / self.source.name).iterdir()))

    def verdict(self, name: str, wanted: int) -> bool:
        self.finish()
        is_same = self.output() == translated(self.source)[0]
        kills, repeats = self.kills.total(), self.repeats()
        state = "the bytes of translate" if is_same else "WRONG: other bytes than translate"
        print(
            f"bulk kills: {name}: {kills} of {wanted} kills hit ({self.hits}), {repeats} shards of {self.shard_lines} "
            f"lines begun again: {state}",
            flush=True,
        )
        return is_same and repeats <= kills and kills == wanted
