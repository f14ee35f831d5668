"""Doing a plan: steps side by side, each in a process of its own; what is done stays done, a
failure stops only what needs it."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from anydepth.errors import Interrupted
from anydepth.experiments.definition import Study, save_study
from anydepth.experiments.places import StartedStep, StepPlace
from anydepth.experiments.records import StepState
from anydepth.experiments.step_process import PATIENCE, PAUSE
from anydepth.experiments.steps import StudyStep, needed_steps
from anydepth.experiments.study_folder import StudyFolder
from anydepth.messages.say import Say
from anydepth.messages.times import describe_seconds


@dataclass
class Going:
    """A step that was started and goes on."""

    step: StudyStep
    started: StartedStep


@dataclass
class PlanProgress:
    """How far the steps of a plan are."""

    done: dict[str, float] = field(default_factory=dict)  # minutes
    failed: dict[str, str] = field(default_factory=dict)  # reasons

    def is_ready(self, step: StudyStep) -> bool:
        """Whether what the step cannot do without is done."""
        return step.takes_what_there_is or all(need in self.done for need in step.needs)

    def blocking(self, step: StudyStep, blocked: Collection[str]) -> str | None:
        """The first step whose failure keeps `step` from being done, where `blocked` are those that
        cannot be done either."""
        if step.takes_what_there_is:
            return None
        return next((need for need in step.needs if need in self.failed or need in blocked), None)


class Execution:
    """The steps of a plan and the place where they run; `go` does those that are left."""

    def __init__(
        self, study: Study, folder: StudyFolder, steps: Sequence[StudyStep], *, place: StepPlace, say: Say
    ) -> None:
        self.study, self.folder, self.steps = study, folder, steps
        self.place, self.say = place, say
        self.progress = PlanProgress()
        for step in steps:  # in their order, so that what needs a step that is to be done again is, too
            minutes = step.minutes(needed_steps(step, steps))
            if minutes is not None and self.progress.is_ready(step):
                self.progress.done[step.name] = minutes

    def go(self) -> list[str]:
        """Does what is left and can be done; the names of the steps that failed or were blocked by
        a failure.

        Comparing comes last, with whatever has been measured by then.
        """
        self.folder.logs.mkdir(parents=True, exist_ok=True)
        self.folder.steps.mkdir(parents=True, exist_ok=True)
        self.save()
        *most, last = self.steps
        if any(step.name not in self.progress.done for step in most):
            self.progress.done.pop(last.name, None)  # what it compared is about to grow
        for step in self.steps:
            if step.name not in self.progress.done:
                step.marker.unlink(missing_ok=True)
        self.run_all(most)
        if last.name not in self.progress.done:
            self.run_all([last])
        return [step.name for step in self.steps if step.name not in self.progress.done]

    def run_all(self, steps: Sequence[StudyStep]) -> None:
        """Runs the steps, as many side by side as the place has room for, until none is left that can be done."""
        going: list[Going] = []
        waiting = [step for step in steps if step.name not in self.progress.done]
        try:
            while waiting or going:
                going = [each for each in going if not self.has_ended(each)]
                for step in self.startable(waiting, going):
                    waiting.remove(step)
                    going.append(self.start(step))
                if not going:
                    return  # all that waits is blocked
                time.sleep(PAUSE)
        except BaseException:
            self.end(going)
            raise

    def startable(self, waiting: Sequence[StudyStep], going: Sequence[Going]) -> list[StudyStep]:
        """The steps to start now; one that watches the clock when nothing else is left to run
        beside it, and by itself."""
        ready = [step for step in waiting if self.progress.is_ready(step)]
        together = [step for step in ready if not step.is_alone]
        if together or going:
            is_occupied = any(each.step.is_alone for each in going)
            return [] if is_occupied else together[: self.place.jobs - len(going)]
        return ready[:1]

    def start(self, step: StudyStep) -> Going:
        """Starts the step and tells so."""
        started = self.place.start(step)
        self.say(f"{self.counted()}  {step.name}")
        return Going(step, started)

    def has_ended(self, going: Going) -> bool:
        """Whether the step is over; then what came of it is noted and told."""
        ending, step = going.started.ending(), going.step
        if ending is None:
            return False
        minutes = step.minutes()
        if ending.code == 0 and minutes is not None:
            self.progress.done[step.name] = minutes
            self.say(f"{self.counted()}  {step.name}: done in {describe_seconds(60 * minutes)}{self.left()}")
        else:
            self.progress.failed[step.name] = ending.reason
            self.say(f"{self.counted()}  {step.name} FAILED: {ending.reason} (see {step.log}); the others continue")
        self.save()
        return True

    def end(self, going: Sequence[Going]) -> None:
        """Asks the steps to stop, which lets training leave a state, and waits for them."""
        for each in going:
            each.started.ask_to_stop()
        deadline = time.monotonic() + PATIENCE
        for each in going:
            each.started.wait(deadline)
        self.save()

    def save(self) -> None:
        """Writes how far the study is."""
        blocked: set[str] = set()
        told = []
        for step in self.steps:
            name = step.name
            state: StepState = "waiting"
            reason = None
            if name in self.progress.done:
                state = "done"
            elif name in self.progress.failed:
                state, reason = "failed", self.progress.failed[name]
            elif (missing := self.progress.blocking(step, blocked)) is not None:
                blocked.add(name)
                state, reason = "blocked", f"{missing} failed"
            told.append(step.record(state, self.progress.done.get(name), reason))
        save_study(self.folder, self.study, told)

    def counted(self) -> str:
        """How many steps are done, as in [3/20]."""
        return f"[{len(self.progress.done)}/{len(self.steps)}]"

    def left(self) -> str:
        """How long the rest may take, if measuring goes on taking the same share of the time."""
        cost = sum(step.cost for step in self.steps if step.name in self.progress.done)
        rest = sum(step.cost for step in self.steps if step.name not in self.progress.done)
        if not cost or not rest:
            return ""
        minutes = sum(self.progress.done.values()) / cost * rest / self.place.jobs
        return f"; about {describe_seconds(60 * minutes)} left"


def stopped(folder: StudyFolder) -> Interrupted:
    """The message for a user who interrupts a study."""
    return Interrupted(f"stopped; what is done stays in {folder.path}, and the same command goes on with the rest")
