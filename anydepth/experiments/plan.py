"""A study as a plan: its steps in an order in which they can be done, and how long they may
take."""

from collections.abc import Sequence

from anydepth.experiments.definition import Study
from anydepth.experiments.race import heats, race_runs
from anydepth.experiments.race_steps import (
    AgreeOnWordsStep,
    ChooseWordsStep,
    HeatStep,
    HoldOutStep,
    JoinStep,
    TuneStep,
)
from anydepth.experiments.steps import (
    CompareStep,
    CostStep,
    DistilStep,
    MeasureStep,
    ScoreStep,
    StudyStep,
    TrainStep,
    WordsStep,
)
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.variants import RACE, RACES, Variant
from anydepth.messages.times import describe_seconds


def make_plan(study: Study, folder: StudyFolder) -> list[StudyStep]:
    """The steps of a study in an order in which they can be done; what several experiments need is
    there once."""
    steps: dict[str, StudyStep] = {}
    measured: list[StudyStep] = []
    for variant in study.variants():
        after = race_preparation(study, folder, variant) or [MeasureStep(study, folder, variant)]
        measured += [step for step in after if isinstance(step, MeasureStep)]
        for step in (*text_steps(study, folder, variant), TrainStep(study, folder, variant), *after):
            steps.setdefault(step.name, step)
    if "figures6-9" in study.experiments:
        measured.append(WordsStep(study, folder))
        steps[measured[-1].name] = measured[-1]
    alone: list[StudyStep] = [CostStep(study, folder)] if "cost" in study.experiments else []
    if set(RACES) & set(study.experiments):
        races = [HeatStep(study, folder, heat) for heat in heats(study.config)]
        measured += races
        tuned = [TuneStep(study, folder, variant) for variant in race_runs(study) if variant.is_raced_adaptively]
        alone += [AgreeOnWordsStep(study, folder), *tuned, *races]
    return [*steps.values(), *alone, CompareStep(study, folder, tuple(measured))]


def text_steps(study: Study, folder: StudyFolder, variant: Variant) -> list[StudyStep]:
    """The steps that make what a run learns from, where that is not the text alone."""
    steps: list[StudyStep] = []
    if variant.targets != "references":
        steps.append(DistilStep(study, folder, variant.taught_by))
    if variant.targets == "both":
        steps.append(JoinStep(study, folder, variant.taught_by))
    if variant.needs_scores:
        assert variant.origin is not None
        steps.append(ScoreStep(study, folder, variant.origin))
    return steps


def race_preparation(study: Study, folder: StudyFolder, variant: Variant) -> list[StudyStep]:
    """The steps that measure which words a trained run needs; none for a run that has no part in the
    race."""
    if variant.role != RACE:
        return []
    return [HoldOutStep(study, folder), ChooseWordsStep(study, folder, variant)]


def plan_table(steps: Sequence[StudyStep], done: dict[str, float], seconds: float) -> str:
    """The steps, each with its state, its time and its command."""
    lines = []
    for step in steps:
        state = "done" if step.name in done else ""
        minutes = describe_seconds(60 * done[step.name] if state else step.cost * seconds) if state or step.cost else ""
        lines.append(f"{state:4}  {minutes:>8}  {step.name:34}  {step.command}".rstrip())
    return "\n".join([f"{'':4}  {'time':>8}  {'step':34}  command", *lines])


def estimate(steps: Sequence[StudyStep], done: dict[str, float], seconds: float, jobs: int) -> str:
    """How long the training that is left may take."""
    trainings = [step for step in steps if step.cost]
    left = [step for step in trainings if step.name not in done]
    minutes = sum(step.cost for step in left) * seconds / 60 / jobs
    return (
        f"{len(trainings)} runs, {len(left)} of them to train, {jobs} side by side: about "
        f"{describe_seconds(60 * minutes)} of training "
        f"({1000 * seconds:.0f} ms per update of the aligned model); measuring comes on top"
    )
