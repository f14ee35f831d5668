"""The folder of a bulk job: what it is (manifest.json), its output shards, a receipt for each that is
done, and a note for each time that one was begun."""

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from anydepth.bulk.crew import WorkIsHeld
from anydepth.bulk.inputs import InputKind, Shard
from anydepth.errors import UsageError
from anydepth.files.atomic import cannot_write, write_text
from anydepth.files.checksums import bytes_hash, checked_object, file_hash, with_checksum
from anydepth.files.reading import MEDIUM, Unreadable, check_regular, checked, json_of, read_bytes

FORMAT = 2
MOST_PROBLEMS = 20  # lines of one shard that may fail before all of it does


@dataclass(frozen=True)
class InputRecord:
    """An input as it was when the job began."""

    name: str
    kind: InputKind
    bytes: int
    sha256: str
    records: int
    shards: int


@dataclass(frozen=True)
class JobManifest:
    """What a job is: the model, the settings and the inputs. Two of them that differ are two jobs."""

    format: int
    version: str
    model: dict[str, str]
    settings: dict[str, str]
    inputs: list[InputRecord]

    @property
    def fingerprint(self) -> str:
        """What two jobs do not have in common."""
        return bytes_hash(json.dumps(asdict(self), sort_keys=True).encode())


@dataclass(frozen=True)
class LineProblem:
    """A line that could not be translated, and why."""

    line: int
    reason: str


@dataclass(frozen=True)
class Receipt:
    """What a finished shard holds. `unique` counts the different sentences, each of which was
    translated once; `attempts` how often the shard was begun; `source` is the SHA-256 of the lines
    that were translated, and `manifest` the fingerprint of the job's manifest."""

    input: str
    first: int
    records: int
    unique: int
    truncated: int
    bytes: int
    sha256: str
    source: str
    manifest: str
    attempts: int
    problems: list[LineProblem] = field(default_factory=list)


@dataclass(frozen=True)
class AttemptNote:
    """Who began a shard, and when."""

    host: str
    process: int
    at: str


