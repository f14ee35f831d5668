"""Commands in processes that are forked, watched while they write, and killed."""

import itertools
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anydepth.cli import main as cli
from anydepth.model.checkpoint import load_tensors

PATIENCE = 300.0
OPERATIONS = ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir")


class WrongError(Exception):
    """What a kill must not do."""


def launch(arguments: list[object], log: Path, *, at_write: int | None = None, count_to: Path | None = None) -> int:
    """The number of a process, leader of its own group, that does `anydepth ARGUMENTS` and writes
    what it says to `log`.

    With `at_write` it kills its group just before that write (1, 2, ...); with `count_to` it notes
    how many there were.
    """
    sys.stdout.flush()
    process = os.fork()
    if process:
        return process
    code: Any = 70
    try:
        os.setsid()
        for number, file in (
            (0, os.open(os.devnull, os.O_RDONLY)),
            (1, os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)),
        ):
            os.dup2(file, number)
        os.dup2(1, 2)
        writes = watch_writes(at_write)
        sys.argv = ["anydepth", *map(str, arguments)]
        try:
            cli.main()
            code = 0
        except SystemExit as ending:
            code = ending.code or 0
        if count_to is not None:
            count_to.write_text(str(next(writes) - 1))
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)


def watch_writes(deadly: int | None) -> "itertools.count[int]":
    """Counts flushes, renames, removals and new folders from now on, and kills the group before the
    `deadly` one."""
    writes = itertools.count(1)

    def watched(operation: Callable[..., Any]) -> Callable[..., Any]:
        def operate(*arguments: Any, **options: Any) -> Any:
            if next(writes) == deadly:
                os.killpg(0, signal.SIGKILL)
            return operation(*arguments, **options)

        return operate

    for name in OPERATIONS:
        setattr(os, name, watched(getattr(os, name)))
    return writes


def ending_of(process: int) -> int:
    """The exit code of a process that must end; minus the signal's number if a signal ended it."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise WrongError(f"the command did not end in {PATIENCE:.0f} seconds")


def finish(arguments: list[object], log: Path) -> None:
    """Does a command that must come to a good end."""
    log.unlink(missing_ok=True)
    code = ending_of(launch(arguments, log))
    if code != 0:
        last = (log.read_text(encoding="utf-8").splitlines() or [""])[-1]
        raise WrongError(f"anydepth {' '.join(map(str, arguments))}: exit code {code}: {last}")


def is_running(process: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@dataclass(frozen=True)
class Usual:
    """How a command goes if nobody disturbs it: its writes and its seconds."""

    writes: int
    seconds: float


def usual(arguments: list[object], log: Path) -> Usual:
    """Does a command once and looks how it goes."""
    note, started = log.with_suffix(".count"), time.monotonic()
    code = ending_of(launch(arguments, log, count_to=note))
    if code != 0:
        raise SystemExit(f"cannot begin: anydepth {' '.join(map(str, arguments))}: {log.read_text(encoding='utf-8')}")
    return Usual(int(note.read_text()), time.monotonic() - started)


def has_hit(
    arguments: list[object], log: Path, usual: Usual, randomness: random.Random, has_begun: Callable[[], bool]
) -> bool:
    """Starts a command and kills it, at one of its writes or at any moment after it has begun to
    write; whether that hit it at work."""
    if randomness.random() < 0.5:
        return ending_of(launch(arguments, log, at_write=randomness.randint(2, usual.writes))) == -signal.SIGKILL
    process = launch(arguments, log)
    while not has_begun():
        ended, _ = os.waitpid(process, os.WNOHANG)
        if ended:
            return False
        time.sleep(0.0005)
    time.sleep(randomness.uniform(0, usual.seconds))
    os.killpg(process, signal.SIGKILL)
    return ending_of(process) == -signal.SIGKILL  # one that had ended by itself keeps its own exit code


# what is looked at


def tensors_of(path: Path) -> dict[str, bytes]:
    """The bytes of every tensor in a file."""
    return {name: tensor.numpy().tobytes() for name, tensor in load_tensors(path)[0].items()}


def state_of(*paths: Path) -> list[object]:
    """What changes when one of these files does."""
    return [(found.st_size, found.st_mtime_ns, found.st_ino) if (found := stat_of(path)) else None for path in paths]


def stat_of(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def has_temporaries(folder: Path) -> bool:
    """Whether something is being written in `folder` or in its place."""
    beside = folder.with_name(f".{folder.name}.tmp")
    try:
        return (beside.is_dir() and any(beside.iterdir())) or any(folder.glob("**/.*.tmp"))
    except FileNotFoundError:
        return False


def check_same(what: str, mine: object, theirs: object) -> None:
    if mine != theirs:
        raise WrongError(f"{what} differs from that of an undisturbed command")
