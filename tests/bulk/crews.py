"""Workers in this process, and a small run to work with: the logic of jobs without processes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from anydepth.bulk.crew import Muster, ShardOutcome
from anydepth.bulk.inputs import Shard
from anydepth.bulk.job import BulkResult
from anydepth.bulk.local_crew import outcome_of
from anydepth.bulk.planning import BulkSettings
from anydepth.bulk.shard_work import ShardJob, ShardWorker
from anydepth.inference.translator import Translator
from anydepth.search.decoding import DecodingOptions
from anydepth.text.corpus import open_lines

SAMPLES = Path(__file__).parents[1] / "samples"
SMALL = BulkSettings(shard_lines=4, decoding=DecodingOptions(beam=2), policy="fixed:2")


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
    kept: int = 0
    is_lost: bool = False  # whether an accident comes before the shard is begun, and ends the worker

    @property
    def idle(self) -> int:
        return 1 - len(self.waiting)

    def keep(self) -> None:
        self.kept += 1

    def give(self, shard: Shard) -> None:
        self.waiting.append(shard)

    def wait(self, seconds: float) -> list[ShardOutcome]:
        if not self.waiting:
            return []
        shard = self.waiting.pop()
        if reason := self.accident(shard):
            return [ShardOutcome(shard, reason=reason, is_lost=self.is_lost)]
        said = outcome_of(self.worker, shard)
        self.done.append(f"{shard.input}/{shard.name}")
        return [ShardOutcome(shard, said.receipt, said.reason, said.is_held)]


def inline(accident: Callable[[Shard], str | None] = lambda shard: None, done: list[str] | None = None) -> Muster:
    """A crew of this process; `done` gets the names of the shards that it did."""

    @contextmanager
    def muster(job: ShardJob) -> Iterator[InlineCrew]:
        yield InlineCrew(ShardWorker(job), accident, done=[] if done is None else done)

    return muster


def expected(translator: Translator, lines: list[str], settings: BulkSettings = SMALL) -> bytes:
    found = translator.translate_lines(lines, settings.policy, settings.decoding)
    return "".join(f"{each.line}\n" for each in found).encode()


def lines_of(file: Path) -> list[str]:
    return list(open_lines(file))


def joined(result: BulkResult, name: str) -> bytes:
    return b"".join(each.read_bytes() for each in result.outputs(name))


def settings_with(**changes: object) -> BulkSettings:
    return replace(SMALL, **changes)  # type: ignore[arg-type]
