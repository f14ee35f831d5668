"""The process of one step: how it is started, asked to stop, and what is told of its end.

Nothing here loads torch: a worker of a Ray cluster that starts a step imports this module alone.
"""

import os
import platform
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import anydepth

PAUSE = 0.2  # seconds between two looks at a process
PATIENCE = 60.0  # seconds that an interrupted step has to leave a state behind


@dataclass(frozen=True)
class StepOrder:
    """What starts a step: the study's folder, the step's name, its log, its threads, and the
    directory that relative paths begin at."""

    folder: Path
    name: str
    log: Path
    threads: int
    directory: Path

    def start(self) -> "subprocess.Popen[bytes]":
        """A process for the step, which writes to the step's log."""
        threads = str(self.threads)
        environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        command = [sys.executable, "-m", "anydepth", "study-step", str(self.folder), self.name]
        with self.log.open("wb") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self.directory,
                start_new_session=True,
            )


@dataclass(frozen=True)
class StepEnding:
    """How a step ended: the exit code of its process, or minus the signal that ended it, and the
    reason to tell where it failed."""

    code: int
    reason: str


def ending(code: int, log: Path) -> StepEnding:
    """How a step with that log ended: a signal, or what it said last."""
    if code < 0:
        return StepEnding(code, f"it was ended by signal {-code}")
    return StepEnding(code, last_line(log) or f"it ended with exit code {code}")


def last_line(path: Path) -> str:
    """The last line that is not empty, without "error: "."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ") if lines else ""


def run_order(order: StepOrder, version: str) -> StepEnding:
    """How a step ended that was started on this machine by anydepth of that version. An interrupt
    stops it, with time to leave a state."""
    if version != anydepth.__version__:
        here = f"{platform.node()} has anydepth {anydepth.__version__}"
        return StepEnding(2, f"{here} and the study was started by {version}; install the same version on all machines")
    process = None
    try:
        process = order.start()
        while (code := process.poll()) is None:
            time.sleep(PAUSE)
    except OSError as error:
        return StepEnding(
            2,
            f"{platform.node()} cannot start it ({error.strerror}: {error.filename}); the study, its text and the "
            "directory of the command must be under the same paths on all machines",
        )
    except KeyboardInterrupt:
        if process is None:
            raise
        process.terminate()
        code = wait_or_kill(process, PATIENCE)
    return ending(code, order.log)


def wait_or_kill(process: "subprocess.Popen[bytes]", patience: float) -> int:
    """The exit code of a process that was asked to stop, which is killed when the seconds of
    `patience` are over."""
    try:
        return process.wait(timeout=max(0.1, patience))
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def die_with_parent() -> None:
    """Ends this process politely when the one that started it is gone, so that no step outlives a
    study that was killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()
