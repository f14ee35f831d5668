"""The steps of a study as tasks of a Ray cluster: each starts the step's process on a machine that
has its threads and its memory free."""

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anydepth
from anydepth.bulk.ray_cluster import ray_cluster
from anydepth.errors import UsageError
from anydepth.experiments.places import StartedStep, StepPlace, side_by_side
from anydepth.experiments.records import MachineRecord
from anydepth.experiments.step_memory import step_memory
from anydepth.experiments.step_process import StepEnding, run_order
from anydepth.experiments.steps import StudyStep
from anydepth.messages.say import Say

MOST_STARTS = 3  # of a step that is killed, or whose machine is lost
GRACE = 5.0  # seconds beyond the patience with a step, in which its machine kills it
GIB = 2**30


@dataclass(frozen=True)
class ClusterNode:
    """What a machine of the cluster has for tasks: cores, and bytes of memory."""

    cores: int
    memory: float


@dataclass(frozen=True)
class RayPlace(StepPlace):
    """A Ray cluster, whose machines see the study's folder under the same path."""

    ray: Any
    nodes: tuple[ClusterNode, ...]
    say: Say

    def demand(self, step: StudyStep) -> ClusterNode:
        """What a step asks for: its threads and its memory; all cores of the largest machine that has
        the memory, where nothing may run beside it."""
        memory = step_memory(step)
        cores = max((node.cores for node in self.nodes if node.memory >= memory), default=self.threads)
        return ClusterNode(cores if step.is_alone else self.threads, memory)

    def check_room(self, steps: Sequence[StudyStep]) -> None:
        for step in steps:
            asked = self.demand(step)
            if not any(node.cores >= asked.cores and node.memory >= asked.memory for node in self.nodes):
                had = ", ".join(f"{node.cores} and {node.memory / GIB:.1f} GiB" for node in self.nodes)
                raise UsageError(
                    f"{step.name!r} needs cores and memory of {asked.cores} and {asked.memory / GIB:.1f} GiB on one "
                    f"machine, and those of the Ray cluster have {had}; add a larger one, lower "
                    "training.batch_tokens, or start Ray there with --memory, if there is more than it found"
                )

    def start(self, step: StudyStep) -> "RayStep":
        return RayStep(self, step)

    def submit(self, step: StudyStep) -> Any:
        """The reference of a new task for the step."""
        asked = self.demand(step)
        # Ray would start a lost task again without a word and, where memory ran out, without end.
        task = self.ray.remote(num_cpus=asked.cores, memory=asked.memory, max_retries=0)(run_order)
        return task.remote(self.order(step), anydepth.__version__)


class RayStep(StartedStep):
    """A step in a task of a Ray cluster, which is started again when it is killed or lost."""

    def __init__(self, place: RayPlace, step: StudyStep) -> None:
        self.place, self.step = place, step
        self.starts, self.task = 1, place.submit(step)

    def ending(self) -> StepEnding | None:
        if not self.place.ray.wait([self.task], timeout=0)[0]:
            return None
        found = self.outcome()
        if found.code >= 0 or self.starts == MOST_STARTS:
            return found
        self.starts += 1
        self.place.say(f"{self.step.name}: {found.reason}; started again ({self.starts} of {MOST_STARTS})")
        self.task = self.place.submit(self.step)
        return None

    def outcome(self) -> StepEnding:
        """How the task ended; one that is lost ends as one that is killed."""
        errors = self.place.ray.exceptions
        try:
            found: StepEnding = self.place.ray.get(self.task)
        except errors.RayTaskError as error:
            said = str(error).strip().splitlines()
            return StepEnding(1, f"Ray could not run it ({said[-1] if said else type(error).__name__})")
        except errors.RayError as error:
            reason = f"the machine or the process that ran it was lost ({type(error).__name__})"
            return StepEnding(-signal.SIGKILL, reason)
        return found

    def ask_to_stop(self) -> None:
        self.place.ray.cancel(self.task)

    def wait(self, deadline: float) -> None:
        self.place.ray.wait([self.task], timeout=max(0.1, deadline + GRACE - time.monotonic()))


@contextmanager
def ray_place(address: str | None, jobs: int | None, *, say: Say) -> Iterator[RayPlace]:
    """The Ray cluster at `address`, or one that is started on this machine, as a place for `jobs` steps
    at a time; as many as it has cores if None."""
    with ray_cluster(address) as ray:
        nodes = tuple(
            ClusterNode(int(room["CPU"]), room.get("memory", 0.0))
            for node in ray.nodes()
            if node["Alive"] and (room := node["Resources"]).get("CPU", 0) >= 1
        )
        if not nodes:
            raise UsageError("no machine of the Ray cluster has a core for tasks; start Ray on one with --num-cpus")
        cores = sum(node.cores for node in nodes)
        chosen, threads = side_by_side(jobs or cores, cores)
        threads = min(threads, max(node.cores for node in nodes))
        counted = "1 machine" if len(nodes) == 1 else f"{len(nodes)} machines"
        machine = MachineRecord(processor=f"Ray cluster of {counted}", cores=cores, threads_per_run=threads)
        yield RayPlace(chosen, threads, machine, ray, nodes, say)
