"""The files of a bulk job, and how they are cut into shards: by their contents alone, so that the
same files have the same shards on every engine and after every kill."""

import glob
import gzip
import hashlib
import io
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from anydepth.bulk.zst import ZstReader
from anydepth.errors import CorpusError, UsageError
from anydepth.text.corpus import ReadableLines, telling_of
from anydepth.text.raw_lines import BYTE_ORDER_MARK, LONGEST_LINE

InputKind = Literal["text", "jsonl", "parquet"]
PACKED = (".gz", ".zst")
JSON_ENDINGS = (".jsonl", ".ndjson")
SHARD_LINES = 5000
READ_ROWS = 256  # of Parquet at once, whose sizes are not known before
SHARD_BYTES = 2**23  # a shard of very long lines ends before it has all its lines, so that none is larger than memory


@dataclass(frozen=True)
class Shard:
    """Successive lines of a text or JSON lines file with their ends, or rows of a Parquet file as
    one Arrow stream; `first` counts from 1."""

    input: str
    kind: InputKind
    first: int
    records: int
    lines: tuple[bytes, ...]

    @property
    def name(self) -> str:
        """Its lines, in digits that sort."""
        return f"{self.first:012d}-{self.first + self.records - 1:012d}"

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"{self.input} lines {self.first:,} to {self.first + self.records - 1:,}"

    @cached_property
    def source(self) -> str:
        """SHA-256 of what is in it; of rows that of their values, however Arrow lays them out."""
        parts = row_values(self.lines[0]) if self.kind == "parquet" else self.lines
        found = hashlib.sha256()
        for part in parts:
            found.update(b"%d:" % len(part))
            found.update(part)
        return found.hexdigest()


@dataclass(frozen=True)
class BulkInput:
    """A file to translate; `name` stands for it in the folder of the job."""

    path: Path
    name: str

    @property
    def kind(self) -> InputKind:
        """What the file holds, by the ending of its name."""
        stem = self.path.name.lower()
        for ending in PACKED:
            stem = stem.removesuffix(ending)
        if stem.endswith(".parquet"):
            return "parquet"
        return "jsonl" if stem.endswith(JSON_ENDINGS) else "text"

    def shards(self, *, shard_lines: int) -> Iterator[Shard]:
        """The file as shards, one at a time; what cannot be read is refused by name."""
        if self.kind == "parquet":
            yield from self._parquet_shards(shard_lines)
            return
        first = 1
        with telling_of(self.path), self._open() as file:
            for lines in _cut(_raw_lines(file), shard_lines):
                yield Shard(self.name, self.kind, first, len(lines), tuple(lines))
                first += len(lines)

    def _open(self) -> io.BufferedIOBase:
        match self.path.suffix.lower():
            case ".gz":
                return gzip.open(self.path, "rb")
            case ".zst":
                return io.BufferedReader(ZstReader(self.path), 2**17)
        return open(self.path, "rb")

    def _parquet_shards(self, shard_lines: int) -> Iterator[Shard]:
        pyarrow, parquet = require_parquet()
        first, waiting = 1, None
        try:
            with parquet.ParquetFile(self.path) as file:
                waiting = file.schema_arrow.empty_table()
                for batch in file.iter_batches(batch_size=min(shard_lines, READ_ROWS)):
                    waiting = pyarrow.concat_tables([waiting, pyarrow.Table.from_batches([batch])])
                    while rows := full_shard(waiting, shard_lines):
                        yield self._row_shard(waiting.slice(0, rows), first)
                        waiting, first = waiting.slice(rows), first + rows
                if len(waiting):
                    yield self._row_shard(waiting, first)
        except (pyarrow.ArrowException, OSError) as error:
            raise CorpusError(f"{self.path} cannot be read as Parquet ({_first_line(error)}); make it again") from error

    def _row_shard(self, table: Any, first: int) -> Shard:
        pyarrow, _ = require_parquet()
        return Shard(self.name, "parquet", first, len(table), (_arrow_stream(pyarrow, table),))


