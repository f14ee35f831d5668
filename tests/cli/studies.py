"""Studies made in this process, step by step, and what is compared of studies that were killed."""

import re
from pathlib import Path

from anydepth.config.loading import save_config
from anydepth.experiments.definition import load_study
from anydepth.experiments.execution import Execution
from anydepth.experiments.places import LocalPlace
from anydepth.experiments.plan import make_plan
from anydepth.experiments.steps import needed_steps
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.wishes import StudyWishes, planned_study

# What depends on the clock and on how often a study was started, and not on what it computed.
CLOCK = re.compile(r'"(minutes|training_minutes|tokens_per_second)": [^,\n]*')
# The repository's when a record was written: a commit or an edit between two studies changes it.
REVISION = re.compile(r'"revision": [^,\n]*')
LINE = {"say": lambda line: None}


def plan_study(folder: Path, data: Path, settings: Path, *names: str) -> None:
    """Leaves a study at `folder` as a start of the command that is stopped at once would."""
    wishes, at = StudyWishes(names=list(names), data=data, to=folder, config=settings), StudyFolder(folder)
    study = planned_study(wishes, at, LocalPlace.of(1))[0]
    folder.mkdir(parents=True)
    save_config(study.config, at.config_file)
    Execution(study, at, make_plan(study, at), place=LocalPlace.of(1), **LINE).save()


def do_in_this_process(folder: Path) -> None:
    """Does every step of a planned study, one after the other."""
    at = StudyFolder(folder)
    study = load_study(at)
    steps = make_plan(study, at)
    for step in steps:
        step.perform(**LINE)
        at.steps.mkdir(parents=True, exist_ok=True)
        step.mark(needed_steps(step, steps), 0.1)
    Execution(study, at, steps, place=LocalPlace.of(1), **LINE).save()


def without_clock(folder: Path, to: Path) -> Path:
    """A copy of what a report is made from, without times, revision and the place of the study."""
    for file in [folder / "study.json", *sorted((folder / "records").rglob("*.json"))]:
        text = CLOCK.sub(r'"\1": 0', file.read_text(encoding="utf-8")).replace(str(folder), "STUDY")
        text = REVISION.sub('"revision": null', text)
        copy = to / file.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(re.sub(r'"command": "anydepth(?! train).*"', '"command": ""', text), encoding="utf-8")
    return to


def is_at_work(process: str, folder: Path, step: str) -> bool:
    """Whether a step's process has loaded torch and, if it trains, made updates."""
    if step.startswith("train "):
        metrics = folder / "runs" / step.removeprefix("train ") / "metrics.jsonl"
        return '"train"' in metrics.read_text(encoding="utf-8")
    return "libtorch" in Path(f"/proc/{process}/maps").read_text(encoding="utf-8")
