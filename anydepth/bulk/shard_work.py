"""The work on one shard, the same wherever it is done: a worker loads the model once and translates
shards one after the other."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from anydepth.bulk.crew import CrewJob
from anydepth.bulk.inputs import Shard
from anydepth.bulk.job_folder import MOST_PROBLEMS, JobFolder, Receipt, output_record
from anydepth.bulk.rows import RowFormat, rows_of
from anydepth.errors import AnydepthError, Interrupted
from anydepth.exits.policies import Policy
from anydepth.files.checksums import known_hash
from anydepth.inference.translator import Translation, Translator
from anydepth.runs.fingerprints import selection_fingerprint, weights_fingerprint
from anydepth.runs.run import Run
from anydepth.search.decoding import DecodingOptions
from anydepth.vocabulary.names import FULL


@dataclass(frozen=True, kw_only=True)
class ShardJob(CrewJob[Shard, Receipt]):
    """The job of translating shards: the model, the search, and the folder that its output goes to."""

    leaves_product: ClassVar[bool] = True

    run: Path
    folder: Path
    engine: str
    int8: bool
    policy: str
    beam: int | None
    length_penalty: float | None
    batch_tokens: int | None
    best: int | None
    vocabulary: str | None
    form: RowFormat
    model: dict[str, str]
    manifest: str = ""  # the fingerprint of the whole manifest

    def loaded(self) -> Callable[[Shard], Receipt]:
        return ShardWorker(self).do

    @property
    def decoding(self) -> DecodingOptions:
        return DecodingOptions(
            beam=self.beam,
            length_penalty=self.length_penalty,
            batch_tokens=self.batch_tokens,
            best=self.best,
            vocabulary=self.vocabulary,
        )


class ShardWorker:
    """A loaded model that translates shards."""

    def __init__(self, job: ShardJob) -> None:
        self.job, self.folder = job, JobFolder(job.folder)
        self.translator = Translator.load(job.run, engine=job.engine, int8=job.int8, threads=job.threads)
        assert self.translator.run is not None, "it was loaded from one"
        if model_record(self.translator.run, job.vocabulary or FULL) != job.model:
            raise AnydepthError(f"{job.run} is another model for a worker than for the job; begin again when it rests")
        self.policy = self.translator.policy(job.policy)

    def do(self, shard: Shard) -> Receipt:
        """Translates the shard and leaves its output and receipt in the folder of the job."""
        self._check_job()
        with self.folder.beginning(shard) as attempt:
            rows = rows_of(shard, self.job.form)
            check_problems(rows.problems)
            lines = list(dict.fromkeys(source for source in rows.sources if source is not None))
            found, failed = patiently_translated(self.translator, lines, self.policy, self.job.decoding)
            known = dict(zip(lines, found, strict=True))
            translations = [None if source is None else known[source] for source in rows.sources]
            for number, source in enumerate(rows.sources):
                if source in failed:
                    rows.problems[number] = failed[source]
            data = rows.written(translations)
            receipt = output_record(
                shard,
                data,
                attempt=attempt,
                unique=len(lines),
                truncated=sum(each is not None and each.was_truncated for each in translations),
                problems=rows.problems,
                manifest=self.job.manifest,
            )
            self._check_job()
            self.folder.finish(shard, self.job.form.ending(shard.kind), data, receipt)
        return receipt

    def _check_job(self) -> None:
        """Refuses to write where another job was begun, or none is any more."""
        found = self.folder.read_manifest()
        if found is None or found.fingerprint != self.job.manifest:
            raise AnydepthError(f"{self.folder.path} is not of this job any more")


def model_record(run: Run, vocabulary: str) -> dict[str, str]:
    """What distinguishes the model from all others: weights, tokenizers and word selection."""
    tokenizers = sorted(run.folder.glob("tokenizer*.model"))
    return {
        "weights": weights_fingerprint(run),
        **{file.name: known_hash(file) for file in tokenizers},
        "words": selection_fingerprint(run, vocabulary),
    }


def patiently_translated(
    translator: Translator, lines: Sequence[str], policy: Policy, decoding: DecodingOptions
) -> tuple[list[Translation | None], dict[str, str]]:
    """The translations, and the reasons of lines that have none.

    Where lines cannot be translated together, their halves are tried, down to single lines, which
    are tried twice. Too many such lines, or no memory, is a failure of all.
    """
    failed: dict[str, str] = {}

    def attempt(part: Sequence[str]) -> list[Translation | None]:
        try:
            return list(translator.translate_lines(part, policy, decoding))
        except (MemoryError, OSError, Interrupted):
            raise
        except Exception:  # of any library, on a line that nobody foresaw: its place is reported
            if len(part) > 1:
                half = len(part) // 2
                return attempt(part[:half]) + attempt(part[half:])
            return [alone(part[0])]

    def alone(line: str) -> Translation | None:
        try:
            return translator.translate_lines([line], policy, decoding)[0]
        except (MemoryError, OSError, Interrupted):
            raise
        except Exception as error:
            failed[line] = f"it cannot be translated: {str(error) or type(error).__name__}"
            check_problems(failed)
            return None

    return attempt(lines), failed


def check_problems(problems: Mapping[Any, str]) -> None:
    """Gives a shard up of which many lines fail: then it is not the lines."""
    if len(problems) > MOST_PROBLEMS:
        raise AnydepthError(
            f"more than {MOST_PROBLEMS} of its lines fail, the first because {next(iter(problems.values()))}"
        )
