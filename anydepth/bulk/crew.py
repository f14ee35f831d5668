"""Those who do the work of a job, wherever they are: what a job tells them, what it asks of them, and
what it hears."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar, runtime_checkable

import torch

from anydepth import __version__
from anydepth.errors import AnydepthError

MOST_FALSE_STARTS = 3  # of workers in a row, before the job gives up


class WorkPiece(Protocol):
    """What a worker does at a time: a shard of a text, or some pairs to score."""

    @property
    def place(self) -> str:
        """Where it is, for people; no other piece of the job has the same."""

    @property
    def records(self) -> int:
        """How many sentences it has."""


Work = TypeVar("Work", bound=WorkPiece)
Made = TypeVar("Made")  # what comes of a piece, plain values that go from one process to another


class WorkIsHeld(AnydepthError):  # noqa: N818
    """Another process is at work on the piece."""


@dataclass(frozen=True, kw_only=True)
class CrewJob(ABC, Generic[Work, Made]):
    """All that a worker has to know, as plain values that go to other machines. Folders are whole
    paths, which must lead to the same folders there; the values say which job it is, so that nobody
    does another one's work."""

    # Whether workers leave what they make where the job finds it: then one whose giver is gone finishes
    # its piece, and else it ends, since nobody would receive what it makes.
    leaves_product: ClassVar[bool] = False

    version: str = __version__
    threads: int = 1

    @abstractmethod
    def loaded(self) -> Callable[[Work], Made]:
        """What does a piece, with all that it takes in memory; a model that is another one than the
        job's is refused."""

    def worker(self) -> Callable[[Work], Made]:
        """`loaded`, in a process that has the job's version and takes its number of threads."""
        if self.version != __version__:
            raise AnydepthError(
                f"the job is of anydepth {self.version} and a worker has {__version__}; install one version everywhere"
            )
        torch.set_num_threads(self.threads)
        return self.loaded()


@dataclass(frozen=True)
class WorkOutcome(Generic[Work, Made]):
    """What came of a piece that was given to a worker: what it made, or the reason why there is
    nothing. `is_held` says that another process is at work on it, `is_lost` that the worker is gone."""

    piece: Work
    made: Made | None = None
    reason: str = ""
    is_held: bool = False
    is_lost: bool = False


@runtime_checkable
class Crew(Protocol[Work, Made]):
    """Workers that were started; those that are lost are replaced."""

    @property
    def workers(self) -> int:
        """How many are there, at work or ready for it."""

    @property
    def idle(self) -> int:
        """How many wait for a piece."""

    def give(self, piece: Work) -> None:
        """Hands a piece to one that waits."""

    def keep(self) -> None:
        """Keeps those that wait from leaving; called often while there is nothing to give."""

    def wait(self, seconds: float) -> list[WorkOutcome[Work, Made]]:
        """What has come of pieces since the last call; waits for something to happen, at most so
        long."""


@runtime_checkable
class Muster(Protocol):
    """Where the work of a job is done: gives the crew for it, which ends with the block."""

    def __call__(self, job: CrewJob[Work, Made], pieces: int) -> AbstractContextManager[Crew[Work, Made]]:
        """The crew of a job, with no more workers than there are pieces."""
