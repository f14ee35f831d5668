"""Bulk translation: files of any size, cut into shards that workers translate wherever they are; a
job that was killed goes on with what is missing."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from anydepth.bulk.crew import Crew, Muster, WorkOutcome
from anydepth.bulk.dispatch import REMINDER, Dispatch
from anydepth.bulk.inputs import Shard, find_inputs
from anydepth.bulk.job_folder import JobFolder, LineProblem, Receipt
from anydepth.bulk.local_crew import on_this_machine
from anydepth.bulk.planning import BulkPlan, BulkSettings, Survey, check_same, make_plan
from anydepth.errors import UsageError
from anydepth.files.locks import one_writer
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say, say_nothing
from anydepth.messages.times import describe_seconds

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
        with (muster or on_this_machine(say=say))(plan.job, survey.pieces) as crew:
            ShardDispatch(plan, survey, crew, result, say).go()
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


class ShardDispatch(Dispatch[Shard, Receipt]):
    """The shards of a job on their way to workers and back. Processes of a job that was killed finish
    what they have; what they hold is waited for."""

    def __init__(
        self, plan: BulkPlan, survey: Survey, crew: Crew[Shard, Receipt], result: BulkResult, say: Say
    ) -> None:
        shards, retries = plan.shards(survey, meanwhile=crew.keep), plan.settings.retries
        super().__init__(shards, crew, self.note, total=survey.records, retries=retries, say=say)
        self.plan, self.result, self.failed = plan, result, result.failed_shards
        self.folder: JobFolder = plan.folder
        self.held: list[Shard] = []
        self.told_of: dict[str, float] = {}  # when it was last said that a shard is held, by place
        self.unbegun: Counter[str] = Counter()
        self.begun: dict[str, int] = {}  # how often a shard was begun before it was given, by place

    @property
    def failures(self) -> int:
        return len(self.result.failed_shards) + len(self.result.failed_lines)

    @property
    def is_waiting(self) -> bool:
        return super().is_waiting or bool(self.held)

    def give(self, piece: Shard) -> None:
        self.begun[piece.place] = self.folder.times_begun(piece)
        super().give(piece)

    def next_piece(self) -> Shard | None:
        """A shard that nobody is at work on; those that are held are put aside."""
        while (shard := super().next_piece()) is not None:
            if self.folder.is_held(shard):
                self.put_aside(shard)
            elif (receipt := self.receipt(shard)) is not None:
                self.done(shard, receipt)  # by such a process, a moment ago
            else:
                return shard
        return None

    def listen(self) -> None:
        super().listen()
        self.look_at_held()

    def heard(self, outcome: WorkOutcome[Shard, Receipt]) -> None:
        """Notes what came of a shard, which may be done or with others although its worker has
        nothing to show."""
        shard = outcome.piece
        if outcome.is_held:
            self.put_aside(shard)
        elif outcome.made is None and (receipt := self.receipt(shard)) is not None:
            self.done(shard, receipt)  # the worker was lost after it had finished
        elif outcome.is_lost and not self.was_begun(shard):
            self.again.append(shard)
        else:
            super().heard(outcome)

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
                self.done(shard, receipt)
            else:
                self.again.append(shard)

    def receipt(self, shard: Shard) -> Receipt | None:
        return self.folder.receipt(shard, self.plan.settings.form.ending(shard.kind), self.plan.job.manifest)[0]

    def note(self, shard: Shard, receipt: Receipt) -> None:
        """Counts a shard that is done, and tells the lines that failed."""
        for problem in receipt.problems:
            self.say(f"{receipt.input} line {problem.line:,} FAILED: {problem.reason}")
        self.result.add(receipt)


def told(result: BulkResult) -> str:
    """What this call did, in one line."""
    rate = result.records / max(result.seconds, 1e-9)
    cut = f", {result.truncated:,} longer than the model reads and cut" if result.truncated else ""
    return (
        f"{result.records:,} sentences ({result.unique:,} of them different within their shards{cut}) in "
        f"{describe_seconds(result.seconds)}, {rate:,.1f} a second; output in {result.folder / 'output'}"
    )
