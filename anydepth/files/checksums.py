"""Checksums of files, and JSON objects that carry their own, so that what was changed by accident
is never believed."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anydepth.files.reading import json_of

CHECKSUM = "checksum"
DIGITS = 16  # of an object's own checksum: it guards against accidents, and people read these lines
BLOCK = 2**16  # bytes of a large file that are checked together
BLOCK_SUM = 8  # bytes of the SHA-256 of a block

_known: dict[Path, tuple[tuple[int, ...], str]] = {}


def file_hash(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def bytes_hash(data: bytes) -> str:
    """SHA-256 of the contents of a file, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


class HashedFile:
    """A new file that is hashed while it is written: `sha256` is that of the whole, `block_sums`
    those of its blocks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._file = open(path, "wb")  # noqa: SIM115 (closed by close)
        self._whole, self._block = hashlib.sha256(), hashlib.sha256()
        self._sums = bytearray()

    def write(self, data: bytes) -> None:
        """Writes `data` after what is there."""
        self._file.write(data)
        self._whole.update(data)
        view = memoryview(data)
        while view:
            part = view[: BLOCK - self.size % BLOCK]
            self._block.update(part)
            self.size += len(part)
            if self.size % BLOCK == 0:
                self._sums += self._block.digest()[:BLOCK_SUM]
                self._block = hashlib.sha256()
            view = view[len(part) :]

    @property
    def sha256(self) -> str:
        """SHA-256 of what was written, in hexadecimal."""
        return self._whole.hexdigest()

    @property
    def block_sums(self) -> bytes:
        """The sum of each block of what was written; the last block may be shorter."""
        return bytes(self._sums) + (self._block.digest()[:BLOCK_SUM] if self.size % BLOCK else b"")

    def close(self) -> None:
        """Brings to the disk what was written."""
        with self._file:
            self._file.flush()
            os.fsync(self._file.fileno())


def block_sum(data: bytes) -> bytes:
    """The checksum of one block."""
    return hashlib.sha256(data).digest()[:BLOCK_SUM]


def known_hash(path: Path) -> str:
    """SHA-256 of a file that this process may have read already: it is read again only if it was
    changed or replaced since."""
    place, about = path.resolve(), path.stat()
    mark = (about.st_ino, about.st_dev, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    if place not in _known or _known[place][0] != mark:
        _known[place] = (mark, file_hash(path))
    return _known[place][1]


def forget_hash(path: Path) -> None:
    """Lets `known_hash` read the file again: two versions that are written in one tick of the clock
    look alike."""
    _known.pop(path.resolve(), None)


def with_checksum(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same object with its own checksum; `checked_object` takes it off again."""
    return {**values, CHECKSUM: _own_checksum(values)}


def checked_object(text: str | bytes) -> dict[str, Any]:
    """The JSON object in `text` without its checksum; a ValueError says why it is none, or is not
    as it was written."""
    values = json_of(text.encode() if isinstance(text, str) else text)
    if not isinstance(values, dict):
        raise ValueError("it is not a JSON object")
    if CHECKSUM not in values:
        raise ValueError("it has no checksum")
    if values.pop(CHECKSUM) != _own_checksum(values):
        raise ValueError("its checksum differs")
    return values


def _own_checksum(values: Mapping[str, Any]) -> str:
    return bytes_hash(json.dumps(values, sort_keys=True).encode())[:DIGITS]
