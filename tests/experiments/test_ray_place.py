"""Steps as Ray tasks: what they ask for, what no machine has, and how often they are started. The
cluster itself is that of tests/cli/test_study_ray.py."""

import _thread
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from experiments.studies import small_study

import anydepth
from anydepth.config.loading import load_config, with_changes
from anydepth.config.shipped import shipped_file
from anydepth.errors import UsageError
from anydepth.experiments.plan import make_plan
from anydepth.experiments.ray_place import MOST_STARTS, ClusterNode, RayPlace
from anydepth.experiments.records import MachineRecord
from anydepth.experiments.step_memory import PROGRAM, model_memory, step_memory
from anydepth.experiments.step_process import StepEnding, StepOrder, run_order
from anydepth.experiments.steps import CostStep, StudyStep, TrainStep
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.variants import EXPERIMENTS, Variant

GIB = 2**30
LARGE = ClusterNode(8, 64 * GIB)
STUDY = small_study("table1")


class LostTaskError(Exception):
    """What a cluster says of a task whose machine is gone."""


@dataclass
class ToyCluster:
    """As much of Ray as a place uses: a task is over at once, with the next of `outcomes`."""

    outcomes: list[StepEnding | Exception]
    asked: list[dict[str, Any]] = field(default_factory=list)
    exceptions: Any = field(
        default_factory=lambda: SimpleNamespace(RayTaskError=ZeroDivisionError, RayError=LostTaskError)
    )

    def remote(self, **needs: Any) -> Callable[[Any], Any]:
        self.asked.append(needs)
        return lambda function: SimpleNamespace(remote=lambda *given: self.outcomes.pop(0))

    def wait(self, tasks: list[Any], *, timeout: float) -> tuple[list[Any], list[Any]]:
        return tasks, []

    def get(self, task: Any) -> Any:
        if isinstance(task, Exception):
            raise task
        return task


def place_of(
    *outcomes: StepEnding | Exception, nodes: tuple[ClusterNode, ...] = (LARGE,), threads: int = 1
) -> tuple[RayPlace, ToyCluster, list[str]]:
    cluster, told = ToyCluster(list(outcomes)), list[str]()
    return RayPlace(2, threads, MachineRecord(), cluster, nodes, told.append), cluster, told


def train_step(path: Path) -> TrainStep:
    return TrainStep(STUDY, StudyFolder(path), Variant("a", "aligned"))


GOOD, FAILED, KILLED = StepEnding(0, ""), StepEnding(1, "no such luck"), StepEnding(-9, "it was ended by signal 9")


def endings(started: Any) -> list[StepEnding | None]:
    """What is told of a step at each look until it is over."""
    found = [started.ending()]
    while found[-1] is None:
        found.append(started.ending())
    return found


def test_a_step_that_is_lost_or_killed_is_started_again_and_told(tmp_path: Path) -> None:
    place, cluster, told = place_of(LostTaskError(), KILLED, GOOD)
    assert endings(place.start(train_step(tmp_path))) == [None, None, GOOD]
    assert told == [
        "train a: the machine or the process that ran it was lost (LostTaskError); started again (2 of 3)",
        "train a: it was ended by signal 9; started again (3 of 3)",
    ]
    assert len(cluster.asked) == MOST_STARTS
    assert all(needs["max_retries"] == 0 for needs in cluster.asked)


def test_a_step_that_is_lost_each_time_fails_after_the_last_start(tmp_path: Path) -> None:
    place, _, told = place_of(*[LostTaskError()] * MOST_STARTS)
    last = endings(place.start(train_step(tmp_path)))[-1]
    assert last is not None
    assert last.code < 0
    assert last.reason == "the machine or the process that ran it was lost (LostTaskError)"
    assert len(told) == MOST_STARTS - 1


@pytest.mark.parametrize(
    "outcome", [FAILED, ZeroDivisionError("somewhere\nno module 'anydepth'")], ids=["failed", "ray"]
)
def test_a_step_that_fails_is_not_started_again(tmp_path: Path, outcome: StepEnding | Exception) -> None:
    place, _, told = place_of(outcome)
    (found,) = endings(place.start(train_step(tmp_path)))
    assert found is not None
    assert (found.code, told) == (1, [])
    assert found.reason in ("no such luck", "Ray could not run it (no module 'anydepth')")


