"""A worker that is this process itself: for a command that is one of many side by side, and has its
share of the machine already."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Generic

import torch

from anydepth.bulk.crew import CrewJob, Made, Work, WorkIsHeld, WorkOutcome


@dataclass
class OwnCrew(Generic[Work, Made]):
    """One worker, which works while it is waited for; what goes wrong in it ends the job."""

    do: Callable[[Work], Made]
    given: list[Work] = field(default_factory=list)
    workers: int = 1

    @property
    def idle(self) -> int:
        return 1 - len(self.given)

    def give(self, piece: Work) -> None:
        self.given.append(piece)

    def keep(self) -> None:
        """This process does not leave."""

    def wait(self, seconds: float) -> list[WorkOutcome[Work, Made]]:
        if not self.given:
            time.sleep(seconds)  # others are at work on what is left
            return []
        piece = self.given.pop()
        try:
            return [WorkOutcome(piece, self.do(piece))]
        except WorkIsHeld:
            return [WorkOutcome(piece, is_held=True)]


@contextmanager
def in_this_process(job: CrewJob[Work, Made], pieces: int) -> Iterator[OwnCrew[Work, Made]]:
    """This process, with the threads that it has, for any number of pieces."""
    yield OwnCrew(replace(job, threads=torch.get_num_threads()).worker())
