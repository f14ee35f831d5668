"""Token files: every sentence of one side in one flat array, and the offsets at which they
start."""

import os
import weakref
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import TracebackType

import numpy as np
from jaxtyping import Int, Integer, UInt

from anydepth.errors import CorpusError
from anydepth.files.checksums import BLOCK, BLOCK_SUM, HashedFile, block_sum

OFFSET_TYPE = np.dtype("<i8")


def token_type(vocab_size: int) -> np.dtype[np.unsignedinteger]:
    """The smallest little-endian type that holds every token id: two bytes up to 65,536 tokens,
    then four."""
    return np.dtype("<u2") if vocab_size <= 2**16 else np.dtype("<u4")


@dataclass(frozen=True)
class EncodedSentences:
    """Sentences one after the other as the bytes of a token file, and the number of tokens in each."""

    tokens: bytes
    lengths: Int[np.ndarray, " sentences"]


class TokenWriter:
    """Appends sentences to a token file and its offsets; a context manager, whose end closes
    both."""

    def __init__(self, path_tokens: Path, path_offsets: Path, vocab_size: int) -> None:
        self.sentences = 0
        self.tokens = 0
        self._type = token_type(vocab_size)
        self.files = HashedFile(path_tokens), HashedFile(path_offsets)
        self.files[1].write(np.zeros(1, OFFSET_TYPE).tobytes())

    def append(self, sentences: Sequence[Sequence[int]]) -> None:
        """Writes the sentences after those already there."""
        lengths = np.array([len(sentence) for sentence in sentences], np.int64)
        flat = np.fromiter(chain.from_iterable(sentences), dtype=self._type)
        self.append_encoded(EncodedSentences(flat.tobytes(), lengths))

    def append_encoded(self, sentences: EncodedSentences) -> None:
        """The same for sentences that are bytes already."""
        ends = self.tokens + np.cumsum(sentences.lengths, dtype=OFFSET_TYPE)
        tokens_file, offsets_file = self.files
        tokens_file.write(sentences.tokens)
        offsets_file.write(ends.tobytes())
        self.sentences += len(ends)
        self.tokens += len(sentences.tokens) // self._type.itemsize

    def __enter__(self) -> "TokenWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with closing(self.files[0]), closing(self.files[1]):
            pass


class HeldArray:
    """Numbers in memory."""

    def __init__(self, array: Integer[np.ndarray, " items"]) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    def part(self, start: int, stop: int) -> Integer[np.ndarray, " part"]:
        """The numbers start..stop-1."""
        return self._array[start:stop]

    def whole(self) -> Integer[np.ndarray, " items"]:
        """All of them."""
        return self._array


class FiledArray:
    """Numbers in a file, read where they are asked for. With the sums of its blocks, each block is
    checked when it is first read.

    Parts are copied and not mapped: one look at a mapped file may bring megabytes around it into
    the memory of the process, where the system keeps the file in large pages.
    """

    def __init__(self, path: Path, dtype: np.dtype[np.integer], sums: bytes | None = None) -> None:
        self._path, self._type, self._sums = path, dtype, sums
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._file)
        self._size = os.fstat(self._file).st_size
        self._seen = bytearray(0 if sums is None else -(-self._size // BLOCK))

    def __len__(self) -> int:
        return self._size // self._type.itemsize

    def part(self, start: int, stop: int) -> Integer[np.ndarray, " part"]:
        """The numbers start..stop-1."""
        begin, end = start * self._type.itemsize, stop * self._type.itemsize
        self._check(begin, end)
        return np.frombuffer(self._read(begin, end), self._type)

    def whole(self) -> Integer[np.ndarray, " items"]:
        """All of them, mapped into memory."""
        self._check(0, self._size)
        if self._size == 0:  # an empty file cannot be mapped
            return np.empty(0, self._type)
        with os.fdopen(os.dup(self._file), "rb") as file:
            return np.memmap(file, self._type, mode="r")

    def _check(self, begin: int, end: int) -> None:
        """Refuses these bytes if a block that holds any of them is not as it was written."""
        if self._sums is None:
            return
        beyond = -(-end // BLOCK)
        block = self._seen.find(0, begin // BLOCK, beyond)
        while block >= 0:
            found = block_sum(self._read(block * BLOCK, min((block + 1) * BLOCK, self._size)))
            if found != self._sums[block * BLOCK_SUM : (block + 1) * BLOCK_SUM]:
                raise CorpusError(
                    f"{self._path} has changed since it was prepared (the checksum of its bytes from {block * BLOCK:,} "
                    "on differs); prepare the data again"
                )
            self._seen[block] = 1
            block = self._seen.find(0, block, beyond)

    def _read(self, begin: int, end: int) -> bytes:
        data, wanted = b"", end - begin
        try:
            while len(data) < wanted and (more := os.pread(self._file, wanted - len(data), begin + len(data))):
                data = data + more if data else more  # one call reads no more than 2 GiB
        except OSError as error:
            raise CorpusError(
                f"{self._path} can no longer be read ({error.strerror}); bring the data back, or prepare it again"
            ) from error
        if len(data) < wanted:
            raise CorpusError(f"{self._path} was cut short while it was in use; prepare the data again")
        return data


class TokenSide:
    """The sentences of one language: a flat array of tokens, and the sentences + 1 offsets that cut
    it."""

    def __init__(self, tokens: HeldArray | FiledArray, offsets: HeldArray | FiledArray) -> None:
        self._tokens, self._offsets = tokens, offsets

    @classmethod
    def open(
        cls, path_tokens: Path, path_offsets: Path, vocab_size: int, *, sums: Mapping[Path, bytes] | None = None
    ) -> "TokenSide":
        """The two files: only what is asked for is read, and checked by the sums where there are
        some."""
        sums = sums or {}
        return cls(
            FiledArray(path_tokens, token_type(vocab_size), sums.get(path_tokens)),
            FiledArray(path_offsets, OFFSET_TYPE, sums.get(path_offsets)),
        )

    @classmethod
    def from_sentences(cls, sentences: Sequence[Sequence[int]]) -> "TokenSide":
        """The same from sentences in memory."""
        offsets = np.cumsum([0, *(len(sentence) for sentence in sentences)], dtype=OFFSET_TYPE)
        tokens = np.fromiter(chain.from_iterable(sentences), dtype=token_type(2**32))
        return cls(HeldArray(tokens), HeldArray(offsets))

    @property
    def tokens(self) -> UInt[np.ndarray, " tokens"]:
        """All tokens."""
        return self._tokens.whole()

    @property
    def offsets(self) -> Int[np.ndarray, " cuts"]:
        """All offsets."""
        return self._offsets.whole()

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> UInt[np.ndarray, " length"]:
        start, stop = self._offsets.part(number, number + 2).tolist()
        return self._tokens.part(start, stop)

    def lengths(self, start: int, stop: int) -> Int[np.ndarray, " sentences"]:
        """Tokens in each of the sentences start..stop-1, from the offsets alone."""
        return np.diff(self._offsets.part(start, stop + 1))


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
