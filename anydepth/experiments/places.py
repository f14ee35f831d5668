"""Where the steps of a study run: places that start them, the same way of asking whatever the
place."""

import os
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from anydepth.clock.machine import cpu_name
from anydepth.experiments.records import MachineRecord
from anydepth.experiments.step_process import StepEnding, StepOrder, ending, wait_or_kill
from anydepth.experiments.steps import StudyStep


class StartedStep(ABC):
    """A step that was started somewhere."""

    @abstractmethod
    def ending(self) -> StepEnding | None:
        """How it ended; None while it goes on."""

    @abstractmethod
    def ask_to_stop(self) -> None:
        """Asks it to stop, which lets training leave a state."""

    @abstractmethod
    def wait(self, deadline: float) -> None:
        """Waits until it has stopped; at the deadline, by the monotonic clock, it is killed."""


@dataclass(frozen=True)
class StepPlace(ABC):
    """What runs the steps of a study: so many at a time, each with so many threads, on such
    machines."""

    jobs: int
    threads: int
    machine: MachineRecord

    @abstractmethod
    def check_room(self, steps: Sequence[StudyStep]) -> None:
        """A UsageError where a step would never find what it needs."""

    @abstractmethod
    def start(self, step: StudyStep) -> StartedStep:
        """Starts a step, which writes to its log."""

    def order(self, step: StudyStep) -> StepOrder:
        """What starts a step here."""
        return StepOrder(step.folder.path, step.name, step.log.absolute(), self.threads, Path.cwd())


@dataclass(frozen=True)
class LocalStep(StartedStep):
    """A step in a process on this machine."""

    step: StudyStep
    process: "subprocess.Popen[bytes]"

    def ending(self) -> StepEnding | None:
        code = self.process.poll()
        return None if code is None else ending(code, self.step.log)

    def ask_to_stop(self) -> None:
        self.process.terminate()

    def wait(self, deadline: float) -> None:
        wait_or_kill(self.process, deadline - time.monotonic())


@dataclass(frozen=True)
class LocalPlace(StepPlace):
    """This machine, with a process for each step."""

    @classmethod
    def of(cls, jobs: int | None) -> "LocalPlace":
        """All cores of this machine, shared by `jobs` steps at a time."""
        cores = os.cpu_count() or 1
        chosen, threads = side_by_side(jobs, cores)
        return cls(chosen, threads, MachineRecord(processor=cpu_name(), cores=cores, threads_per_run=threads))

    def check_room(self, steps: Sequence[StudyStep]) -> None:
        """A step takes what this machine has."""

    def start(self, step: StudyStep) -> LocalStep:
        return LocalStep(step, self.order(step).start())


def side_by_side(jobs: int | None, cores: int) -> tuple[int, int]:
    """How many steps run at a time, and the threads of each: one thread per step gets most out of
    small models on a CPU."""
    chosen = jobs if jobs is not None else 1 if torch.cuda.is_available() else cores
    return chosen, max(1, cores // chosen)
