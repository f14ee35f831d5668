"""Lines of a file as raw bytes, many at a time: what is quick to read, to count and to hand on."""

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from anydepth.errors import CorpusError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LONGEST_LINE = 2**24  # bytes: whole books are shorter, and a device or a packed bomb may have no end of line at all
READ_AT_ONCE = 2**20  # bytes
ENOUGH_BYTES = 2**23  # lines that are long come in smaller numbers, so that memory does not grow with them
NEWLINE = ord("\n")


@runtime_checkable
class ReadableBytes(Protocol):
    """An open binary file or packed file."""

    def read1(self, size: int, /) -> bytes:
        """The next bytes, at most `size`; none at the end. It waits for no more than there are."""


class RawLines:
    """A file whose lines are taken in blocks of bytes, their ends included; `name` stands in error
    messages.

    A byte order mark at the start is left out. A line that is too long is an error once those
    before it are taken.
    """

    def __init__(self, file: ReadableBytes, name: str) -> None:
        self.taken = 0
        self._file, self._name = file, name
        self._data = b""
        self._ends = np.empty(0, np.int64)  # of the lines in the data that are whole
        self._is_begun = self._is_over = self._has_fault = False

    def at_hand(self, wanted: int) -> int:
        """How many lines can be taken: `wanted` or more, or fewer if they are long; 0 at the end
        alone."""
        while not self._is_over and len(self._ends) < wanted and not self._has_enough():
            self._read()
        if self._has_fault and not len(self._ends):
            raise CorpusError(
                f"{self._name} line {self.taken + 1:,} has more than {LONGEST_LINE:,} bytes; give one sentence per line"
            )
        return len(self._ends)

    def take(self, count: int) -> bytes:
        """The next `count` lines, which must be at hand."""
        cut = int(self._ends[count - 1])
        taken, self._data = self._data[:cut], self._data[cut:]
        self._ends = self._ends[count:] - cut
        self.taken += count
        return taken

    def count_rest(self) -> int:
        """Takes all lines that are left; the number of those that were ever taken."""
        while ready := self.at_hand(1):
            self.take(ready)
        return self.taken

    def _has_enough(self) -> bool:
        return len(self._ends) > 0 and len(self._data) >= ENOUGH_BYTES

    def _read(self) -> None:
        """Adds what comes next in the file, with the ends of its lines."""
        chunk = self._next_chunk()
        begin = len(self._data)
        self._data += chunk
        ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == NEWLINE) + (begin + 1)
        last = int(ends[-1]) if len(ends) else self._open_from()
        if not chunk:
            self._is_over = True
            ends = np.array([len(self._data)] if last < len(self._data) else [], np.int64)
        self._add(ends, unfinished=len(self._data) - last)

    def _next_chunk(self) -> bytes:
        chunk = self._file.read1(READ_AT_ONCE)
        if self._is_begun:
            return chunk
        self._is_begun = True
        while len(chunk) <= len(BYTE_ORDER_MARK) and (more := self._file.read1(READ_AT_ONCE)):
            chunk += more
        return chunk.removeprefix(BYTE_ORDER_MARK)

    def _open_from(self) -> int:
        """Where the line begins that has no end yet."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def _add(self, ends: Int[np.ndarray, " lines"], *, unfinished: int) -> None:
        """Notes the lines that end there; the first that is too long, and what follows it, is not
        among them."""
        long = np.flatnonzero(np.diff(ends, prepend=self._open_from()) > LONGEST_LINE)
        if len(long) or unfinished > LONGEST_LINE:
            self._is_over = self._has_fault = True
            ends = ends[: long[0]] if len(long) else ends
        self._ends = np.concatenate([self._ends, ends])