def test_a_step_asks_for_its_threads_and_memory_and_one_on_the_clock_for_all_cores_of_a_machine(tmp_path: Path) -> None:
    step, alone = train_step(tmp_path), CostStep(STUDY, StudyFolder(tmp_path))
    small = ClusterNode(16, 0.1 * GIB)
    place, _, _ = place_of(nodes=(small, ClusterNode(4, 64 * GIB), LARGE), threads=3)
    assert place.demand(step) == ClusterNode(3, step_memory(step))
    assert place.demand(alone) == ClusterNode(8, step_memory(alone))


@pytest.mark.parametrize(
    ("node", "has"), [(ClusterNode(1, 64 * GIB), "1 and 64.0 GiB"), (ClusterNode(8, 0.5 * GIB), "8 and 0.5 GiB")]
)
def test_a_step_that_no_machine_has_room_for_is_refused_with_what_there_is(
    tmp_path: Path, node: ClusterNode, has: str
) -> None:
    place, _, _ = place_of(nodes=(node,), threads=2)
    with pytest.raises(UsageError, match=rf"'train a' needs cores and memory of 2 and .* GiB on one machine.*{has}"):
        place.check_room([train_step(tmp_path)])
    place_of(threads=2)[0].check_room([train_step(tmp_path)])


def test_the_memory_of_every_kind_of_step_is_estimated(tmp_path: Path) -> None:
    steps: list[StudyStep] = make_plan(small_study(*EXPERIMENTS), StudyFolder(tmp_path))
    assert all(step_memory(step) >= PROGRAM for step in steps)
    assert len({type(step) for step in steps}) == 13


@pytest.mark.parametrize(
    ("settings", "changes", "seen"),
    [
        ("demo_study", [], 440),
        ("multi30k_study", [], 682),
        ("multi30k_race", [], 888),
        ("multi30k_race", ["model.encoder.blocks=6"], 1722),
    ],
)
def test_the_estimate_lies_above_the_memory_that_trainings_took(settings: str, changes: list[str], seen: int) -> None:
    config = with_changes(load_config(shipped_file(settings)), changes)
    estimate = (PROGRAM + model_memory(config, 3000)) // 2**20
    assert seen < estimate < 3 * seen
    page = (Path(anydepth.__file__).parents[1] / "docs" / "scale.md").read_text(encoding="utf-8")
    assert f"| {seen:,} | {estimate:,} |" in page


def test_more_paths_and_larger_batches_need_more_memory(tmp_path: Path) -> None:
    one, many = (
        TrainStep(STUDY, StudyFolder(tmp_path), Variant("m", "mixed", changes=("training.mode=mixed", *more)))
        for more in ((), ("training.paths=4",))
    )
    assert step_memory(many) > step_memory(one)


def order_at(path: Path, directory: Path) -> StepOrder:
    return StepOrder(path, "no such step", path / "log", 1, directory)


def test_what_a_machine_lacks_is_told_with_its_cure(tmp_path: Path) -> None:
    found = run_order(order_at(tmp_path / "none", tmp_path), anydepth.__version__)
    assert found.code == 2
    assert f"cannot start it (No such file or directory: {tmp_path / 'none' / 'log'})" in found.reason
    assert "under the same paths on all machines" in found.reason
    found = run_order(order_at(tmp_path, tmp_path), "9.9")
    assert found.code == 2
    assert f"has anydepth {anydepth.__version__} and the study was started by 9.9; install the same" in found.reason


class SleepingOrder(StepOrder):
    """An order whose process sleeps, while an interrupt comes the way Ray sends it."""

    def start(self) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        threading.Timer(0.1, _thread.interrupt_main).start()
        return process


@pytest.fixture
def as_python_begins() -> Iterator[None]:
    """An interrupt is an error of Python's own, as in a worker; a command of an earlier test may have
    left it otherwise."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("as_python_begins")
def test_a_task_that_is_cancelled_stops_the_process_of_its_step(tmp_path: Path) -> None:
    found = run_order(SleepingOrder(tmp_path, "a", tmp_path / "log", 1, tmp_path), anydepth.__version__)
    assert found == StepEnding(-signal.SIGTERM, "it was ended by signal 15")
