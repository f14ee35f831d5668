"""What a recipe leaves: {train,valid,test} in both languages, and recipe.json with how they came
about."""

import json
import os
import platform
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TextIO

from anydepth import __version__
from anydepth.errors import CorpusError, UsageError
from anydepth.files import atomic
from anydepth.files.checksums import file_hash
from anydepth.files.locks import one_writer
from anydepth.messages.say import Say
from anydepth.text.prepared import FileRecord
from anydepth.text.recipes.archives import TextFile, WantedFile, find_files

FORMAT = 1
RECORD_NAME = "recipe.json"
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Expected:
    """The number of pairs that a split should have; `tolerance` is the share by which it may
    differ."""

    pairs: int
    tolerance: float = 0.0

    def is_met_by(self, pairs: int) -> bool:
        """Whether a split of `pairs` pairs is the expected one."""
        return abs(pairs - self.pairs) <= self.tolerance * self.pairs


@dataclass(frozen=True)
class CorpusRecipe:
    """What is made and what should come out; `prepare` are the options of `anydepth prepare` that
    suit it."""

    name: str
    languages: tuple[str, str]
    wanted: Sequence[WantedFile]
    expected: Mapping[str, Expected]
    settings: Mapping[str, object]
    prepare: Sequence[str] = ()
    packages: Sequence[str] = ()


@dataclass(frozen=True)
class CorpusRecord:
    """The contents of recipe.json."""

    recipe: str
    source_lang: str
    target_lang: str
    pairs: dict[str, int]
    dropped: dict[str, dict[str, int]]
    expected: dict[str, Expected]
    as_expected: bool
    settings: dict[str, Any]
    archives: dict[str, FileRecord]
    files: dict[str, FileRecord]
    versions: dict[str, str]
    next: str
    format: int = FORMAT

    def to_json(self) -> str:
        """The text of recipe.json."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


@dataclass
class SplitWriter:
    """The text files of all splits in `folder`, written pair by pair, with what was written and
    dropped."""

    folder: Path
    languages: tuple[str, str]
    pairs: Counter[str] = field(default_factory=Counter)
    dropped: dict[str, Counter[str]] = field(default_factory=lambda: {split: Counter() for split in SPLITS})

    def __enter__(self) -> "SplitWriter":
        self._stack = ExitStack()
        self._files: dict[str, tuple[TextIO, TextIO]] = {}
        for split in SPLITS:
            source, target = (self._open(split, language) for language in self.languages)
            self._files[split] = source, target
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def write(self, split: str, source: str, target: str) -> None:
        """Appends one pair."""
        for file, line in zip(self._files[split], (source, target), strict=True):
            file.write(f"{line}\n")
        self.pairs[split] += 1

    def drop(self, split: str, reason: str) -> None:
        """Counts a pair that is left out."""
        self.dropped[split][reason] += 1

    def _open(self, split: str, language: str) -> TextIO:
        return self._stack.enter_context(open(self.folder / f"{split}.{language}", "w", encoding="utf-8", newline="\n"))


def write_recipe(
    recipe: CorpusRecipe,
    places: Sequence[Path],
    to: Path,
    fill: Callable[[SplitWriter, list[TextFile]], None],
    *,
    say: Say,
) -> CorpusRecord:
    """The record of the folder `to`, which is there only once everything in it is written; `fill`
    writes the splits from the files."""
    where = Path(os.path.realpath(to))
    if where.exists() and (not where.is_dir() or any(where.iterdir())):
        raise UsageError(f"{to} exists already and would be overwritten; choose another --to")
    files = find_files(places, recipe.wanted, say=say)
    with one_writer(where), atomic.replacing_folder(where) as folder:
        with SplitWriter(folder, recipe.languages) as writer:
            fill(writer, files)
        empty = [split for split in SPLITS if not writer.pairs[split]]
        if empty:
            raise CorpusError(f"no pair is left for {' and '.join(empty)}; check that the archive has all of its text")
        say("computing hashes")
        record = _record(recipe, to, files, writer, folder)
        atomic.write_text(folder / RECORD_NAME, record.to_json())
    for line in _count_lines(record, recipe):
        say(line)
    return record


def prepare_command(recipe: CorpusRecipe, to: Path) -> str:
    """The `anydepth prepare` command for the text at `to`."""
    source_lang, target_lang = recipe.languages
    splits = [word for split in SPLITS for word in (f"--{split}", str(to / split))]
    words = [
        "anydepth",
        "prepare",
        "--source-lang",
        source_lang,
        "--target-lang",
        target_lang,
        *splits,
        *recipe.prepare,
    ]
    return shlex.join([*words, "--to", f"{to}-prepared"])


def _count_lines(record: CorpusRecord, recipe: CorpusRecipe) -> list[str]:
    """A line for each split: its pairs, what was dropped, and whether the number is the expected
    one."""
    lines = []
    for split, pairs in record.pairs.items():
        dropped = ", ".join(f"{reason} {count:,}" for reason, count in record.dropped[split].items())
        expected = recipe.expected[split]
        about = "about " if expected.tolerance else ""
        counted = f"{split}: {pairs:,} pairs{f' (dropped: {dropped})' if dropped else ''}"
        if expected.is_met_by(pairs):
            lines.append(f"{counted}, as expected{f' ({about}{expected.pairs:,})' if about else ''}")
        else:
            lines.append(
                f"warning: {counted}, but {about}{expected.pairs:,} were expected; the archive may be of another "
                "version"
            )
    return lines


def _record(
    recipe: CorpusRecipe, to: Path, files: Sequence[TextFile], writer: SplitWriter, folder: Path
) -> CorpusRecord:
    pairs = {split: writer.pairs[split] for split in SPLITS}
    return CorpusRecord(
        recipe=recipe.name,
        source_lang=recipe.languages[0],
        target_lang=recipe.languages[1],
        pairs=pairs,
        dropped={split: dict(sorted(writer.dropped[split].items())) for split in SPLITS},
        expected=dict(recipe.expected),
        as_expected=all(recipe.expected[split].is_met_by(pairs[split]) for split in SPLITS),
        settings=dict(recipe.settings),
        archives={place.name: _file_record(place) for place in dict.fromkeys(file.place for file in files)},
        files={path.name: _file_record(path) for path in sorted(folder.iterdir())},
        versions={"anydepth": __version__, "python": platform.python_version()}
        | {name: _version(name) for name in recipe.packages},
        next=prepare_command(recipe, to),
    )


def _file_record(path: Path) -> FileRecord:
    return FileRecord(path.stat().st_size, file_hash(path))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