@dataclass(frozen=True)
class JobFolder:
    """The places in the folder of a job."""

    path: Path

    @property
    def manifest_file(self) -> Path:
        return self.path / "manifest.json"

    def output_file(self, shard: Shard, ending: str) -> Path:
        """Where the output shard stands: beside the others of its input, in their order."""
        return self.path / "output" / shard.input / f"{shard.name}{ending}"

    def receipt_file(self, shard: Shard) -> Path:
        return self.path / "done" / shard.input / f"{shard.name}.json"

    def attempt_file(self, shard: Shard, attempt: int) -> Path:
        return self.path / "begun" / shard.input / f"{shard.name}.{attempt}.json"

    def _lock_file(self, shard: Shard) -> Path:
        return self.path / "begun" / shard.input / f".{shard.name}.lock"

    def read_manifest(self) -> JobManifest | None:
        """The manifest; None where there is none, and refused where it is damaged."""
        try:
            return checked(JobManifest, checked_object(read_bytes(self.manifest_file, most=MEDIUM)))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{self.manifest_file} is damaged ({error}); restore it from a copy, or begin again in another folder"
            ) from error

    def write_manifest(self, manifest: JobManifest) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write_text(self.manifest_file, json.dumps(with_checksum(asdict(manifest)), indent=1, ensure_ascii=False))

    def receipt(self, shard: Shard, ending: str, manifest: str) -> tuple[Receipt | None, str]:
        """The receipt of a shard whose output is as it was written, by this job and from these lines;
        or None and, where something is there that cannot be used, which file and why."""
        file, output = self.receipt_file(shard), self.output_file(shard, ending)
        try:
            found = checked(Receipt, checked_object(read_bytes(file, most=MEDIUM)))
        except FileNotFoundError:
            return None, f"{output} has no receipt" if output.exists() else ""
        except (OSError, ValueError) as error:
            return None, f"{file} is damaged ({error})"
        if (found.input, found.first, found.records) != (shard.input, shard.first, shard.records):
            return None, f"{file} is the receipt of another shard"
        if found.manifest != manifest:
            return None, f"{file} is the receipt of another job"
        if found.source != shard.source:
            return None, f"{file} is the receipt of other lines than the input has"
        try:
            check_regular(output)
            if file_hash(output) != found.sha256:
                return None, f"{output} is not as it was written (its checksum differs)"
        except FileNotFoundError:
            return None, f"{output} is missing"
        except (OSError, Unreadable) as error:
            return None, f"{output} cannot be read ({error})"
        return found, ""

    def is_held(self, shard: Shard) -> bool:
        """Whether a process is at work on the shard: that of a job that was killed may still be."""
        file = self._lock_file(shard)
        if not file.exists():
            return False
        try:
            with FileLock(file, timeout=0):
                return False
        except Timeout:
            return True

    def times_begun(self, shard: Shard) -> int:
        """How often the shard was begun, by its notes."""
        count = 0
        while self.attempt_file(shard, count + 1).exists():
            count += 1
        return count

    def holder(self, shard: Shard) -> str:
        """Who began the shard last, for people."""
        file = self.attempt_file(shard, self.times_begun(shard))
        try:
            note = checked(AttemptNote, json_of(read_bytes(file, most=MEDIUM)))
        except (OSError, ValueError):  # it is being written
            return "another process"
        return f"process {note.process} on {note.host} since {note.at}"

    @contextmanager
    def beginning(self, shard: Shard) -> Iterator[int]:
        """Notes that the shard is begun, for the n-th time, and holds it for this process; gives n."""
        file = self._lock_file(shard)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(file)
            lock.acquire(timeout=0)
        except Timeout:
            raise WorkIsHeld(f"{shard.place} is held by another process") from None
        except OSError as error:
            raise cannot_write(file, error) from error
        try:
            yield self._next_attempt(shard)
        finally:
            with suppress(OSError):
                file.unlink()  # while it is held, as in files/locks.py
            lock.release()

    def _next_attempt(self, shard: Shard) -> int:
        note = AttemptNote(socket.gethostname(), os.getpid(), time.strftime("%Y-%m-%d %H:%M:%S"))
        attempt = 1
        while True:
            try:
                with open(self.attempt_file(shard, attempt), "x", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(note)))
                return attempt
            except FileExistsError:
                attempt += 1
            except OSError as error:
                raise cannot_write(self.attempt_file(shard, attempt), error) from error

    def finish(self, shard: Shard, ending: str, data: bytes, receipt: Receipt) -> None:
        """Writes the output shard, whole, and then its receipt."""
        write_once(self.output_file(shard, ending), data)
        text = json.dumps(with_checksum(asdict(receipt)), ensure_ascii=False)
        write_once(self.receipt_file(shard), text.encode())

    def attempts(self) -> dict[str, int]:
        """How often each shard was begun, by INPUT/SHARD."""
        counts: dict[str, int] = {}
        begun = self.path / "begun"
        for file in begun.rglob("*.json"):
            name = re.sub(r"\.\d+\.json$", "", file.relative_to(begun).as_posix())
            counts[name] = counts.get(name, 0) + 1
        return counts

    def check_nothing_else(self, name: str, expected: set[str]) -> None:
        """Removes what kills left of writing, and refuses other files among the output shards of an
        input: who joins these would join them, too."""
        folder = self.path / "output" / name
        for file in sorted(folder.iterdir()) if folder.is_dir() else []:
            if file.name.startswith("."):
                if is_leftover(file):
                    file.unlink(missing_ok=True)
            elif file.name not in expected and file.is_file():
                raise UsageError(f"{file} is no output shard of this job; move it elsewhere")


def is_leftover(file: Path) -> bool:
    """Whether a temporary file is of a process of this machine that is gone."""
    match = re.fullmatch(r"\..*\.(?P<host>[^.]*)\.(?P<process>\d+)\.tmp", file.name)
    if match is None or match["host"] != _host():
        return False
    try:
        os.kill(int(match["process"]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def write_once(path: Path, data: bytes) -> None:
    """Writes `data` to `path`, whole or not at all, whoever else does the same at the same time: the
    temporary file is this process's own."""
    temporary = path.with_name(f".{path.name}.{_host()}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise cannot_write(path, error) from error


def output_record(
    shard: Shard, data: bytes, *, attempt: int, unique: int, truncated: int, problems: dict[int, str], manifest: str
) -> Receipt:
    """The receipt of an output shard."""
    return Receipt(
        input=shard.input,
        first=shard.first,
        records=shard.records,
        unique=unique,
        truncated=truncated,
        bytes=len(data),
        sha256=bytes_hash(data),
        source=shard.source,
        manifest=manifest,
        attempts=attempt,
        problems=[LineProblem(shard.first + number, reason) for number, reason in sorted(problems.items())],
    )


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())
