"""Parallel text: lines of plain or gzipped UTF-8 files, read in step, and the rule that drops bad
pairs."""

import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from anydepth.errors import CorpusError
from anydepth.text.raw_lines import BYTE_ORDER_MARK, LONGEST_LINE, RawLines

PAIRS_AT_ONCE = 10_000
REASONS = (None, "empty", "too long", "unbalanced")  # why a pair is dropped


@runtime_checkable
class ReadableLines(Protocol):
    """An open binary file, packed file or pipe."""

    def readline(self, size: int, /) -> bytes:
        """The next line, or `size` bytes of it if it is longer."""


def open_lines(path: Path) -> Iterator[str]:
    r"""The lines of a UTF-8 file, one at a time, without their ends; a name that ends in .gz is
    unpacked.

    Only \n and \r\n end a line. U+2028, \x0b, \x85 and the like, which str.splitlines would cut at,
    stay inside it.
    """
    path = Path(path)
    with telling_of(path), _open_binary(path) as file:
        raw = RawLines(file, str(path))
        while ready := raw.at_hand(1):
            first = raw.taken + 1
            yield from _decoded(raw.take(ready), str(path), first)


def decoded_lines(file: ReadableLines, name: str) -> Iterator[str]:
    """The lines of an open binary file or pipe, as `open_lines` gives them; `name` stands in error
    messages."""
    for number, raw in enumerate(_bounded_lines(file), start=1):
        if number == 1 and len(raw) <= LONGEST_LINE:
            raw = raw.removeprefix(BYTE_ORDER_MARK)
            if not raw:
                return
        yield decode_line(raw, name, number)


def decode_line(raw: bytes, name: str, number: int) -> str:
    """One line of a file, given with its end, as text without it; `name` and `number` stand in
    error messages."""
    if len(raw) > LONGEST_LINE:
        raise CorpusError(f"{name} line {number:,} has more than {LONGEST_LINE:,} bytes; give one sentence per line")
    if raw.endswith(b"\n"):
        raw = raw[:-2] if raw.endswith(b"\r\n") else raw[:-1]
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(
            f"{name} line {number:,} is not valid UTF-8 (byte 0x{raw[error.start]:02X} at byte {error.start + 1} of "
            "the line); convert the file to UTF-8, for instance with iconv"
        ) from error


def side_path(prefix: str | Path, language: str) -> Path:
    """PREFIX.LANGUAGE, or PREFIX.LANGUAGE.gz if only that exists."""
    plain = Path(f"{prefix}.{language}")
    packed = Path(f"{prefix}.{language}.gz")
    for path in (plain, packed):
        if path.is_file():
            return path
    raise CorpusError(
        f"there is neither {plain} nor {packed}; give the path without the language ending, as in data/train"
    )


