"""`anydepth study` killed in each of its steps ends as one that is not."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from cli.commands import PATIENCE, contents, done, finish, start
from cli.studies import do_in_this_process, is_at_work, plan_study, without_clock

from anydepth.experiments.definition import load_study
from anydepth.experiments.places import LocalPlace
from anydepth.experiments.plan import make_plan
from anydepth.experiments.steps import CompareStep, MeasureStep, StudyStep, TrainStep, WordsStep
from anydepth.experiments.study_folder import StudyFolder


@pytest.fixture
def unkilled(study_data: Path, study_settings: Path, tmp_path: Path) -> Path:
    """A study that was done with the threads of a step when one runs at a time: sums are rounded as
    they are split."""
    plan_study(tmp_path / "unkilled", study_data, study_settings, "figures6-9")
    threads = torch.get_num_threads()
    torch.set_num_threads(LocalPlace.of(1).threads)
    do_in_this_process(tmp_path / "unkilled")
    torch.set_num_threads(threads)
    return tmp_path / "unkilled"


def process_of_step(study: "subprocess.Popen[bytes]", name: str) -> int:
    """The number of the process that does the step, once the step is at work in it: torch is
    loaded, and a training has made updates."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        assert study.poll() is None, f"the study ended before it came to {name}"
        for child in Path(f"/proc/{study.pid}/task/{study.pid}/children").read_text(encoding="utf-8").split():
            with suppress(OSError):  # it may be gone
                words = Path(f"/proc/{child}/cmdline").read_text(encoding="utf-8").rstrip("\0").split("\0")
                if words[-3:-2] == ["study-step"] and words[-1] == name and is_at_work(child, Path(words[-2]), name):
                    return int(child)
        time.sleep(0.01)
    raise AssertionError(f"the study did not come to {name}")


def kill_at_work(study: "subprocess.Popen[bytes]", step: StudyStep, *, with_step: bool) -> None:
    """Kills a study while `step` is at work, which is shown; the step's process, too, or it is left
    to find out by itself."""
    try:
        child = process_of_step(study, step.name)
        os.kill(child, signal.SIGSTOP)
        while (state := state_of(child)) not in "TZX":  # stopped, or over
            time.sleep(0.001)
        assert state == "T" and not step.marker.exists(), f"{step.name} was over"
    finally:
        study.kill()
        study.communicate()
    os.kill(child, signal.SIGKILL if with_step else signal.SIGCONT)


def state_of(process: int) -> str:
    """The letter of a process' state."""
    return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_study_killed_in_each_of_its_steps_and_continued_has_the_report_of_one_that_was_not(
    unkilled: Path, study_data: Path, study_settings: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "killed" / "study"
    folder.parent.mkdir()
    command: Sequence[object] = [
        "study",
        "figures6-9",
        "--data",
        study_data,
        "--to",
        folder,
        "--config",
        study_settings,
        "--jobs",
        1,
    ]
    steps = make_plan(load_study(StudyFolder(unkilled)), StudyFolder(folder))
    assert {type(step) for step in steps} == {TrainStep, MeasureStep, WordsStep, CompareStep}
    for number, step in enumerate(steps):
        kill_at_work(start(*command), step, with_step=number % 3 != 0)
    outcome = finish(start(*command))
    assert outcome.code == 0, outcome.err
    first, second = without_clock(unkilled, tmp_path / "a" / "study"), without_clock(folder, tmp_path / "b" / "study")
    assert contents(first) == contents(second)
    for copy in (first, second):
        done("report", copy)
    assert contents(first) == contents(second)
    assert (first / "report.html").stat().st_size > 10_000
