"""The files that a recipe needs, found by name in archives and folders and read as streams; nothing
is ever unpacked to disk."""

import gzip
import lzma
import os
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from anydepth.errors import AnydepthError, UsageError
from anydepth.messages.say import Say
from anydepth.text.corpus import decoded_lines

BYTES_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class WantedFile:
    """A file that a recipe needs: the names it goes by, of which the first that is there counts,
    and those of its official archive."""

    names: tuple[str, ...]
    archives: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.names[0]} ({' or '.join(self.archives)})"


@dataclass(frozen=True)
class TextFile:
    """A file of one sentence per line: `member` of the archive at `place`, or the file at `place`
    itself."""

    place: Path
    member: str | None = None

    @property
    def name(self) -> str:
        """The name without any folder."""
        return self.place.name if self.member is None else PurePosixPath(self.member).name

    def __str__(self) -> str:
        return str(self.place) if self.member is None else f"{self.place}:{self.member}"

    def lines(self) -> Iterator[str]:
        """The lines, one at a time; a name that ends in .gz is unpacked on the way."""
        with readable(self), self._opened() as file:
            if self.name.endswith(".gz"):
                with gzip.open(file) as unpacked:
                    yield from decoded_lines(unpacked, str(self))
            else:
                yield from decoded_lines(file, str(self))

    @contextmanager
    def _opened(self) -> Iterator[IO[bytes]]:
        if self.member is None:
            with open(self.place, "rb") as file:
                yield file
            return
        with tarfile.open(self.place) as archive:
            info = next((info for info in archive if info.isreg() and info.name == self.member), None)
            contents = archive.extractfile(info) if info else None
            if contents is None:
                raise AnydepthError(f"{self} is no longer there; leave the archive alone while it is read")
            yield contents


@contextmanager
def readable(name: object) -> Iterator[None]:
    """Turns the many errors of damaged archives into one sentence about `name`."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, tarfile.TarError) as error:
        raise AnydepthError(f"{name} is cut short, damaged or no tar archive; download it again") from error
    except OSError as error:
        raise AnydepthError(
            f"cannot read {name}: {error.strerror or error}; check the path and its permissions"
        ) from error


def find_files(places: Sequence[Path], wanted: Sequence[WantedFile], *, say: Say) -> list[TextFile]:
    """Where each wanted file is, in the order of `wanted`; all that are missing are named at once.

    A place is an archive, one of the files, or a folder with archives or files at any depth. Only
    the last part of a name counts, so that folders may be called anything, and links in archives
    are no files.
    """
    found: dict[str, list[TextFile]] = defaultdict(list)
    for place in dict.fromkeys(Path(os.path.realpath(place)) for place in places):
        for file in _wanted_in(place, wanted, say):
            found[file.name].append(file)
    missing = [file for file in wanted if not any(name in found for name in file.names)]
    if missing:
        where = " and ".join(map(str, places))
        raise UsageError(
            f"{where} lacks {', '.join(map(str, missing))}; give every archive with --archive, or a folder that "
            "has them"
        )
    return [_only(found[next(name for name in file.names if name in found)]) for file in wanted]


def in_twos(files: Sequence[TextFile]) -> list[tuple[TextFile, TextFile]]:
    """The files, source and target in turn, as pairs."""
    return list(zip(files[::2], files[1::2], strict=True))


def _only(files: list[TextFile]) -> TextFile:
    if len(files) > 1:
        raise UsageError(
            f"{files[0].name} is there {len(files)} times ({', '.join(map(str, files))}); give the one that is "
            "meant alone"
        )
    return files[0]


def _wanted_in(place: Path, wanted: Sequence[WantedFile], say: Say) -> Iterator[TextFile]:
    names = {name for file in wanted for name in file.names}
    archives = {name for file in wanted for name in file.archives}
    if not place.exists():
        raise UsageError(f"there is no {place}; give the archive as it was downloaded, or the folder it is in")
    if not place.is_file() and not place.is_dir():
        raise UsageError(
            f"{place} is neither a file nor a folder; give the archive as it was downloaded, or the folder it is in"
        )
    if place.is_dir():
        for path in _files_under(place):
            if path.name in names:
                yield TextFile(path)
            elif path.name in archives:
                yield from _members(path, names, say)
    elif place.name in names:
        yield TextFile(place)
    else:
        yield from _members(place, names, say)


def _files_under(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(parent, name) for name in sorted(names))


def _members(path: Path, names: set[str], say: Say) -> Iterator[TextFile]:
    """The wanted members of an archive, which is read to its end, so that damage shows before the
    long work."""
    say(f"looking through {path.name}")
    with readable(path), tarfile.open(path) as archive:
        for info in archive:
            if info.isreg() and PurePosixPath(info.name).name in names:
                yield TextFile(path, info.name)
        assert archive.fileobj
        while archive.fileobj.read(BYTES_AT_ONCE):
            pass  # the checksum of a packed archive comes last
