"""Doing a plan: order, places side by side, failures that stop only what needs them."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from experiments.studies import small_study

from anydepth.errors import Interrupted
from anydepth.experiments.execution import Execution, Going
from anydepth.experiments.places import LocalPlace, LocalStep
from anydepth.experiments.records import MachineRecord
from anydepth.experiments.step_process import StepEnding, ending, last_line
from anydepth.experiments.steps import CompareStep, CostStep, MeasureStep, StudyStep, TrainStep, needed_steps
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.variants import Variant

LEAVE_RESULT = """
import pathlib, sys
result = pathlib.Path(sys.argv[1])
result.parent.mkdir(parents=True, exist_ok=True)
result.write_text("something")
"""
FAIL = "import sys; print('error: no such luck'); sys.exit(1)"


@dataclass(frozen=True)
class RehearsedStep(LocalStep):
    """A step that leaves its marker when its process has ended well."""

    def ending(self) -> StepEnding | None:
        found = super().ending()
        if found is not None and found.code == 0:
            self.step.mark(needed_steps(self.step, steps_at(self.step.folder.path)), 1.5)
        return found


@dataclass(frozen=True)
class RehearsalPlace(LocalPlace):
    """A place whose steps do nothing but leave their marker, or fail; it notes what was started, and
    beside what."""

    failing: frozenset[str] = frozenset()
    order: list[str] = field(default_factory=list)
    beside: dict[str, int] = field(default_factory=dict)
    processes: "list[subprocess.Popen[bytes]]" = field(default_factory=list)

    def start(self, step: StudyStep) -> RehearsedStep:
        self.order.append(step.name)
        self.beside[step.name] = sum(process.poll() is None for process in self.processes)
        program = FAIL if step.name in self.failing else LEAVE_RESULT
        with step.log.open("wb") as log:
            process = subprocess.Popen([sys.executable, "-c", program, str(step.result)], stdout=log, stderr=log)
        self.processes.append(process)
        return RehearsedStep(step, process)


STUDY = small_study("table1")


def steps_at(path: Path) -> list[StudyStep]:
    """Three runs, the second a second stage of the first, of which two are measured."""
    folder = StudyFolder(path)
    first, second, third = Variant("a", "aligned"), Variant("b", "halting", origin="a"), Variant("c", "mixed")
    measured = [MeasureStep(STUDY, folder, variant) for variant in (first, second)]
    return [
        TrainStep(STUDY, folder, first),
        measured[0],
        TrainStep(STUDY, folder, second),
        measured[1],
        TrainStep(STUDY, folder, third),
        CompareStep(STUDY, folder, tuple(measured)),
    ]


class Rehearsal(Execution):
    """An execution whose steps are only rehearsed."""

    place: RehearsalPlace

    @property
    def order(self) -> list[str]:
        """What was started, in that order."""
        return self.place.order


def rehearsal(tmp_path: Path, *failing: str, jobs: int = 1) -> tuple[Rehearsal, list[str]]:
    told: list[str] = []
    place = RehearsalPlace(jobs, 1, MachineRecord(), frozenset(failing))
    execution = Rehearsal(STUDY, StudyFolder(tmp_path), steps_at(tmp_path), place=place, say=told.append)
    return execution, told


def states(tmp_path: Path) -> dict[str, str]:
    steps = json.loads((tmp_path / "study.json").read_text(encoding="utf-8"))["steps"]
    return {step["name"]: step["state"] for step in steps}


@pytest.mark.parametrize("jobs", [1, 2, 9])
def test_every_step_is_done_once_and_after_what_it_needs(tmp_path: Path, jobs: int) -> None:
    execution, _ = rehearsal(tmp_path, jobs=jobs)
    assert execution.go() == []
    steps = steps_at(tmp_path)
    assert sorted(execution.order) == sorted(step.name for step in steps)
    for step in steps:
        assert all(execution.order.index(need) < execution.order.index(step.name) for need in step.needs)
    assert set(states(tmp_path).values()) == {"done"}


def test_a_failure_is_told_and_stops_only_what_needs_it(tmp_path: Path) -> None:
    execution, told = rehearsal(tmp_path, "train b")
    assert execution.go() == ["train b", "measure b"]
    assert execution.order == ["train a", "measure a", "train b", "train c", "compare"]
    assert states(tmp_path) == {
        "train a": "done", "measure a": "done", "train b": "failed", "measure b": "blocked", "train c": "done",
        "compare": "done",
    }  # fmt: skip
    assert any("train b FAILED: no such luck (see " in line and "the others continue" in line for line in told)


def test_what_is_done_is_not_done_again_and_what_failed_is(tmp_path: Path) -> None:
    rehearsal(tmp_path, "train b")[0].go()
    again, _ = rehearsal(tmp_path)
    assert again.go() == []
    assert again.order == ["train b", "measure b", "compare"]
    third, _ = rehearsal(tmp_path)
    assert third.go() == []
    assert third.order == []


def test_an_interrupt_ends_the_steps_and_leaves_the_study_written_down(tmp_path: Path) -> None:
    execution, _ = rehearsal(tmp_path)

    def interrupt(going: Going) -> bool:
        raise Interrupted("stopped")

    execution.has_ended = interrupt  # type: ignore[method-assign]
    with pytest.raises(Interrupted):
        execution.go()
    assert set(states(tmp_path).values()) == {"waiting"}


def test_the_time_left_goes_by_what_training_took_so_far(tmp_path: Path) -> None:
    execution, _ = rehearsal(tmp_path, jobs=2)
    assert execution.left() == ""
    execution.progress.done = {"train a": 3.0, "measure a": 1.0}
    # 4 minutes for 50,000 of 112,500 updates; the rest is done on two places.
    assert execution.left() == "; about 2:30 left"


def test_a_record_that_was_removed_is_made_again(tmp_path: Path) -> None:
    rehearsal(tmp_path)[0].go()
    StudyFolder(tmp_path).run_record("a").unlink()
    again, _ = rehearsal(tmp_path)
    assert again.go() == []
    assert again.order == ["measure a", "compare"]


def test_what_needs_a_step_that_is_done_again_is_done_again_too(tmp_path: Path) -> None:
    rehearsal(tmp_path)[0].go()
    steps_at(tmp_path)[0].mark([], 2.0)  # "train a", by hand, with other results
    again, _ = rehearsal(tmp_path)
    assert again.go() == []
    assert again.order == ["measure a", "train b", "measure b", "compare"]


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_step_that_watches_the_clock_runs_by_itself_after_the_others(tmp_path: Path, jobs: int) -> None:
    execution, _ = rehearsal(tmp_path, jobs=jobs)
    others = list(execution.steps)
    execution.steps = [CostStep(STUDY, execution.folder), *others]
    assert execution.go() == []
    assert execution.order.index("time updates") == len(others) - 1
    assert execution.place.beside["time updates"] == 0
    assert jobs == 1 or max(execution.place.beside.values()) > 0, "nothing ran side by side, so this shows little"


def test_a_step_that_a_signal_ended_is_not_blamed_on_its_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("update 1,150  nll 2.5\n", encoding="utf-8")
    assert ending(-9, tmp_path / "log").reason == "it was ended by signal 9"
    assert ending(1, tmp_path / "log").reason == "update 1,150  nll 2.5"
    (tmp_path / "empty").write_text("", encoding="utf-8")
    assert ending(3, tmp_path / "empty").reason == "it ended with exit code 3"


WHOLE = '{"minutes": 2.5, "stamp": "1", "seen": {}}'


@pytest.mark.parametrize(
    ("text", "minutes"), [(WHOLE, 2.5), ('{"minutes": ', None), ('{"minutes": 2.5}', None), ("[]", None)]
)
def test_a_marker_counts_only_when_it_is_whole(tmp_path: Path, text: str, minutes: float | None) -> None:
    step = CostStep(STUDY, StudyFolder(tmp_path))
    for path, content in ((step.result, "{}"), (step.marker, text)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    assert step.minutes() == minutes
    step.result.unlink()
    assert step.minutes() is None


def test_the_reason_of_a_failure_is_the_last_line_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("working\nerror: something is wrong; do this\n\n", encoding="utf-8")
    assert last_line(tmp_path / "log") == "something is wrong; do this"
