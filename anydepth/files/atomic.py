"""Files and folders that are either the old version or the new one, whenever the process is
killed."""

import errno
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from anydepth.errors import AnydepthError, UsageError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
TAKEN = {errno.ENOTEMPTY, errno.EEXIST}


@contextmanager
def replacing(path: Path, *, on_ready: Callable[[Path], None] | None = None) -> Iterator[Path]:
    """A temporary path to write to; on success what it holds becomes the contents of `path`.

    A regular file, or nothing, is replaced by a rename, whole or not at all: on failure the old
    file stays, and what a kill leaves is overwritten by the next attempt. A symbolic link is
    followed and stays. A device, a pipe and this process's own output are no versions that could be
    exchanged: they are written through. `on_ready`, where given, is called with the finished
    temporary file just before it is renamed.
    """
    path = Path(path)
    try:
        with _written_through(path) if _takes_a_stream(path) else _renamed(real_place(path), on_ready) as temporary:
            yield temporary
    except OSError as error:
        raise cannot_write(path, error) from error


@contextmanager
def _renamed(path: Path, on_ready: Callable[[Path], None] | None) -> Iterator[Path]:
    """A temporary path beside `path`; on success it is flushed to disk and renamed over `path`."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    temporary = _beside(path, "tmp")
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o666 & ~_umask())
        if on_ready is not None:
            on_ready(temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def _written_through(path: Path) -> Iterator[Path]:
    """A temporary path far from `path`; on success its contents are written to `path`, which stays
    what it is."""
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder) / path.name
        yield temporary
        own = _own_output(os.stat(path))
        if own is not None and sys.stdout is not None:
            sys.stdout.flush()  # what was printed before comes before
        with open(temporary, "rb") as written, open(path if own is None else os.dup(own), "wb") as stream:
            shutil.copyfileobj(written, stream)


def _takes_a_stream(path: Path) -> bool:
    """Whether `path` leads to something that is written to and not replaced."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return False
    if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
        return _own_output(found) is not None
    return True


def _own_output(found: os.stat_result) -> int | None:
    """The descriptor of standard output or standard error if that is the file `found`, as with
    /dev/stdout."""
    for number in (1, 2):
        with suppress(OSError):
            if os.path.samestat(os.fstat(number), found):
                return number
    return None


@contextmanager
def replacing_folder(to: Path) -> Iterator[Path]:
    """A new folder beside `to`, which takes the name and place of `to` on success and is removed on
    failure.

    A symbolic link is followed and stays. Between its two renames a kill leaves the old version as
    .NAME.old alone; whoever opens the folder next calls `put_back` first.
    """
    to = Path(to)
    try:
        place = real_place(to)
        if Path.cwd().is_relative_to(place):
            raise UsageError(
                f"{to} is the folder that the command was started in, which cannot be replaced; go to another one first"
            )
        put_back(to)
        temporary, old = _beside(place, "tmp"), _beside(place, "old")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
    except OSError as error:
        raise cannot_write(to, error) from error
    try:
        yield temporary
        while not _has_taken_the_place(temporary, place, old):
            pass  # somebody who opened the folder between the two renames has put the old version back
        if old.exists():
            os.replace(old, temporary)  # so that what is half removed is never put back
    except OSError as error:
        raise cannot_write(to, error) from error
    finally:
        put_back(to)
        shutil.rmtree(temporary, ignore_errors=True)


def take_place(new: Path, to: Path) -> None:
    """Gives the finished folder `new`, which is on the same disk, the name and place of `to`; what
    was there is removed.

    A kill leaves either of them at `to`, or the old one as `put_back` knows it and the new one where
    it was.
    """
    try:
        place = real_place(to)
        put_back(to)
        old = _beside(place, "old")
        while not _has_taken_the_place(new, place, old):
            pass  # as in replacing_folder
        if old.exists():
            removed = _beside(place, "tmp")
            shutil.rmtree(removed, ignore_errors=True)
            os.replace(old, removed)  # so that what is half removed is never put back
            shutil.rmtree(removed, ignore_errors=True)
    except OSError as error:
        raise cannot_write(to, error) from error
    finally:
        put_back(to)


def _has_taken_the_place(new: Path, place: Path, old: Path) -> bool:
    """Moves the folder at `place`, if any, to `old` and `new` to `place`; False if the place was
    taken again meanwhile."""
    if place.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.replace(place, old)
    try:
        os.replace(new, place)
    except OSError as error:
        if error.errno in TAKEN:
            return False
        raise
    return True


def put_back(folder: Path) -> None:
    """Gives a folder its name again if `replacing_folder` was killed between its two renames."""
    place = real_place(folder)
    if not place.exists() and (old := _beside(place, "old")).is_dir():
        with suppress(FileNotFoundError):  # another process was faster
            os.rename(old, place)


def real_place(path: Path) -> Path:
    """The path with every symbolic link followed; nothing needs to be there."""
    real = Path(os.path.realpath(path))
    if real.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return real


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name}.{ending}")


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8 `text` to `path`, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, data: bytes) -> None:
    """Writes `data` to `path`, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def cannot_write(path: Path, error: OSError) -> AnydepthError:
    """The error for a place that cannot be written to."""
    cure = "free some space" if error.errno in FULL else "check the path and its permissions"
    return AnydepthError(f"cannot write {path}: {error.strerror or error}; {cure} or choose another place")


def _umask() -> int:
    """The process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
