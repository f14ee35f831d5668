"""Token files: every sentence of one side in one flat array, and the offsets at which they
start."""

import os
import struct
import weakref
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from jaxtyping import Int, UInt
from numpy.typing import NDArray

from anydepth.errors import CorpusError

OFFSET_TYPE = np.dtype("<i8")
TWO_OFFSETS = struct.Struct("<qq")


def token_type(vocab_size: int) -> np.dtype[np.unsignedinteger]:
    """The smallest little-endian type that holds every token id: two bytes up to 65,536 tokens,
    then four."""
    return np.dtype("<u2") if vocab_size <= 2**16 else np.dtype("<u4")


class TokenWriter:
    """Appends sentences to a token file and its offsets; a context manager, whose end closes
    both."""

    def __init__(self, path_tokens: Path, path_offsets: Path, vocab_size: int) -> None:
        self.sentences = 0
        self.tokens = 0
        self._type = token_type(vocab_size)
        self._tokens_file = open(path_tokens, "wb")  # noqa: SIM115 (closed by __exit__)
        self._offsets_file = open(path_offsets, "wb")  # noqa: SIM115
        self._offsets_file.write(np.zeros(1, OFFSET_TYPE).tobytes())

    def append(self, sentences: Sequence[Sequence[int]]) -> None:
        """Writes the sentences after those already there."""
        ends = self.tokens + np.cumsum([len(sentence) for sentence in sentences], dtype=OFFSET_TYPE)
        flat = np.fromiter(chain.from_iterable(sentences), dtype=self._type)
        self._tokens_file.write(flat.tobytes())
        self._offsets_file.write(ends.tobytes())
        self.sentences += len(sentences)
        self.tokens += len(flat)

    def flush(self) -> None:
        """Brings to the disk what was appended."""
        for file in (self._tokens_file, self._offsets_file):
            file.flush()
            os.fsync(file.fileno())

    def __enter__(self) -> "TokenWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._tokens_file, self._offsets_file:
            self.flush()


class FlatFile:
    """The numbers of one type in an open file: only what is asked for is read.

    Slices are read and not mapped: a file that was cut short, or whose disk went away, would kill
    the process that looks at a map of it. Numbers at many places are taken from a map all the same,
    which long work of other kinds than training does.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.path, self.dtype = path, dtype
        self._file = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        self._size = dtype.itemsize
        self._length = os.fstat(self._file).st_size // self._size

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, where: slice | NDArray[np.integer]) -> NDArray[Any]:
        if not isinstance(where, slice):
            found: NDArray[Any] = mapped(self.path, self.dtype)[where]
            return found
        start, stop = where.start, min(where.stop, self._length)
        return np.frombuffer(self._read(start, max(stop - start, 0)), self.dtype)

    def neighbours(self, number: int) -> tuple[int, int]:
        """The two offsets from place `number` on."""
        start, stop = TWO_OFFSETS.unpack(self._read(number, 2))
        return start, stop

    def _read(self, start: int, count: int) -> bytes:
        wanted, place = count * self._size, start * self._size
        try:
            data = os.pread(self._file, wanted, place)
            while len(data) < wanted and (more := os.pread(self._file, wanted - len(data), place + len(data))):
                data += more  # one call gives 2 GB at most
        except OSError as error:
            raise CorpusError(
                f"{self.path} can no longer be read ({error.strerror}); bring the data back, or prepare it again"
            ) from error
        if len(data) < wanted:
            raise CorpusError(f"{self.path} was cut short while it was in use; prepare the data again")
        return data


def mapped(path: Path, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The numbers in a file as an array whose pages are read when they are looked at."""
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")


class TokenSide:
    """The sentences of one language: a flat array of tokens, and the sentences + 1 offsets that cut
    it."""

    def __init__(
        self, tokens: UInt[np.ndarray, " tokens"] | FlatFile, offsets: Int[np.ndarray, " cuts"] | FlatFile
    ) -> None:
        self.tokens = tokens
        self.offsets = offsets

    @classmethod
    def open(cls, path_tokens: Path, path_offsets: Path, vocab_size: int) -> "TokenSide":
        """The two files, of which only what is asked for is read."""
        opened = FlatFile if hasattr(os, "pread") else mapped  # Windows has no such call, and cuts no open file
        return cls(opened(path_tokens, token_type(vocab_size)), opened(path_offsets, OFFSET_TYPE))

    @classmethod
    def from_sentences(cls, sentences: Sequence[Sequence[int]]) -> "TokenSide":
        """The same from sentences in memory."""
        offsets = np.cumsum([0, *(len(sentence) for sentence in sentences)], dtype=OFFSET_TYPE)
        return cls(np.fromiter(chain.from_iterable(sentences), dtype=token_type(2**32)), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> UInt[np.ndarray, " length"]:
        start, stop = (
            self.offsets.neighbours(number)
            if isinstance(self.offsets, FlatFile)
            else self.offsets[number : number + 2].tolist()
        )
        return self.tokens[start:stop]

    def lengths(self, start: int, stop: int) -> Int[np.ndarray, " sentences"]:
        """Tokens in each of the sentences start..stop-1, from the offsets alone."""
        return np.diff(self.offsets[start : stop + 1])


class TokenPairs:
    """Source and target sentences as token ids, without BOS and EOS; pair i is a translation."""

    def __init__(self, source_side: TokenSide, target_side: TokenSide) -> None:
        assert len(source_side) == len(target_side), (len(source_side), len(target_side))
        self.source_side = source_side
        self.target_side = target_side

    def __len__(self) -> int:
        return len(self.source_side)

    def source(self, number: int) -> UInt[np.ndarray, " length"]:
        """Source tokens of pair `number`."""
        return self.source_side[number]

    def target(self, number: int) -> UInt[np.ndarray, " length"]:
        """Target tokens of pair `number`."""
        return self.target_side[number]

    def lengths(self, start: int, stop: int) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
        """Source and target lengths of the pairs start..stop-1; no token is read."""
        return self.source_side.lengths(start, stop), self.target_side.lengths(start, stop)
