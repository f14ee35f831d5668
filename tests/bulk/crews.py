"""Workers in this process, and a small run to work with: the logic of jobs without processes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from anydepth.bulk.crew import Muster, ShardOutcome
from anydepth.bulk.inputs import Shard
from anydepth.bulk.local_crew import outcome_of
from anydepth.bulk.shard_work import ShardJob, ShardWorker

SAMPLES = Path(__file__).parents[1] / "samples"


class Killed(BaseException):
    """The process that gives out shards is gone."""


@dataclass
class InlineCrew:
    """One worker, which works while it is waited for. `accident` may raise Killed or give the reason
    why the worker of a shard was lost."""

    worker: ShardWorker
    accident: Callable[[Shard], str | None]
    waiting: list[Shard] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    workers: int = 1

    @property
    def idle(self) -> int:
        return 1 - len(self.waiting)

    def give(self, shard: Shard) -> None:
        self.waiting.append(shard)

    def wait(self, seconds: float) -> list[ShardOutcome]:
        if not self.waiting:
            return []
        shard = self.waiting.pop()
        if reason := self.accident(shard):
            return [ShardOutcome(shard, reason=reason)]
        said = outcome_of(self.worker, shard)
        self.done.append(f"{shard.input}/{shard.name}")
        return [ShardOutcome(shard, said.receipt, said.reason, said.is_held)]


def inline(accident: Callable[[Shard], str | None] = lambda shard: None, done: list[str] | None = None) -> Muster:
    """A crew of this process; `done` gets the names of the shards that it did."""

    @contextmanager
    def muster(job: ShardJob) -> Iterator[InlineCrew]:
        yield InlineCrew(ShardWorker(job), accident, done=[] if done is None else done)

    return muster
