"""API keys: random, stored as hashes, compared in constant time.

A key has 256 random bits, so nobody finds it from its SHA-256 by trying; a slow hash, which makes
up for passwords that people choose, would only slow down every request.
"""

import hashlib
import hmac
import json
import logging
import secrets
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field

from anydepth.errors import UsageError
from anydepth.files.atomic import write_text
from anydepth.files.locks import in_turn
from anydepth.files.reading import Unreadable, checked, plain_name, read_json
from anydepth.limits import MOST_UPDATES

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ApiKey:
    """A key as it is stored: its name, its hash, when it was made, and how often it may ask (None:
    as often as the server lets anybody)."""

    name: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    created: str
    requests_per_minute: Annotated[int, Field(ge=0, le=MOST_UPDATES)] | None = None


@dataclass(frozen=True)
class StoredKeys:
    """A file of keys."""

    keys: tuple[ApiKey, ...]


def load_keys(file: Path) -> tuple[ApiKey, ...]:
    """The keys in a file."""
    try:
        return checked(StoredKeys, read_json(file)).keys
    except FileNotFoundError:
        raise UsageError(f"{file} is not there; make it with `anydepth keys add {file} NAME`") from None
    except Unreadable as error:
        raise UsageError(
            f"{file} cannot be read as API keys ({error}); remove it and make it again with `anydepth keys add`"
        ) from error


def add_key(file: Path, name: str, *, requests_per_minute: int | None = None) -> str:
    """A new key, which is stored as its hash only and can never be shown again."""
    if not plain_name(name):
        raise UsageError(f"{name!r} is no name of a key; use letters, digits, dots, dashes and underscores")
    key = secrets.token_urlsafe(32)
    with in_turn(_lock_of(file)):
        known = load_keys(file) if file.exists() else ()
        if any(each.name == name for each in known):
            raise UsageError(f"{file} has a key {name} already; remove it first, or choose another name")
        created = datetime.now(UTC).isoformat(timespec="seconds")
        _store(file, (*known, ApiKey(name, key_hash(key), created, requests_per_minute)))
    return key


def remove_key(file: Path, name: str) -> None:
    """Takes a key out of a file; a server that uses the file refuses it from then on."""
    with in_turn(_lock_of(file)):
        known = load_keys(file)
        kept = tuple(each for each in known if each.name != name)
        if len(kept) == len(known):
            names = ", ".join(each.name for each in known) or "none"
            raise UsageError(f"{file} has no key {name}; it has: {names}")
        _store(file, kept)


def key_hash(key: str) -> str:
    """What is stored of a key."""
    return hashlib.sha256(key.encode("utf-8", errors="replace")).hexdigest()


def _lock_of(file: Path) -> Path:
    return file.with_name(f".{file.name}.lock")


def _store(file: Path, keys: tuple[ApiKey, ...]) -> None:
    write_text(file, json.dumps(asdict(StoredKeys(keys)), indent=1) + "\n")


class KeyRing:
    """The keys that a server accepts; a change of the file is seen with the next request."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.mark = self._look()
        self.keys = load_keys(file)

    def find(self, key: str) -> ApiKey | None:
        """The stored key that `key` is, if any. All hashes are compared, each in constant time, so
        the time tells nothing."""
        if (mark := self._look()) != self.mark:
            self.mark = mark
            try:
                self.keys = load_keys(self.file)
            except UsageError as error:
                self.keys = ()  # a server whose keys are lost lets nobody in
                LOG.error("no key is accepted: %s", error)
        given, found = key_hash(key), None
        for each in self.keys:
            if hmac.compare_digest(each.sha256, given):
                found = each
        return found

    def _look(self) -> tuple[int, int, int]:
        try:
            about = self.file.stat()
        except OSError:
            return 0, 0, 0
        return about.st_ino, about.st_size, about.st_mtime_ns
