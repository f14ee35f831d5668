"""Those who translate shards, wherever they are: what a job asks of them, and what it hears."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from anydepth.bulk.inputs import Shard
from anydepth.bulk.job_folder import Receipt
from anydepth.bulk.shard_work import ShardJob

MOST_FALSE_STARTS = 3  # of workers in a row, before the job gives up


@dataclass(frozen=True)
class ShardOutcome:
    """What came of a shard that was given to a worker: its receipt, or the reason why there is none.
    `is_held` says that another process is at work on it, `is_lost` that the worker is gone."""

    shard: Shard
    receipt: Receipt | None = None
    reason: str = ""
    is_held: bool = False
    is_lost: bool = False


class Crew(Protocol):
    """Workers that were started; those that are lost are replaced."""

    @property
    def workers(self) -> int:
        """How many are there, at work or ready for it."""

    @property
    def idle(self) -> int:
        """How many wait for a shard."""

    def give(self, shard: Shard) -> None:
        """Hands a shard to one that waits."""

    def keep(self) -> None:
        """Keeps those that wait from leaving; called often while there is nothing to give."""

    def wait(self, seconds: float) -> list[ShardOutcome]:
        """What has come of shards since the last call; waits for something to happen, at most so
        long."""


Muster = Callable[[ShardJob], AbstractContextManager[Crew]]
