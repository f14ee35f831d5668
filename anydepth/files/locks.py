"""One writer at a time: locks between processes of one machine, which a process that dies lets go
of."""

import errno
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from anydepth.errors import UsageError
from anydepth.files.atomic import cannot_write, real_place


@contextmanager
def one_writer(folder: Path) -> Iterator[None]:
    """While inside, no other command may write to `folder`, which need not exist yet; another one
    is refused at once.

    Readers need no lock. The lock is a hidden file beside the folder, so that it stays where it is
    when the folder is replaced.
    """
    try:
        place = real_place(folder)
        made = [parent for parent in place.parents if not parent.exists()]
        place.parent.mkdir(parents=True, exist_ok=True)
        file = _lock_file(place)
        lock = FileLock(file)
        lock.acquire(timeout=0)
    except Timeout:
        if not file.exists():  # nobody holds what cannot be made
            raise cannot_write(folder, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))) from None
        raise UsageError(
            f"another anydepth command is writing to {folder}{_holder(file)}; wait for it, or stop it first"
        ) from None
    except FileExistsError as error:  # what mkdir says of a file where a folder should be
        raise cannot_write(folder, NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))) from error
    except OSError as error:
        raise cannot_write(folder, error) from error
    try:
        with suppress(OSError):  # what it says is a courtesy, and on Windows the file itself is barred
            file.write_text(json.dumps({"process": os.getpid(), "since": time.strftime("%H:%M:%S")}), encoding="utf-8")
        yield
    finally:
        with suppress(OSError):
            file.unlink()  # while it is held: filelock looks whether the file that it has locked still has a name
        lock.release()
        for parent in made:
            with suppress(OSError):
                parent.rmdir()  # a refused command leaves nothing behind


@contextmanager
def in_turn(file: Path) -> Iterator[None]:
    """While inside, no other process is inside with the same lock file; where another is, this
    waits for it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(file):
        yield


def _lock_file(place: Path) -> Path:
    """The lock file of the folder at `place`: beside it or, where nothing can be written there nor
    the folder be moved, inside."""
    is_barred = place.is_dir() and not os.access(place.parent, os.W_OK)
    return place / ".lock" if is_barred else place.with_name(f".{place.name}.lock")


def _holder(file: Path) -> str:
    """Who holds a lock and since when, if that can be read."""
    try:
        note = json.loads(file.read_text(encoding="utf-8"))
        return f" (process {int(note['process'])} since {note['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
