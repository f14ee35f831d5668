"""Work that takes its time and needs no model: for what happens to workers whose giver is killed."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from anydepth.bulk.crew import CrewJob
from anydepth.bulk.dispatch import Dispatch
from anydepth.bulk.local_crew import on_this_machine
from anydepth.files.atomic import write_text


@dataclass(frozen=True)
class Nap:
    """Some seconds to sleep, and where it is noted who sleeps and that it is over."""

    folder: Path
    seconds: float
    place: str = "a nap"
    records: int = 1


@dataclass(frozen=True, kw_only=True)
class NapJob(CrewJob[Nap, bool]):
    """The job of sleeping, of which nothing is left but what is sent back."""

    def loaded(self) -> Callable[[Nap], bool]:
        return sleep


@dataclass(frozen=True, kw_only=True)
class NotedNapJob(NapJob):
    """The job of sleeping, whose notes are what is wanted."""

    leaves_product: ClassVar[bool] = True


def sleep(nap: Nap) -> bool:
    write_text(nap.folder / "asleep", str(os.getpid()))
    time.sleep(nap.seconds)
    write_text(nap.folder / "awake", "")
    return True


def give_nap(job: NapJob, nap: Nap) -> None:
    """The body of a process that gives a nap to a worker and waits for it."""
    with on_this_machine(workers=1)(job, 1) as crew:
        Dispatch(iter([nap]), crew, lambda piece, made: None, total=1, say=lambda text: None).go()


def is_alive(process: int) -> bool:
    """Whether a process is there and has not ended; nobody may have asked for its exit code yet."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(is_so: Callable[[], bool], *, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)
