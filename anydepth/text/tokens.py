"""Token files: every sentence of one side in one flat array, and the offsets at which they
start."""

import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType

import numpy as np
from jaxtyping import Int, UInt
from numpy.typing import NDArray

OFFSET_TYPE = np.dtype("<i8")


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


class TokenSide:
    """The sentences of one language: a flat array of tokens, and the sentences + 1 offsets that cut
    it."""

    def __init__(self, tokens: UInt[np.ndarray, " tokens"], offsets: Int[np.ndarray, " cuts"]) -> None:
        self.tokens = tokens
        self.offsets = offsets

    @classmethod
    def open(cls, path_tokens: Path, path_offsets: Path, vocab_size: int) -> "TokenSide":
        """The two files mapped into memory: only the pages that are asked for are read."""
        return cls(_mapped(path_tokens, token_type(vocab_size)), _mapped(path_offsets, OFFSET_TYPE))

    @classmethod
    def from_sentences(cls, sentences: Sequence[Sequence[int]]) -> "TokenSide":
        """The same from sentences in memory."""
        offsets = np.cumsum([0, *(len(sentence) for sentence in sentences)], dtype=OFFSET_TYPE)
        return cls(np.fromiter(chain.from_iterable(sentences), dtype=token_type(2**32)), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> UInt[np.ndarray, " length"]:
        return self.tokens[self.offsets[number] : self.offsets[number + 1]]

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


def _mapped(path: Path, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")
