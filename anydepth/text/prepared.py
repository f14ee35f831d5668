"""A folder that `prepare` wrote: its manifest, and its tokenizers, token files and references, each
checked when it is used."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from anydepth.errors import CorpusError
from anydepth.files import atomic
from anydepth.files.checksums import BLOCK, BLOCK_SUM, bytes_hash, checked_object, known_hash, with_checksum
from anydepth.files.reading import MEDIUM, json_of, read_bytes
from anydepth.text.marian import AnyTokenizer, target_side, tokenizer_of
from anydepth.text.tokens import OFFSET_TYPE, TokenPairs, TokenSide, token_type

FORMAT = 2
LANGUAGE = r"[A-Za-z0-9_-]+"
MANIFEST_NAME = "manifest.json"
SUMS_ENDING = ".sums"
CHECKED_AT_ONCE = 2**26  # bytes: up to here a token file is checked as a whole, in a moment; beyond, block by block


@dataclass(frozen=True)
class SplitCounts:
    """What became of the pairs of one split: kept, dropped by reason, and tokens of the kept ones
    by language."""

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
    """The contents of a prepared folder; every other file in it is listed with its size and
    hash.

    `sums` are files with the checksums of the blocks of those that are large. They say nothing that
    the large files do not, so the fingerprint passes over them.
    """

    source_lang: str
    target_lang: str
    joint: bool
    vocab_sizes: dict[str, int]
    splits: dict[str, SplitCounts]
    files: dict[str, FileRecord]
    settings: dict[str, Any]
    sums: dict[str, FileRecord] = field(default_factory=dict)

    def to_json(self) -> str:
        """The text of manifest.json."""
        values = {name: value for name, value in asdict(self).items() if name != "sums" or value}
        return json.dumps(with_checksum({"format": FORMAT, **values}), indent=2, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Manifest":
        """The manifest whose JSON object this is; a ValueError says what is impossible."""
        fields = {name: value for name, value in values.items() if name != "format"}
        try:
            manifest = TypeAdapter(cls).validate_json(json.dumps(fields), strict=True)
        except ValidationError as error:
            problem = error.errors()[0]
            raise ValueError(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}") from error
        manifest.check()
        return manifest

    def check(self) -> None:
        """A ValueError where what the manifest says cannot be true of any folder that `prepare`
        wrote."""
        if not all(re.fullmatch(LANGUAGE, name) for name in self.languages) or self.source_lang == self.target_lang:
            raise ValueError(f"its languages are {self.source_lang!r} and {self.target_lang!r}")
        if odd := [
            name
            for name in self.all_files
            if name != Path(name).name or name in ("", ".", "..") or "\\" in name or "\0" in name
        ]:
            raise ValueError(f"{odd[0]!r} is not the name of a file in the folder")
        if set(self.vocab_sizes) != set(self.languages):
            raise ValueError(f"it has vocabulary sizes of {', '.join(self.vocab_sizes)}")
        for name, record in self.sums.items():
            large = self._size_of(name.removesuffix(SUMS_ENDING))
            if record.size != BLOCK_SUM * -(-large // BLOCK):
                raise ValueError(f"{name} cannot have {record.size:,} bytes for a file of {large:,}")
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
                        raise ValueError(
                            f"{split}.{language}.{kind} must have {size:,} bytes for {counts.pairs:,} pairs"
                        )

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        return self.source_lang, self.target_lang

    @property
    def all_files(self) -> dict[str, FileRecord]:
        """Every file of the folder but the manifest itself."""
        return self.files | self.sums

    def _size_of(self, name: str) -> int:
        if name not in self.files:
            raise ValueError(f"it does not list {name}")
        return self.files[name].size

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all but the settings, so that the same data prepared from another place is the
        same data."""
        contents = {name: value for name, value in asdict(self).items() if name not in ("settings", "sums")}
        return hashlib.sha256(json.dumps(contents, sort_keys=True).encode()).hexdigest()


