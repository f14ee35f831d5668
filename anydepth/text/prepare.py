"""From parallel text to a folder of tokenizers, token files and references."""

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

from anydepth.errors import CorpusError
from anydepth.files import atomic
from anydepth.files.checksums import HashedFile, bytes_hash, file_hash
from anydepth.files.locks import one_writer
from anydepth.files.reading import json_of
from anydepth.files.seal import SEAL_NAME, Seal
from anydepth.messages.say import Say, say_nothing
from anydepth.text.corpus import PAIRS_AT_ONCE, PairFilter, read_blocks, read_pairs, side_path
from anydepth.text.encoding_process import EncodingRecipe
from anydepth.text.encoding_workers import encode_blocks
from anydepth.text.marian import AnyTokenizer, target_side, tokenizer_of
from anydepth.text.prepared import (
    CHECKED_AT_ONCE,
    LANGUAGE,
    MANIFEST_NAME,
    SUMS_ENDING,
    FileRecord,
    Manifest,
    PreparedData,
    SplitCounts,
    tokenizer_name,
)
from anydepth.text.tokenizer import Tokenizer, train_tokenizer
from anydepth.text.tokens import TokenWriter

DEFAULT_VOCAB_SIZE = 10_000
PAIRS_BETWEEN_REPORTS = 100_000


@dataclass(frozen=True, kw_only=True)
class PrepareSettings:
    """Where the text is and how it becomes tokens; `train`, `valid` and `test` are paths without
    the language ending.

    `tokenizer_from` is a run or a prepared folder whose vocabulary is used again; without it one of
    `vocab_size` pieces is learned.
    """

    source_lang: str
    target_lang: str
    train: str
    valid: str
    test: str | None = None
    vocab_size: int | None = None
    joint: bool = True
    max_tokens: int = 250
    max_ratio: float = 3.0
    sample: int = 1_000_000
    tokenizer_from: str | None = None

    def __post_init__(self) -> None:
        for option, language in (("--source-lang", self.source_lang), ("--target-lang", self.target_lang)):
            if not re.fullmatch(LANGUAGE, language):
                raise CorpusError(
                    f"{option} {language!r}: a language is letters, digits, - and _; write it as in 'de' or 'pt-BR'"
                )
        if self.source_lang == self.target_lang:
            raise CorpusError(f"--source-lang and --target-lang are both {self.source_lang!r}; name two different ones")
        if self.tokenizer_from is not None and self.vocab_size is not None:
            raise CorpusError(
                "a vocabulary that is used again (--tokenizer-from) has its size already; leave out --vocab-size"
            )
        if self.sample < 1:
            raise CorpusError(f"--sample {self.sample} leaves a tokenizer no lines to learn from; set it to 1 or more")
        _ = self.fit  # refuses limits that drop everything

    @property
    def fit(self) -> PairFilter:
        """The filter for training pairs."""
        return PairFilter(self.max_tokens, self.max_ratio)

    @property
    def prefixes(self) -> dict[str, str]:
        """The path of each split that is given."""
        given = {"train": self.train, "valid": self.valid, "test": self.test}
        return {split: str(prefix) for split, prefix in given.items() if prefix is not None}


def prepare(
    settings: PrepareSettings, to: Path, *, overwrite: bool = False, jobs: int = 1, say: Say = say_nothing
) -> Manifest:
    """The manifest of the folder `to`, which is there only once everything in it is written.

    Tokenizers are trained on the training text, or taken from elsewhere; unfit training pairs are
    dropped; valid and test keep every pair whole. Text is read as a stream, so memory does not grow
    with it. `jobs` processes encode it; their number does not show in what is written.
    """
    to = Path(os.path.realpath(to))
    with one_writer(to):
        return _prepared(settings, to, overwrite=overwrite, jobs=jobs, say=say)


