"""A worker that is this process itself: for a command that is one of many side by side, and has its
share of the machine already."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch

from anydepth.bulk.crew import ShardOutcome
from anydepth.bulk.inputs import Shard
from anydepth.bulk.job_folder import ShardIsHeld
from anydepth.bulk.shard_work import ShardJob, ShardWorker


@dataclass
class OwnCrew:
    """One worker, which works while it is waited for; what goes wrong in it ends the job."""

    worker: ShardWorker
    given: list[Shard] = field(default_factory=list)
    workers: int = 1

    @property
    def idle(self) -> int:
        return 1 - len(self.given)

    def give(self, shard: Shard) -> None:
        self.given.append(shard)

    def keep(self) -> None:
        """This process does not leave."""

    def wait(self, seconds: float) -> list[ShardOutcome]:
        if not self.given:
            time.sleep(seconds)  # others are at work on what is left
            return []
        shard = self.given.pop()
        try:
            return [ShardOutcome(shard, self.worker.do(shard))]
        except ShardIsHeld:
            return [ShardOutcome(shard, is_held=True)]


@contextmanager
def in_this_process(job: ShardJob) -> Iterator[OwnCrew]:
    """This process, with the threads that it has."""
    yield OwnCrew(ShardWorker(replace(job, threads=torch.get_num_threads())))
