"""Token files: every sentence of one side in one flat array, and the offsets at which they
start."""

import mmap
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import TracebackType

import numpy as np
from jaxtyping import Int, Shaped, UInt
from numpy.typing import NDArray

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


class TokenSide:
    """The sentences of one language: a flat array of tokens, and the sentences + 1 offsets that cut
    it.

    Where checks are given, a sentence and its offsets are checked when they are first read, and an
    array as a whole when it is asked for.
    """

    def __init__(
        self,
        tokens: UInt[np.ndarray, " tokens"],
        offsets: Int[np.ndarray, " cuts"],
        *,
        token_checks: "BlockChecks | None" = None,
        offset_checks: "BlockChecks | None" = None,
    ) -> None:
        self._tokens, self._offsets = tokens, offsets
        self._token_checks, self._offset_checks = token_checks, offset_checks

    @classmethod
    def open(
        cls, path_tokens: Path, path_offsets: Path, vocab_size: int, *, sums: Mapping[Path, bytes] | None = None
    ) -> "TokenSide":
        """The two files mapped into memory: only the pages that are asked for are read, and checked
        by their sums where there are some."""
        tokens, offsets = _mapped(path_tokens, token_type(vocab_size)), _mapped(path_offsets, OFFSET_TYPE)
        token_checks, offset_checks = (
            BlockChecks(path, array, sums[path]) if sums and path in sums else None
            for path, array in ((path_tokens, tokens), (path_offsets, offsets))
        )
        return cls(tokens, offsets, token_checks=token_checks, offset_checks=offset_checks)

    @classmethod
    def from_sentences(cls, sentences: Sequence[Sequence[int]]) -> "TokenSide":
        """The same from sentences in memory."""
        offsets = np.cumsum([0, *(len(sentence) for sentence in sentences)], dtype=OFFSET_TYPE)
        return cls(np.fromiter(chain.from_iterable(sentences), dtype=token_type(2**32)), offsets)

    @property
    def tokens(self) -> UInt[np.ndarray, " tokens"]:
        """All tokens."""
        if self._token_checks is not None:
            self._token_checks.see(0, len(self._tokens))
        return self._tokens

    @property
    def offsets(self) -> Int[np.ndarray, " cuts"]:
        """All offsets."""
        if self._offset_checks is not None:
            self._offset_checks.see(0, len(self._offsets))
        return self._offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, number: int) -> UInt[np.ndarray, " length"]:
        start, stop = self._cuts(number, number + 1).tolist()
        if self._token_checks is not None:
            self._token_checks.see(start, stop)
        return self._tokens[start:stop]

    def lengths(self, start: int, stop: int) -> Int[np.ndarray, " sentences"]:
        """Tokens in each of the sentences start..stop-1, from the offsets alone."""
        return np.diff(self._cuts(start, stop))

    def release(self) -> None:
        """Gives back the memory of the pages that were read; whoever reads on gets them again."""
        for array in (self._tokens, self._offsets):
            if isinstance(array.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                array.base.madvise(mmap.MADV_DONTNEED)

    def _cuts(self, start: int, stop: int) -> Int[np.ndarray, " cuts"]:
        """The offsets start..stop."""
        if self._offset_checks is not None:
            self._offset_checks.see(start, stop + 1)
        return self._offsets[start : stop + 1]


class BlockChecks:
    """Which blocks of a mapped file have been compared with their checksums; each is, when it is
    first read."""

    def __init__(self, path: Path, array: Shaped[np.ndarray, " items"], sums: bytes) -> None:
        self._path = path
        self._bytes = array.view(np.uint8)
        self._sums = sums
        self._item = array.itemsize
        self._seen = bytearray(-(-len(self._bytes) // BLOCK))

    def see(self, start: int, stop: int) -> None:
        """Refuses the items start..stop-1 if a block that holds any of them is not as it was
        written."""
        first, beyond = start * self._item // BLOCK, -(-stop * self._item // BLOCK)
        if self._seen.find(0, first, beyond) < 0:
            return
        for block in range(first, beyond):
            if not self._seen[block]:
                self._check(block)
                self._seen[block] = 1

    def _check(self, block: int) -> None:
        found = block_sum(self._bytes[block * BLOCK : (block + 1) * BLOCK].tobytes())
        if found != self._sums[block * BLOCK_SUM : (block + 1) * BLOCK_SUM]:
            raise CorpusError(
                f"{self._path} has changed since it was prepared (the checksum of its bytes from {block * BLOCK:,} on "
                "differs); prepare the data again"
            )


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

    def release(self) -> None:
        """Gives back the memory of what was read from files."""
        self.source_side.release()
        self.target_side.release()


def _mapped(path: Path, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")
