"""Doing a plan: order, places side by side, failures that stop only what needs them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from experiments.studies import small_study

from anydepth.errors import Interrupted
from anydepth.experiments.execution import Execution, Going, last_line, why_it_failed
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


class Rehearsal(Execution):
    """An execution whose steps do nothing but leave their marker, or fail; it notes what ran beside
    what."""

    failing: frozenset[str] = frozenset()

    def start(self, step: StudyStep) -> Going:
        self.order = [*getattr(self, "order", []), step.name]
        program = FAIL if step.name in self.failing else LEAVE_RESULT
        with step.log.open("wb") as log:
            process = subprocess.Popen([sys.executable, "-c", program, str(step.result)], stdout=log, stderr=log)
        return Going(step, process)

    def has_ended(self, going: Going) -> bool:
        if going.process.poll() == 0:
            going.step.mark(needed_steps(going.step, self.steps), 1.5)
        return super().has_ended(going)


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


def rehearsal(tmp_path: Path, *failing: str, jobs: int = 1) -> tuple[Rehearsal, list[str]]:
    told: list[str] = []
    execution = Rehearsal(STUDY, StudyFolder(tmp_path), steps_at(tmp_path), jobs=jobs, threads=1, say=told.append)
    execution.failing = frozenset(failing)
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
    assert not hasattr(third, "order")


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
    beside: list[int] = []

    def start(step: StudyStep) -> Going:
        going = Rehearsal.start(execution, step)
        if step.is_alone:
            beside.append(len(execution.order))
        return going

    execution.start = start  # type: ignore[method-assign]
    assert execution.go() == []
    assert execution.order.index("time updates") == len(others) - 1
    assert beside == [len(others)]


def test_a_step_that_a_signal_ended_is_not_blamed_on_its_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("update 1,150  nll 2.5\n", encoding="utf-8")
    assert why_it_failed(-9, tmp_path / "log") == "it was ended by signal 9"
    assert why_it_failed(1, tmp_path / "log") == "update 1,150  nll 2.5"
    (tmp_path / "empty").write_text("", encoding="utf-8")
    assert why_it_failed(3, tmp_path / "empty") == "it ended with exit code 3"


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