@dataclass(frozen=True)
class PairBlock:
    """Neighbouring lines of two files as raw bytes; `first` is the number of the first of them, and
    `names` stand in error messages."""

    source: bytes
    target: bytes
    first: int
    names: tuple[str, str]

    def sides(self) -> tuple[list[str], list[str]]:
        """Source lines and target lines."""
        try:
            return _block_lines(self.source), _block_lines(self.target)
        except UnicodeDecodeError:
            sources, targets = zip(*self.pairs(), strict=True)  # says which line it is
            return list(sources), list(targets)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The pairs of lines; those before one that is not valid come first."""
        source_name, target_name = self.names
        sources = _decoded(self.source, source_name, self.first)
        return zip(sources, _decoded(self.target, target_name, self.first), strict=True)


def read_pairs(prefix: str | Path, source_lang: str, target_lang: str) -> Iterator[tuple[str, str]]:
    """Pairs of lines of the two files, in step and one at a time; the files must exist now, not
    only when iterated."""
    return _pairs_of(read_blocks(prefix, source_lang, target_lang))


def read_blocks(
    prefix: str | Path, source_lang: str, target_lang: str, *, pairs_at_once: int = PAIRS_AT_ONCE
) -> Iterator[PairBlock]:
    """The same pairs in blocks that are not decoded yet."""
    return _blocks_in_step(side_path(prefix, source_lang), side_path(prefix, target_lang), pairs_at_once)


@dataclass(frozen=True)
class PairFilter:
    """Which pairs are unfit for training, by their lengths in tokens.

    A pair is unbalanced when its longer side has more than `max_ratio` times the tokens of the
    shorter one. Longer sides of up to `always_balanced` tokens are exempt: "Danke" against "Thank
    you very much" is no misalignment.
    """

    max_tokens: int = 250
    max_ratio: float = 3.0
    always_balanced: int = 10

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise CorpusError(f"--max-tokens {self.max_tokens} would drop every pair; set it to 1 or more, as in 250")
        if not self.max_ratio >= 1:
            raise CorpusError(
                f"--max-ratio {self.max_ratio} would drop every long pair; set it to 1 or more, as in 3.0"
            )

    def reason(self, source_ids: Sequence[int], target_ids: Sequence[int]) -> str | None:
        """Why the pair is dropped: "empty", "too long" or "unbalanced"; None if it is kept."""
        shorter, longer = sorted((len(source_ids), len(target_ids)))
        if shorter == 0:
            return "empty"
        if longer > self.max_tokens:
            return "too long"
        if longer > self.always_balanced and longer > self.max_ratio * shorter:
            return "unbalanced"
        return None

    def reasons(
        self, source_lengths: Int[np.ndarray, " pairs"], target_lengths: Int[np.ndarray, " pairs"]
    ) -> Int[np.ndarray, " pairs"]:
        """What `reason` gives for pairs of these lengths, as places in REASONS; 0 where a pair is
        kept."""
        shorter, longer = np.minimum(source_lengths, target_lengths), np.maximum(source_lengths, target_lengths)
        is_unbalanced = (longer > self.always_balanced) & (longer > self.max_ratio * shorter)
        conditions = [shorter == 0, longer > self.max_tokens, is_unbalanced]
        return np.select(conditions, [1, 2, 3], 0)


def _open_binary(path: Path) -> io.BufferedIOBase:
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    return open(path, "rb")


def _bounded_lines(file: ReadableLines) -> Iterator[bytes]:
    """The lines of a file with their ends; of one that is too long no more than shows it."""
    while raw := file.readline(LONGEST_LINE + 1):
        yield raw


def _block_lines(raw: bytes) -> list[str]:
    """The lines in `raw` without their ends; a UnicodeDecodeError if any is not UTF-8."""
    text = raw.decode("utf-8")
    lines = text.replace("\r\n", "\n").split("\n")
    if text.endswith("\n"):
        lines.pop()
    return lines


def _decoded(raw: bytes, name: str, first: int) -> Iterator[str]:
    """The lines in `raw`, the first of which is number `first` of the file; those before one that
    is not UTF-8 come first."""
    try:
        yield from _block_lines(raw)
    except UnicodeDecodeError:
        for number, line in enumerate(io.BytesIO(raw), start=first):
            yield decode_line(line, name, number)


def _pairs_of(blocks: Iterator[PairBlock]) -> Iterator[tuple[str, str]]:
    for block in blocks:
        yield from block.pairs()


@contextmanager
def telling_of(path: Path) -> Iterator[None]:
    """Turns what reading a text file or a packed one raises into one sentence about it."""
    try:
        yield
    except FileNotFoundError as error:
        raise CorpusError(f"there is no file {path}; check the path") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CorpusError(f"{path} is truncated or not gzip ({error}); fetch or compress it again") from error
    except OSError as error:
        raise CorpusError(
            f"cannot read {path}: {error.strerror or error}; check the path and its permissions"
        ) from error


@contextmanager
def _opened(path: Path) -> Iterator[RawLines]:
    with telling_of(path):
        file = _open_binary(path)
    with file:
        yield RawLines(file, str(path))


def _blocks_in_step(source_path: Path, target_path: Path, pairs_at_once: int) -> Iterator[PairBlock]:
    with _opened(source_path) as source, _opened(target_path) as target:
        while True:
            with telling_of(source_path):
                source_ready = source.at_hand(pairs_at_once)
            with telling_of(target_path):
                target_ready = target.at_hand(pairs_at_once)
            count = min(source_ready, target_ready, pairs_at_once)
            if count == 0:
                break
            first = source.taken + 1
            yield PairBlock(source.take(count), target.take(count), first, (str(source_path), str(target_path)))
        with telling_of(source_path):
            source_count = source.count_rest()
        with telling_of(target_path):
            target_count = target.count_rest()
    if source_count != target_count:
        raise CorpusError(
            f"{source_path.name} has {source_count:,} lines but {target_path.name} has {target_count:,}; "
            f"each line of one must translate the same line of the other, so look in {source_path.parent} for "
            "where they part"
        )
    if source_count == 0:
        raise CorpusError(f"{source_path} and {target_path} are empty; give files with one sentence per line")
