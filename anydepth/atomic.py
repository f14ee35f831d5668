"""Files and folders that are either the old version or the new one, whenever the process is killed."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anydepth.errors import AnydepthError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` to write to; on success it is flushed to disk and renamed over `path`.

    On failure the temporary file is removed and the old file stays. What a kill leaves is overwritten by the next attempt.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _cannot_write(path, error) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def replacing_folder(to: Path) -> Iterator[Path]:
    """A new folder beside `to`, which takes the name and place of `to` on success and is removed on failure."""
    to = Path(to)
    temporary, old = to.with_name(f".{to.name}.tmp"), to.with_name(f".{to.name}.old")
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        yield temporary
        if to.exists():
            shutil.rmtree(old, ignore_errors=True)
            os.replace(to, old)
        os.replace(temporary, to)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise _cannot_write(to, error) from error
    finally:
        if old.exists() and not to.exists():
            os.replace(old, to)
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8 `text` to `path`, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, data: bytes) -> None:
    """Writes `data` to `path`, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def _cannot_write(path: Path, error: OSError) -> AnydepthError:
    cure = "free some space" if error.errno in FULL else "check the path and its permissions"
    return AnydepthError(f"cannot write {path}: {error.strerror or error}; {cure} or choose another place")


def _umask() -> int:
    """The process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
