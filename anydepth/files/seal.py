"""The seal of a run: seal.json lists the SHA-256 of every file of the run directory, and is changed
with each of them.

A file is replaced in this order: its new contents are finished beside it, the seal lists them next
to the old ones, the file is renamed, the seal drops the old ones. Whenever the process is killed,
every file is one that the seal lists.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

from anydepth.errors import RunError
from anydepth.files import atomic
from anydepth.files.checksums import bytes_hash, checked_object, file_hash, forget_hash, known_hash, with_checksum
from anydepth.files.reading import LARGE

SEAL_NAME = "seal.json"
FORMAT = 1
# Stands among a file's hashes while it may be missing: before it is first there, and while it is
# removed
ABSENT = "absent"
METRICS_NAME = "metrics.jsonl"
SEALED_ENDINGS = {".toml", ".json", ".model", ".safetensors"}
CHECKPOINTS = "checkpoints"
# A file that another process is replacing does not fit the seal that was read just before; then
# both are read again.
ATTEMPTS = 10

Found = TypeVar("Found")


@dataclass
class SealedFiles:
    """The contents of a seal: the hashes that each file may have, and the length and hash of the
    metrics that were there at the last save."""

    files: dict[str, list[str]]
    metrics: tuple[int, str] = (0, bytes_hash(b""))

    def allowed(self, name: str) -> list[str]:
        """The hashes that the file `name` may have; one that was never written is absent."""
        return self.files.get(name, [ABSENT])

    def to_json(self) -> str:
        """The text of seal.json."""
        return (
            json.dumps(with_checksum({"format": FORMAT, "files": self.files, "metrics": list(self.metrics)}), indent=1)
            + "\n"
        )

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "SealedFiles":
        """The seal whose JSON object this is; a ValueError says what is wrong with it."""
        if values.get("format") != FORMAT:
            raise ValueError(f"format {values.get('format')!r}, but this version reads format {FORMAT}")
        files, metrics = values.get("files"), values.get("metrics")
        if not isinstance(files, dict) or not all(_are_texts(hashes) for hashes in files.values()):
            raise ValueError("its files have no lists of checksums")
        if not isinstance(metrics, list) or [type(each) for each in metrics] != [int, str] or metrics[0] < 0:
            raise ValueError("its metrics have no length and checksum")
        return cls(files, (metrics[0], metrics[1]))


@dataclass(frozen=True)
class Seal:
    """The seal of the run directory `folder`; only what it lists is believed, and only through it a
    file of the run is changed."""

    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / SEAL_NAME

    def contents(self) -> SealedFiles:
        """The contents of the seal; one that is missing or damaged is refused."""
        again = f"check what is in the run and seal it with `anydepth seal {self.folder}`"
        try:
            return SealedFiles.from_json(checked_object(self.file.read_bytes()))
        except FileNotFoundError as error:
            raise RunError(
                f"{self.folder} has no {SEAL_NAME}, by which its files are known to be whole; {again}"
            ) from error
        except (OSError, ValueError) as error:
            raise RunError(f"{self.file} is damaged ({error}); {again}") from error

    def has(self, path: Path) -> bool:
        """Whether the run has the file; one that went missing, or came from elsewhere, is
        refused."""

        def look(allowed: list[str]) -> tuple[bool, str, bool]:
            is_there = path.is_file()
            fits = any(each != ABSENT for each in allowed) if is_there else ABSENT in allowed
            return fits, "" if is_there else ABSENT, is_there

        return self._looked_at(path, look)

    def check(self, path: Path) -> str:
        """The hash of the file, which must be one that the seal lists."""

        def look(allowed: list[str]) -> tuple[bool, str, str]:
            found = known_hash(path) if path.is_file() else ABSENT
            return found != ABSENT and found in allowed, found, found

        return self._looked_at(path, look)

    def read(self, path: Path) -> bytes:
        """The contents of the file, which must be those that the seal lists."""

        def look(allowed: list[str]) -> tuple[bool, str, bytes]:
            data = self._contents(path) if path.is_file() else None
            found = ABSENT if data is None else bytes_hash(data)
            return data is not None and found in allowed, found, data or b""

        return self._looked_at(path, look)

    def names(self) -> list[str]:
        """The files that the run must have, by their names in its folder; one that went missing is
        among them."""
        files = self.contents().files
        return sorted(name for name, hashes in files.items() if ABSENT not in hashes or (self.folder / name).is_file())

    @contextmanager
    def replacing(self, path: Path) -> Iterator[Path]:
        """As `atomic.replacing`, for a file of the run."""
        check_kind(path)
        name, written = self._name(path), []

        def announce(temporary: Path) -> None:
            written.append(file_hash(temporary))
            with self._changing() as sealed:
                sealed.files[name] = [*(each for each in sealed.allowed(name) if each != written[0]), written[0]]

        with atomic.replacing(path, on_ready=announce) as temporary:
            yield temporary
        forget_hash(path)
        with self._changing() as sealed:
            sealed.files[name] = written

    def remove(self, paths: Iterable[Path]) -> None:
        """Removes files of the run; those that are gone already are forgotten."""
        paths = list(paths)
        if not paths:
            return
        with self._changing() as sealed:
            for path in paths:
                sealed.files[self._name(path)] = [
                    *(each for each in sealed.allowed(self._name(path)) if each != ABSENT),
                    ABSENT,
                ]
        for path in paths:
            path.unlink(missing_ok=True)
        with self._changing() as sealed:
            for path in paths:
                sealed.files.pop(self._name(path), None)

    def check_metrics(self, data: bytes) -> None:
        """Refuses `data`, the contents of metrics.jsonl, unless it begins with what was sealed."""
        path = self.folder / METRICS_NAME
        length, expected = self.contents().metrics
        if bytes_hash(data[:length]) != expected:
            raise self._refusal(path, "" if path.is_file() else ABSENT, [expected])

    def add_metrics(self, data: bytes) -> None:
        """Seals `data`, with which metrics.jsonl begins now; what comes after it has the checksums
        of its lines alone."""
        with self._changing() as sealed:
            sealed.metrics = (len(data), bytes_hash(data))

    def make(self) -> list[str]:
        """Seals the files of the run as they are now, whatever the seal was before, and returns
        their names."""
        paths = [*self.folder.iterdir(), *(self.folder / CHECKPOINTS).glob("*")]
        files = {
            name: [file_hash(path)] for path in sorted(paths) if path.is_file() and is_sealed(name := self._name(path))
        }
        metrics = self.folder / METRICS_NAME
        data = metrics.read_bytes() if metrics.is_file() else b""
        with self._lock():
            atomic.write_text(self.file, SealedFiles(files, (len(data), bytes_hash(data))).to_json())
        return list(files)

    def _looked_at(self, path: Path, look: Callable[[list[str]], tuple[bool, str, Found]]) -> Found:
        """What `look` finds at `path` once it fits the hashes that the seal allows; refused if it
        does not, and nobody is changing it."""
        check_kind(path)
        allowed = self.contents().allowed(self._name(path))
        for _ in range(ATTEMPTS):
            try:
                fits, state, found = look(allowed)
            except FileNotFoundError:  # replaced or removed while it was looked at
                fits, state = False, ABSENT
            if fits:
                return found
            before, allowed = allowed, self.contents().allowed(self._name(path))
            if allowed == before:
                break
        raise self._refusal(path, state, allowed)

    def _contents(self, path: Path) -> bytes:
        if path.stat().st_size > LARGE:
            raise RunError(f"{path} has more than {LARGE:,} bytes, which no such file needs; restore it from a copy")
        return path.read_bytes()

    def _refusal(self, path: Path, state: str, allowed: list[str]) -> RunError:
        vouch = f"`anydepth seal {self.folder}`"
        if state == ABSENT:
            if allowed == [ABSENT]:
                return RunError(f"there is no {path}; restore it from a copy or train again")
            return RunError(
                f"{path} is missing, but the run has written it; restore it from a copy, or do without it after {vouch}"
            )
        if all(each == ABSENT for each in allowed):
            return RunError(f"{path} was not written by this run; remove it, or vouch for it with {vouch}")
        return RunError(
            f"{path} is not as the run wrote it (its checksum differs); restore it from a copy, or vouch for it "
            f"with {vouch}"
        )

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _lock(self) -> FileLock:
        return FileLock(self.folder / f".{SEAL_NAME}.lock")

    @contextmanager
    def _changing(self) -> Iterator[SealedFiles]:
        """The contents of the seal, to be changed and written back; no other process changes it
        meanwhile."""
        with self._lock():
            sealed = self.contents()
            yield sealed
            atomic.write_text(self.file, sealed.to_json())


def seal_of(path: Path) -> Seal | None:
    """The seal of the run that the file at `path` belongs to, if it lies in one."""
    for folder in (path.parent, path.parent.parent):
        if (folder / SEAL_NAME).exists() and is_sealed(path.relative_to(folder).as_posix()):
            return Seal(folder)
    return None


def is_sealed(name: str) -> bool:
    """Whether a file of that name in a run directory belongs to its seal."""
    folder, _, file = name.rpartition("/")
    return (
        folder in ("", CHECKPOINTS)
        and not file.startswith(".")
        and name != SEAL_NAME
        and Path(file).suffix in SEALED_ENDINGS
    )


def check_kind(path: Path) -> None:
    """Refuses what is there and is no file: reading a pipe or writing to one may wait forever, and
    a device has no end."""
    if path.exists() and not path.is_file():
        raise RunError(f"{path} is not a file; remove it, or restore it from a copy")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """As `atomic.replacing`; where the file belongs to a sealed run, the seal is changed with
    it."""
    seal = seal_of(path)
    with atomic.replacing(path) if seal is None else seal.replacing(path) as temporary:
        yield temporary


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8 `text` to `path`, whole or not at all, and seals it where it belongs to a sealed
    run."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(each, str) for each in values)
