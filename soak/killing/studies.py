"""Studies whose steps are forked, killed at work and continued."""

import json
import os
import random
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from anydepth.experiments.places import LocalPlace, LocalStep
from anydepth.experiments.steps import StudyStep
from anydepth.runs.run import Run
from killing.processes import check_same, ending_of, finish, is_running, launch, stat_of, tensors_of
from killing.trials import Bench

# What depends on the clock, on the folder and on how often a study was started, and not on what it
# computed; nor does the revision, which is the repository's when a step ends and so changes with a
# commit, or an edit, during the hour that the soak takes.
CLOCK = re.compile(r'"(minutes|training_minutes|tokens_per_second|stamp|command|revision)": [^,\n]*')


class Forked:
    """A step's process in the place of one that would load torch first."""

    def __init__(self, process: int) -> None:
        self.pid, self.code = process, None

    def poll(self) -> int | None:
        if self.code is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if ended else None
        return self.code

    def wait(self, timeout: float | None = None) -> int:
        self.code = ending_of(self.pid) if self.code is None else self.code
        return self.code

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)


def fork_steps() -> None:
    """Lets studies fork their steps, and note their numbers in a file beside the study."""

    def start(place: LocalPlace, step: StudyStep) -> LocalStep:
        step.log.unlink(missing_ok=True)
        process = launch(["study-step", step.folder.path, step.name], step.log)
        with open(steps_file(step.folder.path), "a", encoding="utf-8") as file:
            print(json.dumps({"process": process, "log": str(step.log)}), file=file, flush=True)
        return LocalStep(step, Forked(process))  # type: ignore[arg-type]

    LocalPlace.start = start  # type: ignore[method-assign]


def steps_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.steps")


def running_steps(folder: Path) -> Iterator[int]:
    """The processes of the study's steps that are running and have written something."""
    if not steps_file(folder).exists():
        return
    for line in steps_file(folder).read_text(encoding="utf-8").splitlines(keepends=True):
        note = json.loads(line) if line.endswith("\n") else {}
        if note and is_running(note["process"]) and (found := stat_of(Path(note["log"]))) and found.st_size:
            yield note["process"]


def kill_study(bench: Bench, folder: Path, log: Path, randomness: random.Random) -> bool:
    """Starts a study and kills it at a step, half of the times without the step; whether the step
    was at work. False at its end, too."""
    steps_file(folder).unlink(missing_ok=True)
    process = launch(bench.studying(folder), log)
    wait, first = randomness.uniform(0, bench.usuals["study"].seconds / 2), time.monotonic()
    while True:
        ended, _ = os.waitpid(process, os.WNOHANG)
        if ended:
            return False
        going = list(running_steps(folder)) if time.monotonic() - first > wait else []
        for step in going:
            os.kill(step, signal.SIGSTOP)
        going = [step for step in going if is_running(step)]  # now they stay where they are
        if going:
            break
        time.sleep(0.002)
    os.killpg(process, signal.SIGKILL)
    code = ending_of(process)
    for step in going:
        if randomness.random() < 0.5:
            os.killpg(step, signal.SIGKILL)
        os.kill(step, signal.SIGCONT)  # where it was not killed it finds out by itself
    return code == -signal.SIGKILL


def study_results(folder: Path) -> dict[str, object]:
    """The weights and the records of a study, without clock and place."""
    found: dict[str, object] = {}
    for file in sorted((folder / "records").rglob("*.json")):
        found[str(file.relative_to(folder))] = CLOCK.sub("", file.read_text(encoding="utf-8")).replace(
            str(folder), "STUDY"
        )
    for file in sorted((folder / "runs").glob("*/model.safetensors")):
        found[str(file.relative_to(folder))] = tensors_of(file)
    return found


def study_trial(bench: Bench, place: Path, randomness: random.Random, kills: int) -> int:
    """How many kills hit a study at work before it came to its end, with the results of one that
    nobody disturbed."""
    folder, log, hits = place / "study", place / "log", 0
    while hits < kills and kill_study(bench, folder, log, randomness):
        hits += 1
        for run in (folder / "runs").glob("[!.]*"):
            assert Run(run).config
    finish(bench.studying(folder), log)
    check_same("the study", study_results(folder), bench.study)
    return hits
