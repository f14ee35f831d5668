"""A study: the paper's experiments on any prepared text, from the plan to the records that the
report is made of."""

import time
from pathlib import Path

from anydepth.config.loading import save_config
from anydepth.errors import AnydepthError, Interrupted, UsageError
from anydepth.experiments.definition import load_study
from anydepth.experiments.execution import Execution, stopped
from anydepth.experiments.places import StepPlace
from anydepth.experiments.plan import estimate, make_plan, plan_table
from anydepth.experiments.steps import needed_steps
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.wishes import StudyWishes, planned_study
from anydepth.files.locks import in_turn, one_writer
from anydepth.messages.say import Say


def run_study(wishes: StudyWishes, place: StepPlace, *, is_dry: bool, say: Say) -> None:
    """Shows the plan and does what is left of it, with steps that run at `place`. A study that was
    begun in the same folder goes on, with further experiments if they are new; other settings than
    it was begun with are refused."""
    folder = StudyFolder(wishes.to)
    study, seconds = planned_study(wishes, folder, place)
    steps = make_plan(study, folder)
    execution = Execution(study, folder, steps, place=place, say=say)
    place.check_room([step for step in steps if step.name not in execution.progress.done])
    print(plan_table(steps, execution.progress.done, seconds), flush=True)
    say(estimate(steps, execution.progress.done, seconds, place.jobs))
    if is_dry:
        return
    folder.path.mkdir(parents=True, exist_ok=True)
    with one_writer(folder.path):
        save_config(study.config, folder.config_file)
        try:
            left = execution.go()
        except (Interrupted, KeyboardInterrupt):
            raise stopped(folder) from None
    say(
        f"\nall {len(steps)} steps: {len(steps) - len(left)} done"
        + (f", {len(left)} failed or waiting for a failed one" if left else "")
    )
    say(f"the page: anydepth report {folder.path}")
    if left:
        raise AnydepthError(
            f"{left[0]} failed or could not be done (see {folder.logs}); the same command tries again what is left"
        )


def do_step(path: Path, name: str, *, say: Say) -> None:
    """Does one step of the study at `path` and leaves a marker; does nothing where another process
    has done it meanwhile."""
    folder = StudyFolder(path)
    study = load_study(folder)
    steps = make_plan(study, folder)
    step = next((step for step in steps if step.name == name), None)
    if step is None:
        raise UsageError(f"{path} has no step {name!r}; see its study.json")
    needs = needed_steps(step, steps)
    with in_turn(step.lock):
        if step.minutes(needs) is not None:
            return
        started = time.monotonic()
        step.perform(say=say)
        step.finish(needs, time.monotonic() - started)
