"""From parallel text to a folder of tokenizers, memory-mapped token files and references, and back from that folder."""

import hashlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from anydepth import atomic
from anydepth.checksums import bytes_hash, checked_object, file_hash, known_hash, with_checksum
from anydepth.errors import CorpusError
from anydepth.locks import one_writer
from anydepth.reading import MEDIUM, json_of, read_bytes
from anydepth.seal import SEAL_NAME, Seal
from anydepth.text.corpus import PairFilter, read_pairs, side_path
from anydepth.text.tokenizer import Tokenizer, train_tokenizer
from anydepth.text.tokens import OFFSET_TYPE, TokenPairs, TokenSide, TokenWriter, token_type

FORMAT = 2
LANGUAGE = r"[A-Za-z0-9_-]+"
MANIFEST_NAME = "manifest.json"
DEFAULT_VOCAB_SIZE = 10_000
PAIRS_AT_ONCE = 10_000
PAIRS_BETWEEN_REPORTS = 100_000


@dataclass(frozen=True)
class PrepareSettings:
    """Where the text is and how it becomes tokens; `train`, `valid` and `test` are paths without the language ending.

    `tokenizer_from` is a run or a prepared folder whose vocabulary is used again; without it one of `vocab_size` pieces is learned.
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
                raise CorpusError(f"{option} {language!r}: a language is letters, digits, - and _; write it as in 'de' or 'pt-BR'")
        if self.source_lang == self.target_lang:
            raise CorpusError(f"--source-lang and --target-lang are both {self.source_lang!r}; name two different ones")
        if self.tokenizer_from is not None and self.vocab_size is not None:
            raise CorpusError("a vocabulary that is used again (--tokenizer-from) has its size already; leave out --vocab-size")
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


@dataclass(frozen=True)
class SplitCounts:
    """What became of the pairs of one split: kept, dropped by reason, and tokens of the kept ones by language."""

    pairs: int
    dropped: dict[str, int]
    tokens: dict[str, int]


@dataclass(frozen=True)
class FileRecord:
    """Size and SHA-256 of one file."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The contents of a prepared folder; every other file in it is listed with its size and hash."""

    source_lang: str
    target_lang: str
    joint: bool
    vocab_sizes: dict[str, int]
    splits: dict[str, SplitCounts]
    files: dict[str, FileRecord]
    settings: dict[str, Any]

    def to_json(self) -> str:
        """The text of manifest.json."""
        return json.dumps(with_checksum({"format": FORMAT, **asdict(self)}), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Manifest":
        """The manifest whose JSON object this is; a ValueError tells what cannot be."""
        fields = {name: value for name, value in values.items() if name != "format"}
        try:
            manifest = TypeAdapter(cls).validate_json(json.dumps(fields), strict=True)
        except ValidationError as error:
            problem = error.errors()[0]
            raise ValueError(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}") from error
        manifest.check()
        return manifest

    def check(self) -> None:
        """A ValueError where what the manifest tells cannot be true of any folder that `prepare` wrote."""
        if not all(re.fullmatch(LANGUAGE, name) for name in self.languages) or self.source_lang == self.target_lang:
            raise ValueError(f"its languages are {self.source_lang!r} and {self.target_lang!r}")
        if odd := [name for name in self.files if name != Path(name).name or name in ("", ".", "..") or "\\" in name or "\0" in name]:
            raise ValueError(f"{odd[0]!r} is not the name of a file in the folder")
        if set(self.vocab_sizes) != set(self.languages):
            raise ValueError(f"it has vocabulary sizes of {', '.join(self.vocab_sizes)}")
        for language in self.languages:
            self._size_of(tokenizer_name(language, joint=self.joint))
            for split, counts in self.splits.items():
                if split != "train":
                    self._size_of(f"{split}.{language}")
                sizes = {
                    "offsets": OFFSET_TYPE.itemsize * (counts.pairs + 1),
                    "tokens": token_type(self.vocab_sizes[language]).itemsize * counts.tokens.get(language, -1),
                }
                for kind, size in sizes.items():
                    if self._size_of(f"{split}.{language}.{kind}") != size:
                        raise ValueError(f"{split}.{language}.{kind} must have {size:,} bytes for {counts.pairs:,} pairs")

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.source_lang, self.target_lang

    def _size_of(self, name: str) -> int:
        if name not in self.files:
            raise ValueError(f"it does not list {name}")
        return self.files[name].size

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all but the settings, so that the same data prepared from another place is the same data."""
        contents = {name: value for name, value in asdict(self).items() if name != "settings"}
        return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


class PreparedData:
    """A folder that `prepare` wrote; `open` checks its manifest and file sizes, and every file is checked when it is first used."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self.source_lang = manifest.source_lang
        self.target_lang = manifest.target_lang
        self.is_joint = manifest.joint
        self.fingerprint = manifest.fingerprint
        self.source_tokenizer = self._tokenizer(self.source_lang)
        self.target_tokenizer = self.source_tokenizer if self.is_joint else self._tokenizer(self.target_lang)

    @classmethod
    def open(cls, folder: Path) -> "PreparedData":
        """The prepared data in `folder`; a file that is missing or of another size is refused."""
        folder = Path(folder)
        atomic.put_back(folder)
        manifest = _read_manifest(folder)
        for name, record in manifest.files.items():
            path = folder / name
            if not path.is_file():
                raise CorpusError(f"{path} is missing; prepare the data again")
            if path.stat().st_size != record.size:
                raise CorpusError(f"{path} has {path.stat().st_size:,} bytes but the manifest says {record.size:,}; prepare the data again")
        return cls(folder, manifest)

    def verify(self) -> None:
        """Refuses a file whose SHA-256 is not the manifest's; reads all those that this process has not read yet."""
        for name in self.manifest.files:
            self._check_file(name)

    def pairs(self, split: str) -> TokenPairs:
        """The token pairs of "train", "valid" or "test", mapped into memory."""
        self._check_split(split, tuple(self.manifest.splits))
        for language in (self.source_lang, self.target_lang):
            for kind in ("tokens", "offsets"):
                self._check_file(f"{split}.{language}.{kind}")
        source, target = (
            TokenSide.open(
                self.folder / f"{split}.{language}.tokens",
                self.folder / f"{split}.{language}.offsets",
                self.manifest.vocab_sizes[language],
            )
            for language in (self.source_lang, self.target_lang)
        )
        return TokenPairs(source, target)

    def references(self, split: str) -> tuple[list[str], list[str]]:
        """Source and target lines of "valid" or "test", as they were before tokenization."""
        self._check_split(split, tuple(name for name in self.manifest.splits if name != "train"))
        source, target = (
            self.contents(f"{split}.{language}").decode("utf-8").split("\n")[:-1] for language in (self.source_lang, self.target_lang)
        )
        return source, target

    def _tokenizer(self, language: str) -> Tokenizer:
        name = tokenizer_name(language, joint=self.is_joint)
        tokenizer = Tokenizer.from_bytes(self.contents(name), self.folder / name)
        if tokenizer.size != self.manifest.vocab_sizes[language]:
            told = f"{tokenizer.size:,} pieces, but {MANIFEST_NAME} says {self.manifest.vocab_sizes[language]:,}"
            raise CorpusError(f"{self.folder / name} has {told}; prepare the data again")
        return tokenizer

    def _check_file(self, name: str) -> None:
        if known_hash(self.folder / name) != self.manifest.files[name].sha256:
            raise self._changed(name)

    def contents(self, name: str) -> bytes:
        """The contents of a file, which must be those that the manifest lists."""
        data = (self.folder / name).read_bytes()
        if bytes_hash(data) != self.manifest.files[name].sha256:
            raise self._changed(name)
        return data

    def _changed(self, name: str) -> CorpusError:
        return CorpusError(f"{self.folder / name} has changed since it was prepared (SHA-256 differs); prepare the data again")

    def _check_split(self, split: str, known: tuple[str, ...]) -> None:
        if split not in known:
            raise CorpusError(f"{self.folder} holds no {split!r} text to read, only {', '.join(known)}; ask for one of these")


def prepare(settings: PrepareSettings, to: Path, *, overwrite: bool = False, report: Callable[[str], None] = lambda line: None) -> Manifest:
    """The manifest of the folder `to`, which is there only once everything in it is written.

    Tokenizers are trained on the training text, or taken from elsewhere; unfit training pairs are dropped; valid and test keep every
    pair whole. Text is read as a stream, so memory does not grow with it.
    """
    to = Path(os.path.realpath(to))
    with one_writer(to):
        return _prepared(settings, to, overwrite=overwrite, report=report)


def _prepared(settings: PrepareSettings, to: Path, *, overwrite: bool, report: Callable[[str], None]) -> Manifest:
    """`prepare` for the one who writes to the folder."""
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
        tokenizers = _known_tokenizers(settings, folder, report) if known else _train_tokenizers(settings, folder, report)
        splits = {
            split: _encode_split(split, prefix, tokenizers, folder, fit=settings.fit if split == "train" else None, report=report)
            for split, prefix in settings.prefixes.items()
        }
        manifest = Manifest(
            source_lang=settings.source_lang,
            target_lang=settings.target_lang,
            joint=settings.joint,
            vocab_sizes={language: tokenizer.size for language, tokenizer in tokenizers.items()},
            splits=splits,
            files={path.name: FileRecord(path.stat().st_size, file_hash(path)) for path in sorted(folder.iterdir())},
            settings=asdict(settings),
        )
        atomic.write_text(folder / MANIFEST_NAME, manifest.to_json())
    return manifest


def tokenizer_name(language: str, *, joint: bool) -> str:
    """The file name of the tokenizer of `language` in a prepared folder."""
    return "tokenizer.model" if joint else f"tokenizer.{language}.model"


def _known_tokenizers(settings: PrepareSettings, folder: Path, report: Callable[[str], None]) -> dict[str, Tokenizer]:
    """The tokenizers of a run or of a prepared folder, saved in the folder; they must be joint or separate as the settings say."""
    origin = Path(str(settings.tokenizer_from))
    is_run = (origin / SEAL_NAME).exists() or (origin / "data.json").exists()
    sides = _sides_of_run(origin) if is_run and not settings.joint else {}
    tokenizers = {}
    for language in (settings.source_lang, settings.target_lang):
        own = f"tokenizer.{sides[language]}.model" if language in sides else tokenizer_name(language, joint=False)
        name = "tokenizer.model" if settings.joint else own
        if not (origin / name).exists():
            kind = "a joint vocabulary" if settings.joint else f"a vocabulary of its own for {language}"
            raise CorpusError(f"{origin} does not have {kind} (no {name}); name a run or prepared folder, and --joint or --separate")
        data = Seal(origin).read(origin / name) if is_run else PreparedData.open(origin).contents(name)
        tokenizers[language] = Tokenizer.from_bytes(data, origin / name)
        tokenizers[language].save(folder / tokenizer_name(language, joint=settings.joint))
    report(f"using the vocabulary of {origin}")
    return dict.fromkeys(tokenizers, tokenizers[settings.source_lang]) if settings.joint else tokenizers


def _sides_of_run(folder: Path) -> dict[str, str]:
    """Which language is the source and which the target of the run at `folder`."""
    note = folder / "data.json"
    try:
        values = json_of(Seal(folder).read(note))
        return {values["source_lang"]: "source", values["target_lang"]: "target"}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorpusError(f"{note} does not tell the languages of the run; restore it from a copy") from error


def _train_tokenizers(settings: PrepareSettings, folder: Path, report: Callable[[str], None]) -> dict[str, Tokenizer]:
    """The tokenizer of each language, saved in the folder; a joint one is the same object twice."""
    languages = (settings.source_lang, settings.target_lang)

    def train(name: str, lines: Iterator[str]) -> Tokenizer:
        pieces = DEFAULT_VOCAB_SIZE if settings.vocab_size is None else settings.vocab_size
        report(f"{name}: learning {pieces:,} pieces from at most {settings.sample:,} lines")
        tokenizer = train_tokenizer(lines, vocab_size=pieces, sample=settings.sample, report=lambda text: report(f"{name}: {text}"))
        tokenizer.save(folder / name)
        report(f"{name}: has {tokenizer.size:,} pieces")
        return tokenizer

    if settings.joint:
        both = chain.from_iterable(read_pairs(settings.train, *languages))
        return dict.fromkeys(languages, train(tokenizer_name("", joint=True), both))
    return {
        language: train(tokenizer_name(language, joint=False), (pair[side] for pair in read_pairs(settings.train, *languages)))
        for side, language in enumerate(languages)
    }


def _encode_split(
    split: str,
    prefix: str,
    tokenizers: Mapping[str, Tokenizer],
    folder: Path,
    *,
    fit: PairFilter | None,
    report: Callable[[str], None],
) -> SplitCounts:
    """Counts of one split, whose token files it writes; without `fit` every pair is kept."""
    source_lang, target_lang = tokenizers
    dropped: Counter[str] = Counter()
    read = 0
    started = time.perf_counter()
    with (
        _token_writer(folder, split, source_lang, tokenizers[source_lang]) as source_writer,
        _token_writer(folder, split, target_lang, tokenizers[target_lang]) as target_writer,
    ):
        stream = read_pairs(prefix, source_lang, target_lang)
        while pairs := list(islice(stream, PAIRS_AT_ONCE)):
            sources, targets = zip(*pairs, strict=True)
            encoded = [*zip(tokenizers[source_lang].encode_lines(sources), tokenizers[target_lang].encode_lines(targets), strict=True)]
            if fit is not None:
                encoded = _fitting(pairs, encoded, fit, dropped)
            source_writer.append([source for source, _ in encoded])
            target_writer.append([target for _, target in encoded])
            read += len(pairs)
            if read % PAIRS_BETWEEN_REPORTS == 0:
                report(f"{split}: {read:,} pairs read, {2 * read / (time.perf_counter() - started):,.0f} lines/s")
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(dropped.items())) or "none"
    if source_writer.sentences == 0:
        raise CorpusError(
            f"all {read:,} pairs of {prefix} were dropped ({reasons}); check that the files are translations of each other, "
            "or raise --max-tokens and --max-ratio"
        )
    report(f"{split}: {source_writer.sentences:,} pairs kept, dropped: {reasons}")
    return SplitCounts(
        pairs=source_writer.sentences,
        dropped=dict(sorted(dropped.items())),
        tokens={source_lang: source_writer.tokens, target_lang: target_writer.tokens},
    )


