"""Studies made in this process, step by step."""

from pathlib import Path

from anydepth.config.loading import save_config
from anydepth.experiments import wishes as wishing
from anydepth.experiments.definition import load_study
from anydepth.experiments.execution import Execution
from anydepth.experiments.plan import make_plan
from anydepth.experiments.steps import needed_steps
from anydepth.experiments.study_folder import StudyFolder

LINE = {"say": lambda line: None}


def plan_study(folder: Path, data: Path, settings: Path, *names: str) -> None:
    """Leaves a study at `folder` as a start of the command that is stopped at once would."""
    wishes, place = (
        wishing.StudyWishes(names=list(names), data=data, to=folder, config=settings, jobs=1),
        StudyFolder(folder),
    )
    study = wishing.planned_study(wishes, place)[0]
    folder.mkdir(parents=True)
    save_config(study.config, place.config_file)
    Execution(study, place, make_plan(study, place), jobs=1, threads=1, **LINE).save()


def do_in_this_process(folder: Path) -> None:
    """Does every step of a planned study, one after the other."""
    place = StudyFolder(folder)
    study = load_study(place)
    steps = make_plan(study, place)
    for step in steps:
        step.perform(**LINE)
        place.steps.mkdir(parents=True, exist_ok=True)
        step.mark(needed_steps(step, steps), 0.1)
    Execution(study, place, steps, jobs=1, threads=1, **LINE).save()