def _prepared(settings: PrepareSettings, to: Path, *, overwrite: bool, jobs: int, say: Say) -> Manifest:
    """`prepare`, while no other process may write to the folder."""
    atomic.put_back(to)
    _check_place(to, overwrite=overwrite)
    languages = (settings.source_lang, settings.target_lang)
    for prefix in settings.prefixes.values():
        for language in languages:
            text = side_path(prefix, language)
            if text.resolve().is_relative_to(to):
                raise CorpusError(f"{text} lies inside {to}, which is about to be replaced; choose another --to")
    with atomic.replacing_folder(to) as folder:
        for split, prefix in settings.prefixes.items():
            if split != "train":  # first, because it finds their faults before the long work
                _write_references(split, prefix, languages, folder)
        known = settings.tokenizer_from is not None
        tokenizers = _known_tokenizers(settings, folder, say) if known else _train_tokenizers(settings, folder, say)
        splits: dict[str, SplitCounts] = {}
        hashed: dict[str, HashedFile] = {}
        for split, prefix in settings.prefixes.items():
            fit = settings.fit if split == "train" else None
            splits[split], written = _encode_split(
                split, prefix, tokenizers, folder, fit=fit, joint=settings.joint, jobs=jobs, say=say
            )
            hashed |= {file.path.name: file for file in written}
        sums = _write_sums(hashed.values())
        manifest = Manifest(
            source_lang=settings.source_lang,
            target_lang=settings.target_lang,
            joint=settings.joint,
            vocab_sizes={language: tokenizer.size for language, tokenizer in tokenizers.items()},
            splits=splits,
            files={
                path.name: FileRecord(
                    path.stat().st_size, hashed[path.name].sha256 if path.name in hashed else file_hash(path)
                )
                for path in sorted(folder.iterdir())
                if path.name not in sums
            },
            settings=asdict(settings),
            sums=sums,
        )
        atomic.write_text(folder / MANIFEST_NAME, manifest.to_json())
    return manifest


def _known_tokenizers(settings: PrepareSettings, folder: Path, say: Say) -> dict[str, AnyTokenizer]:
    """The tokenizers of a run or of a prepared folder, saved in the folder; they must be joint or
    separate as the settings say."""
    origin = Path(str(settings.tokenizer_from))
    is_run = (origin / SEAL_NAME).exists() or (origin / "data.json").exists()
    sides = _sides_of_run(origin) if is_run and not settings.joint else {}
    tokenizers: dict[str, AnyTokenizer] = {}
    for language in (settings.source_lang, settings.target_lang):
        own = f"tokenizer.{sides[language]}.model" if language in sides else tokenizer_name(language, joint=False)
        name = "tokenizer.model" if settings.joint else own
        if not (origin / name).exists():
            kind = "a joint vocabulary" if settings.joint else f"a vocabulary of its own for {language}"
            raise CorpusError(
                f"{origin} does not have {kind} (no {name}); name a run or prepared folder, and --joint or --separate"
            )
        data = Seal(origin).read(origin / name) if is_run else PreparedData.open(origin).contents(name)
        tokenizers[language] = tokenizer_of(data, origin / name)
        tokenizers[language].save(folder / tokenizer_name(language, joint=settings.joint))
    say(f"using the vocabulary of {origin}")
    source = tokenizers[settings.source_lang]
    return {**tokenizers, settings.target_lang: target_side(source)} if settings.joint else tokenizers


def _sides_of_run(folder: Path) -> dict[str, str]:
    """Which language is the source and which the target of the run at `folder`."""
    note = folder / "data.json"
    try:
        values = json_of(Seal(folder).read(note))
        return {values["source_lang"]: "source", values["target_lang"]: "target"}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorpusError(f"{note} does not tell the languages of the run; restore it from a copy") from error


def _train_tokenizers(settings: PrepareSettings, folder: Path, say: Say) -> dict[str, AnyTokenizer]:
    """The tokenizer of each language, saved in the folder; a joint one is the same object twice."""
    languages = (settings.source_lang, settings.target_lang)

    def train(name: str, lines: Iterator[str]) -> Tokenizer:
        pieces = DEFAULT_VOCAB_SIZE if settings.vocab_size is None else settings.vocab_size
        say(f"{name}: learning {pieces:,} pieces from at most {settings.sample:,} lines")
        tokenizer = train_tokenizer(
            lines, vocab_size=pieces, sample=settings.sample, say=lambda text: say(f"{name}: {text}")
        )
        tokenizer.save(folder / name)
        say(f"{name}: has {tokenizer.size:,} pieces")
        return tokenizer

    if settings.joint:
        both = chain.from_iterable(read_pairs(settings.train, *languages))
        return dict.fromkeys(languages, train(tokenizer_name("", joint=True), both))
    return {
        language: train(
            tokenizer_name(language, joint=False), (pair[side] for pair in read_pairs(settings.train, *languages))
        )
        for side, language in enumerate(languages)
    }