def _token_writer(folder: Path, split: str, language: str, tokenizer: Tokenizer) -> TokenWriter:
    return TokenWriter(folder / f"{split}.{language}.tokens", folder / f"{split}.{language}.offsets", tokenizer.size)


def _fitting(
    pairs: list[tuple[str, str]], encoded: list[tuple[list[int], list[int]]], fit: PairFilter, dropped: Counter[str]
) -> list[tuple[list[int], list[int]]]:
    """The encoded pairs that are fit for training; the others are counted in `dropped`. Text of spaces alone is empty."""
    fitting = []
    for (source, target), (source_ids, target_ids) in zip(pairs, encoded, strict=True):
        reason = "empty" if source.isspace() or target.isspace() else fit.reason(source_ids, target_ids)
        if reason is None:
            fitting.append((source_ids, target_ids))
        else:
            dropped[reason] += 1
    return fitting


def _write_references(split: str, prefix: str, languages: tuple[str, str], folder: Path) -> None:
    """Copies the text of one split as plain UTF-8 with one sentence a line."""
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


def _read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST_NAME
    try:
        data = read_bytes(path, most=MEDIUM)
        values = json_of(data)
        found = values.get("format") if isinstance(values, dict) else None
        if found != FORMAT:
            raise CorpusError(f"{path} has format {found} but this version reads format {FORMAT}; prepare the data again")
        return Manifest.from_json(checked_object(data))
    except OSError as error:
        raise CorpusError(f"{folder} holds no {MANIFEST_NAME}; give a folder that prepare wrote") from error
    except ValueError as error:
        raise CorpusError(f"{path} is damaged: {' '.join(str(error).split())}; prepare the data again") from error
