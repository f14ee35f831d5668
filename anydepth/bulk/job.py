"""Bulk translation: files of any size, cut into shards that workers translate wherever they are; a
job that was killed goes on with what is missing."""

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from anydepth.bulk.crew import Crew, Muster, ShardOutcome
from anydepth.bulk.inputs import Shard, find_inputs
from anydepth.bulk.job_folder import JobFolder, LineProblem, Receipt
from anydepth.bulk.local_crew import on_this_machine
from anydepth.bulk.planning import BulkPlan, BulkSettings, Survey, check_same, make_plan
from anydepth.errors import UsageError
from anydepth.files.locks import one_writer
from anydepth.inference.translator import Translator
from anydepth.messages.progress import ProgressBar
from anydepth.messages.say import Say, say_nothing
from anydepth.messages.times import describe_seconds

PAUSE = 1.0  # seconds between two looks at shards that others hold
REMINDER = 60.0  # seconds between two words about such a shard
MOST_UNBEGUN = 20  # times that a shard may be given to workers that are gone, before that counts as a try


@dataclass
class BulkResult:
    """What came of a job: what this call translated, what failed of all, and where its output is."""

    folder: Path
    inputs: list[str]
    records: int = 0  # translated by this call
    unique: int = 0
    truncated: int = 0
    seconds: float = 0.0
    failed_shards: dict[str, str] = field(default_factory=dict)  # reasons, by place
    failed_lines: dict[str, str] = field(default_factory=dict)

    @property
    def has_failed(self) -> bool:
        return bool(self.failed_shards or self.failed_lines)

    def outputs(self, name: str) -> list[Path]:
        """The output shards of an input, in the order of its lines."""
        folder = self.folder / "output" / name
        return sorted(each for each in folder.iterdir() if not each.name.startswith(".")) if folder.is_dir() else []

    def add(self, receipt: Receipt) -> None:
        """Counts a shard that this call translated."""
        self.records += receipt.records
        self.unique += receipt.unique
        self.truncated += receipt.truncated
        self.add_problems(receipt.input, receipt.problems)

    def add_problems(self, name: str, problems: Sequence[LineProblem]) -> None:
        """Notes the lines of a done shard that could not be translated."""
        self.failed_lines |= {f"{name} line {each.line:,}": each.reason for each in problems}


class BulkProgress(ProgressBar):
    """How many sentences are translated, by how many workers, and what failed."""

    def __init__(self, total: int, crew: Crew, result: BulkResult, say: Say) -> None:
        super().__init__(total, "sentences", say)
        self.crew, self.result = crew, result

    @property
    def text(self) -> str:
        """The state of things in one line."""
        failures = len(self.result.failed_shards) + len(self.result.failed_lines)
        return f"{super().text}  {self.crew.workers} workers  {failures} failures"


def translate_bulk(
    translator: Translator,
    inputs: Sequence[str | Path],
    to: Path,
    settings: BulkSettings | None = None,
    *,
    muster: Muster | None = None,
    say: Say = say_nothing,
) -> BulkResult:
    """Translates files (text, JSON lines, Parquet) into the folder `to`, as shards named by their
    input; the same call after a kill goes on, and a finished one does nothing.

    `muster` says where: `local_crew.py: on_this_machine`, which is the default, or `ray_crew.py:
    on_ray`. Joined, the output shards of a text are what `Translator.translate` gives, line by line.
    """
    if translator.run is None:
        raise UsageError("bulk work needs a run that workers can load; make the translator with Translator.load")
    files, to = find_inputs(inputs), Path(to)
    with one_writer(to):
        plan = make_plan(translator, files, to, settings or BulkSettings())
        begin(plan)
        survey = plan.survey(say)
        result = BulkResult(to, [each.name for each in files])
        for receipt in survey.receipts:
            result.add_problems(receipt.input, receipt.problems)
        if not survey.records:
            say(f"{to} has all of its {survey.shards:,} shards already; there is nothing to do")
            return result
        if survey.shards:
            say(f"{survey.shards:,} shards are done already; going on with the rest")
        started = time.monotonic()
        with (muster or on_this_machine(say=say))(plan.job) as crew:
            Dispatch(plan, survey, crew, result, say).go()
        result.seconds = time.monotonic() - started
        say(told(result))
    return result


def begin(plan: BulkPlan) -> None:
    """Writes the manifest of a new job; one that was begun must be the same."""
    folder = plan.folder
    begun = folder.read_manifest()
    if begun is not None:
        check_same(folder, begun, plan.manifest)
        return
    if folder.path.exists() and (not folder.path.is_dir() or has_files(folder.path)):
        raise UsageError(f"{folder.path} is there and is no folder of a bulk job; name another with --to")
    folder.write_manifest(plan.manifest)


def has_files(folder: Path) -> bool:
    """Whether there is more than hidden files, such as a kill leaves of a manifest half written."""
    return any(not each.name.startswith(".") for each in folder.iterdir())


