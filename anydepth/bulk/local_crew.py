"""Workers that are processes of this machine.

A process for each core with one thread each: they share nothing, so none waits for another at the end
of a piece, and tokenizing, which holds Python's lock, is done side by side, too.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Generic

from anydepth.bulk.crew import MOST_FALSE_STARTS, Crew, CrewJob, Made, Muster, Work, WorkIsHeld, WorkOutcome
from anydepth.bulk.own_process import in_this_process
from anydepth.errors import AnydepthError
from anydepth.limits import usable_cores
from anydepth.messages.say import Say, say_nothing

SPAWN = get_context("spawn")  # a fork would inherit threads of torch that are not there


@dataclass(frozen=True)
class Said:
    """What a worker says: that it is ready, or what came of its piece of work."""

    is_ready: bool = False
    made: Any = None
    reason: str = ""
    is_held: bool = False


@dataclass
class LocalWorker(Generic[Work]):
    """A process, the way to talk to it, and the piece that it has."""

    process: SpawnProcess
    ways: Connection
    piece: Work | None = None
    is_ready: bool = False


class LocalCrew(Generic[Work, Made]):
    """So many processes, which end with the block of `local_crew`."""

    def __init__(self, job: CrewJob[Work, Made], *, workers: int, say: Say = say_nothing) -> None:
        self.job, self.say, self.false_starts = job, say, 0
        self.members = [self._start() for _ in range(workers)]

    @property
    def workers(self) -> int:
        return sum(each.is_ready for each in self.members)

    @property
    def idle(self) -> int:
        return sum(each.is_ready and each.piece is None for each in self.members)

    def give(self, piece: Work) -> None:
        """Hands a piece to a process that waits; one that has just died shows that in `wait`."""
        member = next(each for each in self.members if each.is_ready and each.piece is None)
        member.piece = piece
        try:
            member.ways.send(piece)
        except OSError:
            return

    def keep(self) -> None:
        """Processes of this machine wait as long as it takes."""

    def wait(self, seconds: float) -> list[WorkOutcome[Work, Made]]:
        """What the processes said, and the pieces of those that ended without a word."""
        ready = wait([each.ways for each in self.members], timeout=seconds)
        found = [self._heard(each) for each in list(self.members) if each.ways in ready]
        return [each for each in found if each is not None]

    def _heard(self, member: LocalWorker[Work]) -> WorkOutcome[Work, Made] | None:
        try:
            said = member.ways.recv()
        except (EOFError, OSError):
            return self._lost(member)
        if said.is_ready:
            member.is_ready, self.false_starts = True, 0
            return None
        if member.piece is None:  # it could not load the model
            self._give_up(member, said.reason)
            return None
        piece, member.piece = member.piece, None
        return WorkOutcome(piece, said.made, said.reason, said.is_held)

    def _lost(self, member: LocalWorker[Work]) -> WorkOutcome[Work, Made] | None:
        member.process.join()
        code = member.process.exitcode or 0
        reason = f"its worker was ended by signal {-code}" if code < 0 else f"its worker ended with exit code {code}"
        if not member.is_ready:
            self.false_starts += 1
            if self.false_starts > MOST_FALSE_STARTS * len(self.members):
                many = len(self.members)
                self._give_up(member, f"a worker could not be started: {reason}; there may not be memory for {many}")
                return None
        self.members[self.members.index(member)] = self._start()
        return None if member.piece is None else WorkOutcome(member.piece, reason=reason, is_lost=True)

    def _give_up(self, member: LocalWorker[Work], reason: str) -> None:
        """Goes on without a worker that does not start, unless there is no other."""
        if not self.workers:
            raise AnydepthError(reason)
        member.ways.close()
        member.process.join()
        self.members.remove(member)
        self.false_starts = 0
        self.say(f"{reason}; going on with {len(self.members)} workers")

    def _start(self) -> LocalWorker[Work]:
        here, there = SPAWN.Pipe()
        process = SPAWN.Process(target=serve_crew, args=(there, self.job), daemon=True)
        process.start()
        there.close()
        return LocalWorker(process, here)

    def end(self) -> None:
        """Ends all processes, whatever they do."""
        for each in self.members:
            each.ways.close()
            each.process.kill()
        for each in self.members:
            each.process.join()


def on_this_machine(*, workers: int | None = None, threads: int = 1, own: int = 0, say: Say = say_nothing) -> Muster:
    """Processes of this machine: so many, or as many as its cores give `threads` to. Up to `own` pieces
    are done in this process unless `workers` is given: starting others would take longer."""

    @contextmanager
    def muster(job: CrewJob[Work, Made], pieces: int) -> Iterator[Crew[Work, Made]]:
        if workers is None and pieces <= own:
            with in_this_process(job, pieces) as alone:
                yield alone
            return
        count = min(workers or max(1, usable_cores() // threads), pieces)
        crew = LocalCrew(replace(job, threads=threads), workers=count, say=say)
        try:
            yield crew
        finally:
            crew.end()

    return muster


def serve_crew(ways: Connection, job: CrewJob[Work, Made]) -> None:
    """The life of a process: it loads the model and does what it is given, until nobody is there
    that gives. A piece that it has begun it finishes even then, if it leaves what it makes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; who started this one ends it
    if not job.leaves_product:
        threading.Thread(target=end_with_giver, daemon=True).start()
    try:
        try:
            do = job.worker()
        except AnydepthError as error:
            ways.send(Said(reason=str(error)))
            return
        ways.send(Said(is_ready=True))
        while True:
            ways.send(outcome_of(do, ways.recv()))
    except (EOFError, OSError):
        return


def end_with_giver() -> None:
    """Ends this process, whatever it does, when the one that started it is gone."""
    giver = parent_process()
    assert giver is not None, "a process that another one started"
    giver.join()
    os._exit(1)


def outcome_of(do: Callable[[Work], Made], piece: Work) -> Said:
    """What came of a piece; whatever goes wrong with it is its own matter."""
    try:
        return Said(made=do(piece))
    except WorkIsHeld:
        return Said(is_held=True)
    except Exception as error:  # told with the place of the piece, after retries
        return Said(reason=str(error) or type(error).__name__)