class PreparedData:
    """A folder that `prepare` wrote; `open` checks its manifest and file sizes, and every file, or
    block of a large one, is checked when it is first used."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self.source_lang = manifest.source_lang
        self.target_lang = manifest.target_lang
        self.is_joint = manifest.joint
        self.fingerprint = manifest.fingerprint
        self.source_tokenizer = self._tokenizer(self.source_lang)
        self.target_tokenizer = (
            target_side(self.source_tokenizer) if self.is_joint else self._tokenizer(self.target_lang)
        )

    @classmethod
    def open(cls, folder: Path) -> "PreparedData":
        """The prepared data in `folder`; a file that is missing or of another size is refused."""
        folder = Path(folder)
        atomic.put_back(folder)
        manifest = _read_manifest(folder)
        for name, record in manifest.all_files.items():
            path = folder / name
            if not path.is_file():
                raise CorpusError(f"{path} is missing; prepare the data again")
            if path.stat().st_size != record.size:
                raise CorpusError(
                    f"{path} has {path.stat().st_size:,} bytes but the manifest says {record.size:,}; prepare the data "
                    "again"
                )
        return cls(folder, manifest)

    def verify(self) -> None:
        """Refuses a file whose SHA-256 is not the manifest's; reads all those that this process has
        not read yet."""
        for name in self.manifest.all_files:
            self._check_file(name)

    def verify_for_use(self) -> None:
        """The same but for large files, each of whose blocks is checked when it is read: training
        does not wait for gigabytes."""
        for name in self.manifest.all_files:
            if name + SUMS_ENDING not in self.manifest.sums:
                self._check_file(name)

    def pairs(self, split: str) -> TokenPairs:
        """The token pairs of "train", "valid" or "test", read when they are asked for; of large files
        each block is checked when it is first read."""
        self._check_split(split, tuple(self.manifest.splits))
        source, target = (self._side(split, language) for language in (self.source_lang, self.target_lang))
        return TokenPairs(source, target)

    def _side(self, split: str, language: str) -> TokenSide:
        names = [f"{split}.{language}.{kind}" for kind in ("tokens", "offsets")]
        sums = {}
        for name in names:
            if name + SUMS_ENDING in self.manifest.sums:
                sums[self.folder / name] = self.contents(name + SUMS_ENDING)
            else:
                self._check_file(name)
        tokens, offsets = (self.folder / name for name in names)
        return TokenSide.open(tokens, offsets, self.manifest.vocab_sizes[language], sums=sums)

    def references(self, split: str) -> tuple[list[str], list[str]]:
        """Source and target lines of "valid" or "test", as they were before tokenization."""
        self._check_split(split, tuple(name for name in self.manifest.splits if name != "train"))
        source, target = (
            self.contents(f"{split}.{language}").decode("utf-8").split("\n")[:-1]
            for language in (self.source_lang, self.target_lang)
        )
        return source, target

    def _tokenizer(self, language: str) -> AnyTokenizer:
        name = tokenizer_name(language, joint=self.is_joint)
        tokenizer = tokenizer_of(self.contents(name), self.folder / name)
        if tokenizer.size != self.manifest.vocab_sizes[language]:
            sizes = f"{tokenizer.size:,} pieces, but {MANIFEST_NAME} says {self.manifest.vocab_sizes[language]:,}"
            raise CorpusError(f"{self.folder / name} has {sizes}; prepare the data again")
        return tokenizer

    def _check_file(self, name: str) -> None:
        try:
            found = known_hash(self.folder / name)
        except FileNotFoundError as error:
            raise CorpusError(
                f"{self.folder / name} is no longer there; bring the data back, or prepare it again"
            ) from error
        if found != self.manifest.all_files[name].sha256:
            raise self._changed(name)

    def contents(self, name: str) -> bytes:
        """The contents of a file, which must be those that the manifest lists."""
        data = (self.folder / name).read_bytes()
        if bytes_hash(data) != self.manifest.all_files[name].sha256:
            raise self._changed(name)
        return data

    def _changed(self, name: str) -> CorpusError:
        return CorpusError(
            f"{self.folder / name} has changed since it was prepared (SHA-256 differs); prepare the data again"
        )

    def _check_split(self, split: str, known: tuple[str, ...]) -> None:
        if split not in known:
            raise CorpusError(
                f"{self.folder} holds no {split!r} text to read, only {', '.join(known)}; ask for one of these"
            )


def tokenizer_name(language: str, *, joint: bool) -> str:
    """The file name of the tokenizer of `language` in a prepared folder."""
    return "tokenizer.model" if joint else f"tokenizer.{language}.model"


def _read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST_NAME
    try:
        data = read_bytes(path, most=MEDIUM)
        values = json_of(data)
        found = values.get("format") if isinstance(values, dict) else None
        if found != FORMAT:
            raise CorpusError(
                f"{path} has format {found} but this version reads format {FORMAT}; prepare the data again"
            )
        return Manifest.from_json(checked_object(data))
    except OSError as error:
        raise CorpusError(f"{folder} holds no {MANIFEST_NAME}; give a folder that prepare wrote") from error
    except ValueError as error:
        raise CorpusError(f"{path} is damaged: {' '.join(str(error).split())}; prepare the data again") from error