class Dispatch:
    """The shards of a job on their way to workers and back."""

    def __init__(self, plan: BulkPlan, survey: Survey, crew: Crew, result: BulkResult, say: Say) -> None:
        self.plan, self.crew, self.result, self.say = plan, crew, result, say
        self.folder: JobFolder = plan.folder
        self.fresh: Iterator[Shard] = plan.shards(survey, meanwhile=crew.keep)
        self.again: deque[Shard] = deque()
        self.held: list[Shard] = []  # by processes of a job that was killed, which finish what they have
        self.told_of: dict[str, float] = {}  # when it was last said that a shard is held, by place
        self.given, self.has_begun = 0, False
        self.tries: Counter[str] = Counter()
        self.unbegun: Counter[str] = Counter()
        self.begun: dict[str, int] = {}  # how often a shard was begun before it was given, by place
        self.progress = BulkProgress(survey.records, crew, result, say)

    def go(self) -> None:
        """Until every shard is done or has failed too often."""
        with self.progress:
            while True:
                while self.crew.idle and (shard := self.next_shard()) is not None:
                    self.give(shard)
                if not self.given and not self.held and (shard := self.next_shard()) is not None:
                    self.again.appendleft(shard)  # there is work, and nobody yet to do it
                elif not self.given and not self.held:
                    return
                for outcome in self.crew.wait(PAUSE):
                    self.given -= 1
                    self.heard(outcome)
                self.look_at_held()

    def give(self, shard: Shard) -> None:
        """Hands a shard to a worker. The first shows that models are loaded: from then on time counts."""
        if not self.has_begun:
            self.has_begun, self.progress.started = True, time.monotonic()
        self.begun[shard.place] = self.folder.times_begun(shard)
        self.crew.give(shard)
        self.given += 1

    def next_shard(self) -> Shard | None:
        """A shard that nobody is at work on; those that are held are put aside."""
        while True:
            shard = self.again.popleft() if self.again else next(self.fresh, None)
            if shard is None:
                return None
            if self.folder.is_held(shard):
                self.put_aside(shard)
            elif (receipt := self.receipt(shard)) is not None:
                self.done(receipt)  # by such a process, a moment ago
            else:
                return shard

    def heard(self, outcome: ShardOutcome) -> None:
        """Notes what came of a shard."""
        shard = outcome.shard
        if outcome.receipt is not None:
            self.done(outcome.receipt)
        elif outcome.is_held:
            self.put_aside(shard)
        elif (receipt := self.receipt(shard)) is not None:
            self.done(receipt)  # the worker was lost after it had finished
        elif outcome.is_lost and not self.was_begun(shard):
            self.again.append(shard)
        else:
            self.tries[shard.place] += 1
            if self.tries[shard.place] < self.plan.settings.retries:
                self.say(f"{shard.place}: {outcome.reason}; trying again")
                self.again.append(shard)
            else:
                self.result.failed_shards[shard.place] = outcome.reason
                self.say(f"{shard.place} FAILED: {outcome.reason}; the others continue")
                self.progress.add(shard.records)

    def was_begun(self, shard: Shard) -> bool:
        """Whether the worker that had the shard began it; one that was gone before has not tried it."""
        self.unbegun[shard.place] += 1
        is_new = self.folder.times_begun(shard) > self.begun[shard.place]
        return is_new or self.unbegun[shard.place] > MOST_UNBEGUN

    def put_aside(self, shard: Shard) -> None:
        """Keeps a shard that another process is at work on, and says so every minute."""
        self.held.append(shard)
        now = time.monotonic()
        if now - self.told_of.get(shard.place, -REMINDER) >= REMINDER:
            self.told_of[shard.place] = now
            self.say(f"{shard.place} are held by {self.folder.holder(shard)}; waiting until it is done or let go")

    def look_at_held(self) -> None:
        """Takes up what others have finished, or have let go of."""
        held, self.held = self.held, []
        for shard in held:
            if self.folder.is_held(shard):
                self.put_aside(shard)
            elif (receipt := self.receipt(shard)) is not None:
                self.done(receipt)
            else:
                self.again.append(shard)

    def receipt(self, shard: Shard) -> Receipt | None:
        return self.folder.receipt(shard, self.plan.settings.form.ending(shard.kind), self.plan.job.manifest)[0]

    def done(self, receipt: Receipt) -> None:
        for problem in receipt.problems:
            self.say(f"{receipt.input} line {problem.line:,} FAILED: {problem.reason}")
        self.result.add(receipt)
        self.progress.add(receipt.records)


def told(result: BulkResult) -> str:
    """What this call did, in one line."""
    rate = result.records / max(result.seconds, 1e-9)
    cut = f", {result.truncated:,} longer than the model reads and cut" if result.truncated else ""
    return (
        f"{result.records:,} sentences ({result.unique:,} of them different within their shards{cut}) in "
        f"{describe_seconds(result.seconds)}, {rate:,.1f} a second; output in {result.folder / 'output'}"
    )