def _encode_split(
    split: str,
    prefix: str,
    tokenizers: Mapping[str, AnyTokenizer],
    folder: Path,
    *,
    fit: PairFilter | None,
    joint: bool,
    jobs: int,
    say: Say,
) -> tuple[SplitCounts, list[HashedFile]]:
    """Counts of one split and its token files, which it writes; without `fit` every pair is
    kept."""
    source_lang, target_lang = tokenizers
    dropped: Counter[str] = Counter()
    read = 0
    started = time.perf_counter()
    names = str(side_path(prefix, source_lang)), str(side_path(prefix, target_lang))
    recipe = EncodingRecipe(tokenizers[source_lang], tokenizers[target_lang], fit, joint, names)
    blocks = read_blocks(prefix, source_lang, target_lang, pairs_at_once=PAIRS_AT_ONCE)
    with (
        _token_writer(folder, split, source_lang, tokenizers[source_lang]) as source_writer,
        _token_writer(folder, split, target_lang, tokenizers[target_lang]) as target_writer,
        closing(encode_blocks(blocks, recipe, jobs=jobs)) as encoded,
    ):
        for block in encoded:
            source_writer.append_encoded(block.source)
            target_writer.append_encoded(block.target)
            dropped.update(block.dropped)
            read += block.read
            if read // PAIRS_BETWEEN_REPORTS > (read - block.read) // PAIRS_BETWEEN_REPORTS:
                say(f"{split}: {read:,} pairs read, {2 * read / (time.perf_counter() - started):,.0f} lines/s")
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(dropped.items())) or "none"
    if source_writer.sentences == 0:
        raise CorpusError(
            f"all {read:,} pairs of {prefix} were dropped ({reasons}); check that the files are translations of each "
            "other, or raise --max-tokens and --max-ratio"
        )
    say(f"{split}: {source_writer.sentences:,} pairs kept, dropped: {reasons}")
    counts = SplitCounts(
        pairs=source_writer.sentences,
        dropped=dict(sorted(dropped.items())),
        tokens={source_lang: source_writer.tokens, target_lang: target_writer.tokens},
    )
    return counts, [*source_writer.files, *target_writer.files]


def _token_writer(folder: Path, split: str, language: str, tokenizer: AnyTokenizer) -> TokenWriter:
    return TokenWriter(folder / f"{split}.{language}.tokens", folder / f"{split}.{language}.offsets", tokenizer.size)


def _write_sums(files: Iterable[HashedFile]) -> dict[str, FileRecord]:
    """The files, by their names, that it writes with the checksums of the blocks of each large
    one."""
    sums = {}
    for file in files:
        if file.size > CHECKED_AT_ONCE:
            path = file.path.with_name(file.path.name + SUMS_ENDING)
            atomic.write_bytes(path, file.block_sums)
            sums[path.name] = FileRecord(len(file.block_sums), bytes_hash(file.block_sums))
    return sums


def _write_references(split: str, prefix: str, languages: tuple[str, str], folder: Path) -> None:
    """Copies the text of one split as plain UTF-8 with one sentence per line."""
    source_lang, target_lang = languages
    with (
        open(folder / f"{split}.{source_lang}", "w", encoding="utf-8", newline="\n") as source_file,
        open(folder / f"{split}.{target_lang}", "w", encoding="utf-8", newline="\n") as target_file,
    ):
        for source, target in read_pairs(prefix, source_lang, target_lang):
            source_file.write(f"{source}\n")
            target_file.write(f"{target}\n")


def _check_place(to: Path, *, overwrite: bool) -> None:
    """Refuses a place that holds something, unless it is prepared data that may be replaced."""
    if not to.exists() or (to.is_dir() and not any(to.iterdir())):
        return
    if not (to / MANIFEST_NAME).is_file():
        raise CorpusError(f"{to} exists and is not prepared data, so it is never overwritten; choose another --to")
    if not overwrite:
        raise CorpusError(f"{to} already holds prepared data; choose another --to, or replace it with --overwrite")
