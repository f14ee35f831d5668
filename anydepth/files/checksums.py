"""Checksums of files, and JSON objects that carry their own, so that what was changed by accident
is never believed."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anydepth.files.reading import json_of

CHECKSUM = "checksum"
DIGITS = 16  # of an object's own checksum: it guards against accidents, and people read these lines

_known: dict[Path, tuple[tuple[int, ...], str]] = {}


def file_hash(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def bytes_hash(data: bytes) -> str:
    """SHA-256 of the contents of a file, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


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