def find_inputs(patterns: Sequence[str | Path]) -> list[BulkInput]:
    """The files that names and globs stand for, in their order; each is named by its path below the
    folder that all have in common."""
    paths: list[Path] = []
    for pattern in map(str, patterns):
        found = [pattern] if os.path.exists(pattern) else sorted(glob.glob(pattern, recursive=True))
        if not found:
            raise UsageError(f"there is no file {pattern}; check the path")
        paths += [Path(each) for each in found if not os.path.isdir(each) or each == pattern]
    if not paths:
        raise UsageError("there is nothing to translate; name files, or a glob of files")
    real = [Path(os.path.realpath(path)) for path in paths]
    for number, path in enumerate(paths):
        if path.is_dir():
            raise UsageError(f"{path} is a folder; name its files, as in '{path}/*.txt'")
        if not path.is_file():
            raise UsageError(f"{path} is not a regular file, and a job reads its inputs more than once; name a file")
        if real[number] in real[:number]:
            raise UsageError(f"{path} is given twice; name each input once")
    common = Path(os.path.commonpath([path.parent for path in real]))
    return [BulkInput(path, place.relative_to(common).as_posix()) for path, place in zip(paths, real, strict=True)]


def full_shard(table: Any, most: int) -> int:
    """How many of the first rows make a shard: `most`, or as many as reach SHARD_BYTES; 0 where there
    are not enough yet."""
    rows = min(len(table), most)
    if rows and _bytes_of(table.slice(0, rows)) >= SHARD_BYTES:
        return 1 + bisect_left(range(1, rows), SHARD_BYTES, key=lambda count: _bytes_of(table.slice(0, count)))
    return rows if rows == most else 0


def _bytes_of(table: Any) -> int:
    """What the rows take. Dictionaries do not count: a slice of one row has all of it."""
    pyarrow, _ = require_parquet()
    return sum(each.nbytes for each in table.columns if not pyarrow.types.is_dictionary(each.type))


def row_values(stream: bytes) -> Iterator[bytes]:
    """The names, types and values of the columns of an Arrow stream."""
    pyarrow, _ = require_parquet()
    table = pyarrow.ipc.open_stream(stream).read_all()
    for name, column in zip(table.column_names, table.columns, strict=True):
        yield repr((name, str(column.type))).encode("utf-8", errors="backslashreplace")
        yield _values(pyarrow, column)


def _values(pyarrow: Any, column: Any) -> bytes:
    with suppress(ValueError, OverflowError):  # bytes that are no text, times that Python does not know
        if "[ns" not in str(column.type):  # what Python makes of nanoseconds depends on what is installed
            return repr(column.to_pylist()).encode("utf-8", errors="backslashreplace")
    return _arrow_stream(pyarrow, pyarrow.table({"": column.combine_chunks()}))


def _arrow_stream(pyarrow: Any, table: Any) -> bytes:
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def require_parquet() -> tuple[Any, Any]:
    """The modules `pyarrow` and `pyarrow.parquet`; one sentence where they are not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError(
            f"Parquet needs pyarrow, which cannot be imported ({error}); install it with "
            "pip install 'anydepth[parquet]'"
        ) from error
    return pyarrow, pyarrow.parquet


def _raw_lines(file: ReadableLines) -> Iterator[bytes]:
    """The lines with their ends, without a byte order mark; of one that is too long no more than
    shows it."""
    number = 0
    while raw := file.readline(LONGEST_LINE + 1):
        number += 1
        ending = raw
        while len(ending) > LONGEST_LINE and not ending.endswith(b"\n"):
            ending = file.readline(LONGEST_LINE + 1)  # the rest of it belongs to the same line
        if number == 1 and len(raw) <= LONGEST_LINE and not (raw := raw.removeprefix(BYTE_ORDER_MARK)):
            return
        yield raw


def _cut(lines: Iterator[bytes], most: int) -> Iterator[list[bytes]]:
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if len(held) == most or size >= SHARD_BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]
