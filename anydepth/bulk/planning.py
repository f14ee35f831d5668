"""The plan of a bulk job: what it is, what of it is done already, and what is missing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from anydepth.bulk.dispatch import RETRIES
from anydepth.bulk.inputs import SHARD_LINES, BulkInput, Shard, require_parquet
from anydepth.bulk.job_folder import FORMAT, InputRecord, JobFolder, JobManifest, Receipt
from anydepth.bulk.rows import RowFormat, check_columns
from anydepth.bulk.shard_work import ShardJob, model_record
from anydepth.errors import CorpusError, UsageError
from anydepth.exits.policies import Policy
from anydepth.files.checksums import file_hash
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say
from anydepth.search.decoding import AS_CONFIGURED, DecodingOptions
from anydepth.vocabulary.names import FULL

AS_TEXT = RowFormat()
INT8 = "-int8"


@dataclass(frozen=True, kw_only=True)
class BulkSettings:
    """How a bulk job translates and what it writes; `policy` is full depth if None, and a shard is
    given out at most `retries` times."""

    policy: Policy | str | None = None
    decoding: DecodingOptions = AS_CONFIGURED
    form: RowFormat = AS_TEXT
    shard_lines: int = SHARD_LINES
    retries: int = RETRIES

    def __post_init__(self) -> None:
        for name, value in (("--shard-lines", self.shard_lines), ("--retries", self.retries)):
            if value < 1:
                raise UsageError(f"{name} {value} must be 1 or more")


@dataclass
class Survey:
    """What is done of a job and what is missing: the first lines of missing shards, by input."""

    missing: dict[str, set[int]] = field(default_factory=dict)
    records: int = 0  # that are missing
    shards: int = 0  # that are done
    receipts: list[Receipt] = field(default_factory=list)  # of done shards with lines that failed

    @property
    def pieces(self) -> int:
        """How many shards are missing."""
        return sum(len(firsts) for firsts in self.missing.values())


@dataclass(frozen=True)
class BulkPlan:
    """A job: its folder, its inputs as they are now, and what its workers have to know."""

    folder: JobFolder
    inputs: Sequence[BulkInput]
    manifest: JobManifest
    job: ShardJob
    settings: BulkSettings
    marks: dict[str, tuple[int, int]]  # size and time of each input, which must not change meanwhile

    def shards(self, survey: Survey, *, meanwhile: Callable[[], None]) -> Iterator[Shard]:
        """The missing shards, with what is in them; one input at a time is open. `meanwhile` is called
        for those that are passed over."""
        for each in self.inputs:
            if survey.missing[each.name]:
                for shard in each.shards(shard_lines=self.settings.shard_lines):
                    if shard.first in survey.missing[each.name]:
                        yield shard
                    else:
                        meanwhile()
                if mark_of(each.path) != self.marks[each.name]:
                    raise CorpusError(
                        f"{each.path} was changed while it was translated; begin again in another folder than "
                        f"{self.folder.path}"
                    )

    def survey(self, say: Say) -> Survey:
        """What is done; what is there and cannot be used is named, and counts as missing."""
        found = Survey()
        for each in self.inputs:
            ending, names = self.settings.form.ending(each.kind), set[str]()
            missing = found.missing.setdefault(each.name, set())
            for shard in each.shards(shard_lines=self.settings.shard_lines):
                names.add(f"{shard.name}{ending}")
                receipt, reason = self.folder.receipt(shard, ending, self.job.manifest)
                if receipt is None:
                    missing.add(shard.first)
                    found.records += shard.records
                    if reason and not self.folder.is_held(shard):
                        say(f"{reason}; {shard.place} are translated again")
                    continue
                found.shards += 1
                if receipt.problems:
                    found.receipts.append(receipt)
            self.folder.check_nothing_else(each.name, names)
        return found


def make_plan(translator: Translator, inputs: Sequence[BulkInput], to: Path, settings: BulkSettings) -> BulkPlan:
    """The plan of a job; inputs and settings that cannot be used are refused."""
    assert translator.run is not None, "a translator of a run"
    policy = settings.policy
    named = (translator.policy(policy) if policy is None or isinstance(policy, str) else policy).name
    decoding, engine = settings.decoding, translator.engine.name
    vocabulary = vocabulary_name(translator, decoding)
    job = ShardJob(
        run=translator.run.folder.resolve(),
        folder=to.resolve(),
        engine=engine.removesuffix(INT8),
        int8=engine.endswith(INT8),
        policy=named,
        beam=decoding.beam,
        length_penalty=decoding.length_penalty,
        batch_tokens=decoding.batch_tokens,
        best=decoding.best,
        vocabulary=vocabulary,
        form=settings.form,
        model=model_record(translator.run, vocabulary),
    )
    marks = {each.name: mark_of(each.path) for each in inputs}
    manifest = JobManifest(
        format=FORMAT,
        version=job.version,
        model=job.model,
        settings=settings_record(translator, job, settings),
        inputs=[input_record(each, settings) for each in inputs],
    )
    job = replace(job, manifest=manifest.fingerprint)
    return BulkPlan(JobFolder(to), inputs, manifest, job, settings, marks)


def vocabulary_name(translator: Translator, decoding: DecodingOptions) -> str:
    """The vocabulary setting that the search will use, so that no worker has to find out."""
    words = translator.search_settings(decoding).words
    return FULL if words is None else words.name


def settings_record(translator: Translator, job: ShardJob, settings: BulkSettings) -> dict[str, str]:
    """All that the output depends on beside model and inputs, by the names of the options."""
    search = translator.search_settings(job.decoding)
    values = {
        "policy": job.policy,
        "engine": translator.engine.name,
        "vocabulary": job.vocabulary,
        "beam": search.beam,
        "length-penalty": search.length_penalty,
        "length_ratio": search.length_ratio,
        "length_offset": search.length_offset,
        "early_stopping": search.early_stopping,
        "batch-tokens": search.batch_tokens,
        "best": search.best,
        "shard-lines": settings.shard_lines,
        "json": settings.form.as_json,
        "field": settings.form.field,
        "into": settings.form.into,
    }
    return {name: str(value) for name, value in values.items()}


def input_record(each: BulkInput, settings: BulkSettings) -> InputRecord:
    """The input as it is now, read once from beginning to end."""
    records = shards = 0
    if each.kind == "parquet":
        _, parquet = require_parquet()
        next(each.shards(shard_lines=settings.shard_lines), None)  # refuses what is no Parquet
        check_columns(parquet.read_schema(each.path), settings.form, each.name)
    for shard in each.shards(shard_lines=settings.shard_lines):
        records, shards = records + shard.records, shards + 1
    return InputRecord(each.name, each.kind, each.path.stat().st_size, file_hash(each.path), records, shards)


def check_same(folder: JobFolder, begun: JobManifest, now: JobManifest) -> None:
    """Refuses to go on with a job that was begun with another model, other settings or other
    inputs."""
    cure = f"give what it was begun with, or another folder than {folder.path} for --to"
    for name, before, after in (("format", begun.format, now.format), ("version", begun.version, now.version)):
        if before != after:
            raise UsageError(f"{folder.path} was begun with anydepth's {name} {before}, and this is {after}; {cure}")
    if begun.model != now.model:
        changed = next(name for name in begun.model | now.model if begun.model.get(name) != now.model.get(name))
        raise UsageError(f"{folder.path} was begun with another model (its {changed} differs); {cure}")
    for name in begun.settings | now.settings:
        before_it, after_it = begun.settings.get(name), now.settings.get(name)
        if before_it != after_it:
            raise UsageError(f"{folder.path} was begun with {name} = {before_it}, and this is {after_it}; {cure}")
    old, new = ({each.name: asdict(each) for each in one.inputs} for one in (begun, now))
    if list(old) != list(new):
        raise UsageError(f"{folder.path} was begun with the inputs {', '.join(old)}, not {', '.join(new)}; {cure}")
    for name, record in old.items():
        if record != new[name]:
            raise UsageError(f"{name} was changed since {folder.path} was begun (its checksum differs); {cure}")


def mark_of(path: Path) -> tuple[int, int]:
    """What changes when somebody writes to the file."""
    about = path.stat()
    return about.st_size, about.st_mtime_ns
