"""Workers in this process, and a small run to work with: the logic of jobs without processes."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic

from anydepth.bulk.crew import CrewJob, Made, Muster, Work, WorkOutcome
from anydepth.bulk.job import BulkResult
from anydepth.bulk.local_crew import outcome_of
from anydepth.bulk.planning import BulkSettings
from anydepth.inference.translator import Translator
from anydepth.search.decoding import DecodingOptions
from anydepth.text.corpus import open_lines

SAMPLES = Path(__file__).parents[1] / "samples"
SMALL = BulkSettings(shard_lines=4, decoding=DecodingOptions(beam=2), policy="fixed:2")


class Killed(BaseException):
    """The process that gives out shards is gone."""


@dataclass
class InlineCrew(Generic[Work, Made]):
    """One worker, which works while it is waited for. `accident` may raise Killed or give the reason
    why the worker of a piece was lost."""

    do: Callable[[Work], Made]
    accident: Callable[[Any], str | None]
    waiting: list[Work] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    workers: int = 1
    kept: int = 0
    is_lost: bool = False  # whether an accident comes before the piece is begun, and ends the worker

    @property
    def idle(self) -> int:
        return 1 - len(self.waiting)

    def keep(self) -> None:
        self.kept += 1

    def give(self, piece: Work) -> None:
        self.waiting.append(piece)

    def wait(self, seconds: float) -> list[WorkOutcome[Work, Made]]:
        if not self.waiting:
            return []
        piece = self.waiting.pop()
        if reason := self.accident(piece):
            return [WorkOutcome(piece, reason=reason, is_lost=self.is_lost)]
        said = outcome_of(self.do, piece)
        self.done.append(piece.place)
        return [WorkOutcome(piece, said.made, said.reason, said.is_held)]


def inline(accident: Callable[[Any], str | None] = lambda piece: None, done: list[str] | None = None) -> Muster:
    """A crew of this process; `done` gets the places of the pieces that it did."""

    @contextmanager
    def muster(job: CrewJob[Work, Made], pieces: int) -> Iterator[InlineCrew[Work, Made]]:
        yield InlineCrew(job.worker(), accident, done=[] if done is None else done)

    return muster


def killed_on_ray(script: str, *, size: float) -> str:
    """What a script of soak/ says that kills nodes, workers and drivers on a Ray cluster, and must find
    all well."""
    command = [sys.executable, SAMPLES.parents[1] / "soak" / script, "--on", "ray", "--size", str(size)]
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert finished.returncode == 0, finished.stdout[-4000:]
    assert "3 of 3 kills hit (driver 1, node 1, worker 1)" in finished.stdout
    return finished.stdout


def expected(translator: Translator, lines: list[str], settings: BulkSettings = SMALL) -> bytes:
    found = translator.translate_lines(lines, settings.policy, settings.decoding)
    return "".join(f"{each.line}\n" for each in found).encode()


def lines_of(file: Path) -> list[str]:
    return list(open_lines(file))


def joined(result: BulkResult, name: str) -> bytes:
    return b"".join(each.read_bytes() for each in result.outputs(name))


def settings_with(**changes: object) -> BulkSettings:
    return replace(SMALL, **changes)  # type: ignore[arg-type]
