"""Text for distilled runs: the training sources with the translations of a trained run in place of
the references (Kim & Rush, 2016), or beside them."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from anydepth import __version__
from anydepth.bulk.job import translate_bulk
from anydepth.bulk.own_process import in_this_process
from anydepth.bulk.planning import BulkSettings
from anydepth.errors import AnydepthError
from anydepth.files.atomic import replacing
from anydepth.files.checksums import bytes_hash
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say
from anydepth.runs.fingerprints import weights_fingerprint
from anydepth.text.corpus import open_lines
from anydepth.text.prepare import PrepareSettings, prepare
from anydepth.text.prepared import PreparedData

PART = 2000  # sentences that are lost where a kill comes before the next are kept


def distilled_data(teacher: Path, data: PreparedData, to: Path, *, say: Say) -> None:
    """Prepared data at `to` in the vocabulary of `data`, whose training targets are what the run
    `teacher` says at full depth. After a kill the same call goes on with what is missing."""
    sources, _ = training_lines(data)
    source_file, translator = text_file(to, data.source_lang), Translator.load(teacher)
    write_lines(source_file, sources)
    job = source_file.with_name(f"translating-{job_mark(translator, data)}")
    for other in set(job.parent.glob("translating-*")) - {job}:  # of a teacher that was trained again since
        shutil.rmtree(other)
    result = translate_bulk(
        translator, [source_file], job, BulkSettings(shard_lines=PART), muster=in_this_process, say=say
    )
    if result.has_failed:
        place, reason = next(iter((result.failed_shards | result.failed_lines).items()))
        raise AnydepthError(f"{place} could not be translated by {teacher}: {reason}")
    targets = [line for shard in result.outputs(source_file.name) for line in open_lines(shard)]
    prepare_like(data, sources, targets, to, say=say)
    shutil.rmtree(job)


def job_mark(translator: Translator, data: PreparedData) -> str:
    """What tells translations of a text by a run from those by another one, or of another text."""
    assert translator.run is not None
    parts = (__version__, translator.engine.name, weights_fingerprint(translator.run), data.fingerprint)
    return bytes_hash(" ".join(parts).encode())[:16]


def joined_data(data: PreparedData, distilled: PreparedData, to: Path, *, say: Say) -> None:
    """Prepared data at `to` in the vocabulary of `data`, whose training pairs are those of `data` and
    then those of `distilled`."""
    own, others = training_lines(data), training_lines(distilled)
    prepare_like(data, [*own[0], *others[0]], [*own[1], *others[1]], to, say=say)


def training_lines(data: PreparedData) -> tuple[list[str], list[str]]:
    """The sources and the targets of the training pairs as text."""
    pairs = data.pairs("train")
    sources = [data.source_tokenizer.decode(pairs.source(number).tolist()) for number in range(len(pairs))]
    targets = [data.target_tokenizer.decode(pairs.target(number).tolist()) for number in range(len(pairs))]
    return sources, targets


def prepare_like(data: PreparedData, sources: Sequence[str], targets: Sequence[str], to: Path, *, say: Say) -> None:
    """Prepares these training pairs at `to` in the way and in the vocabulary of `data`, with its
    held-out text."""
    for language, lines in ((data.source_lang, sources), (data.target_lang, targets)):
        write_lines(text_file(to, language), lines)
    train = str(text_file(to, data.source_lang).with_suffix(""))
    valid, test = str(data.folder / "valid"), str(data.folder / "test")
    limits = {name: data.manifest.settings[name] for name in ("max_tokens", "max_ratio")}
    settings = PrepareSettings(
        source_lang=data.source_lang,
        target_lang=data.target_lang,
        train=train,
        valid=valid,
        test=test,
        joint=data.is_joint,
        **limits,
        tokenizer_from=str(data.folder),
    )
    prepare(settings, to, overwrite=True, say=say)


def text_file(to: Path, language: str) -> Path:
    """The training text in one language from which the data at `to` is prepared."""
    return to.parent / f"{to.name}.text" / f"train.{language}"


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """Leaves the lines at `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
