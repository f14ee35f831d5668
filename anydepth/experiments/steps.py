"""The steps of a study: a class for each kind, which knows what it needs, what it costs, what it
leaves behind and how it is done."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anydepth.bleu_oracle.scoring import ScoreSettings, score_exits
from anydepth.bulk.own_process import in_this_process
from anydepth.experiments.definition import Study
from anydepth.experiments.distilling import distilled_data
from anydepth.experiments.measuring import measure_run
from anydepth.experiments.records import MarkerRecord, StepRecord, StepState, write_record
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.training_runs import (
    distilled_text,
    joined_text,
    remove_checkpoints,
    train_command,
    train_variant,
    trained,
)
from anydepth.experiments.trends import compare
from anydepth.experiments.update_costs import training_cost, update_cost
from anydepth.experiments.variants import Variant, baseline, sampled, variant_config
from anydepth.experiments.word_samples import look_at_words
from anydepth.files.atomic import write_text
from anydepth.files.reading import Unreadable, checked, read_json
from anydepth.messages.say import Say
from anydepth.runs.run import Run
from anydepth.text.prepared import PreparedData

# A larger text is sampled, which weakens the BLEU oracle by the share that is left
# out.
SCORED_SENTENCES = 50_000


@dataclass(frozen=True, eq=False)
class StudyStep(ABC):
    """One thing to do, in a process of its own, and the result that it leaves behind."""

    study: Study
    folder: StudyFolder

    @property
    @abstractmethod
    def name(self) -> str:
        """What the step is called in the plan; its marker and its log are named after it."""

    @property
    @abstractmethod
    def result(self) -> Path:
        """What the step leaves behind; without it the step is not done, whatever its marker
        says."""

    @abstractmethod
    def perform(self, *, say: Say) -> None:
        """Does the step."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The names of the steps that come before."""
        return ()

    @property
    def command(self) -> str:
        """What a user would type to do the same, where there is such a command."""
        return ""

    @property
    def cost(self) -> float:
        """The step's share of training, in updates of the aligned model."""
        return 0.0

    @property
    def changed_run(self) -> str | None:
        """The run that the step writes to."""
        return None

    @property
    def is_alone(self) -> bool:
        """Whether the step watches the clock, so that nothing may run beside it."""
        return False

    @property
    def takes_what_there_is(self) -> bool:
        """Whether the step is done at the end with the results of what it needs that are there."""
        return False

    @property
    def slug(self) -> str:
        """The name as part of a file's name."""
        return self.name.replace(" ", "-")

    @property
    def lock(self) -> Path:
        """What steps hold in turn: one for all that write to a run, even of a study that was killed
        and begun again, and one for each of the others."""
        turn = self.slug if self.changed_run is None else f"run-{self.changed_run}"
        return self.folder.steps / f"{turn}.lock"

    @property
    def log(self) -> Path:
        """What the step said."""
        return self.folder.logs / f"{self.slug}.log"

    @property
    def marker(self) -> Path:
        """What tells that the step is done, and how long it took."""
        return self.folder.steps / f"{self.slug}.json"

    def mark(self, needs: Sequence["StudyStep"], minutes: float) -> None:
        """Notes that the step is done, and with which results of the steps that it needs."""
        seen = {need.name: need.stamp() for need in needs}
        note = MarkerRecord(minutes=minutes, stamp=str(time.time_ns()), seen=seen)
        write_text(self.marker, json.dumps(note.model_dump()) + "\n")

    def finish(self, needs: Sequence["StudyStep"], seconds: float) -> None:
        """Notes that the step is done, which took `seconds`, and leaves nothing that is not
        needed."""
        self.mark(needs, seconds / 60)

    def stamp(self) -> str | None:
        """What tells one doing of the step from another; None where it is not done."""
        note = self._note()
        return None if note is None else note.stamp

    def minutes(self, needs: Sequence["StudyStep"] = ()) -> float | None:
        """How long the step took; None where it is not done, or was done before a step that it
        needs was done again."""
        note = self._note()
        if note is None or any(note.seen.get(need.name) != need.stamp() for need in needs):
            return None
        return note.minutes

    def _note(self) -> MarkerRecord | None:
        try:
            note = checked(MarkerRecord, read_json(self.marker))
        except (OSError, Unreadable):
            return None
        return note if self.result.exists() else None

    def record(self, state: StepState, minutes: float | None, reason: str | None) -> StepRecord:
        """The step as study.json tells it."""
        return StepRecord(
            name=self.name, needs=list(self.needs), command=self.command, state=state, minutes=minutes, reason=reason
        )


@dataclass(frozen=True, eq=False)
class TrainStep(StudyStep):
    """Trains the run of a variant."""

    variant: Variant

    @property
    def name(self) -> str:
        return training(self.variant.run)

    @property
    def needs(self) -> tuple[str, ...]:
        variant = self.variant
        needs = [training(variant.origin)] if variant.origin is not None else []
        match variant.targets:
            case "translations":
                needs.append(distilling(self.folder, variant.taught_by))
            case "both":
                needs.append(joining(self.folder, variant.taught_by))
        if variant.needs_scores:
            needs.append(scoring(str(variant.origin)))
        return tuple(needs)

    @property
    def command(self) -> str:
        return train_command(self.study, self.folder, self.variant)

    @property
    def cost(self) -> float:
        study = self.study
        config = variant_config(self.variant, study.config, study.second_stage)
        words = study.data.vocabulary
        return config.training.updates * update_cost(config, words) / update_cost(study.config, words)

    @property
    def changed_run(self) -> str:
        return self.variant.run

    @property
    def run(self) -> Run:
        """The run that is trained."""
        return Run(self.folder.run(self.variant.run))

    @property
    def result(self) -> Path:
        return self.run.weights_file

    def perform(self, *, say: Say) -> None:
        train_variant(self.study, self.folder, self.variant)

    def finish(self, needs: Sequence[StudyStep], seconds: float) -> None:
        """Notes the seconds of the run's own clock, since a training that was stopped took all of
        its parts; and removes the checkpoints.

        Only now: a step that is killed before its mark ends its training once more, and averages
        them again.
        """
        super().finish(needs, trained(self.run)[1])
        remove_checkpoints(self.run)


@dataclass(frozen=True, eq=False)
class MeasureStep(StudyStep):
    """Measures the run of a variant on both held-out sets."""

    variant: Variant

    @property
    def name(self) -> str:
        return measuring(self.variant.run)

    @property
    def needs(self) -> tuple[str, ...]:
        return (training(self.variant.run),)

    @property
    def changed_run(self) -> str:
        return self.variant.run  # its operating points are tuned

    @property
    def result(self) -> Path:
        return self.folder.run_record(self.variant.run)

    def perform(self, *, say: Say) -> None:
        measure_run(self.study, self.folder, self.variant, say=say)


@dataclass(frozen=True, eq=False)
class DistilStep(StudyStep):
    """Translates the training text for the distilled runs of a seed with the deepest baseline of
    the same seed."""

    seed: int

    @property
    def name(self) -> str:
        return distilling(self.folder, self.seed)

    @property
    def teacher(self) -> str:
        """The run whose translations are learned from."""
        return baseline(self.study.config.model.blocks).with_seed(self.seed).run

    @property
    def needs(self) -> tuple[str, ...]:
        return (training(self.teacher),)

    @property
    def result(self) -> Path:
        return distilled_text(self.folder, self.seed)

    def perform(self, *, say: Say) -> None:
        data = PreparedData.open(Path(self.study.data.folder))
        distilled_data(self.folder.run(self.teacher), data, self.result, say=say)


@dataclass(frozen=True, eq=False)
class ScoreStep(StudyStep):
    """Scores every exit of a run for the BLEU oracle."""

    run: str

    @property
    def name(self) -> str:
        return scoring(self.run)

    @property
    def needs(self) -> tuple[str, ...]:
        return (training(self.run),)

    @property
    def changed_run(self) -> str:
        return self.run

    @property
    def result(self) -> Path:
        return self.folder.run(self.run) / "exit_scores.safetensors"

    def perform(self, *, say: Say) -> None:
        settings = ScoreSettings(sentences=SCORED_SENTENCES)
        score_exits(self.folder.run(self.run), settings, muster=in_this_process, say=say)


class WordsStep(StudyStep):
    """Looks at the words of one run at three depths (figures 6 to 9)."""

    @property
    def name(self) -> str:
        return "look at words"

    @property
    def needs(self) -> tuple[str, ...]:
        return (measuring(sampled().run),)

    @property
    def result(self) -> Path:
        return self.folder.tokens_file

    def perform(self, *, say: Say) -> None:
        look_at_words(self.study, self.folder, sampled().run, say=say)


class CostStep(StudyStep):
    """Times updates with a classifier after every block against those with one."""

    @property
    def name(self) -> str:
        return "time updates"

    @property
    def is_alone(self) -> bool:
        return True

    @property
    def result(self) -> Path:
        return self.folder.cost_file

    def perform(self, *, say: Say) -> None:
        write_record(self.result, training_cost(self.study))


@dataclass(frozen=True, eq=False)
class CompareStep(StudyStep):
    """Compares what the steps `measured` have measured, and gives the verdicts."""

    measured: tuple[StudyStep, ...]

    @property
    def name(self) -> str:
        return "compare"

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(step.name for step in self.measured)

    @property
    def takes_what_there_is(self) -> bool:
        return True

    @property
    def result(self) -> Path:
        return self.folder.trends_file

    def perform(self, *, say: Say) -> None:
        compare(self.study, self.folder)


def needed_steps(step: StudyStep, steps: Sequence[StudyStep]) -> list[StudyStep]:
    """The steps that a step needs."""
    return [other for other in steps if other.name in step.needs]


def training(run: str) -> str:
    """The name of the step that trains a run."""
    return f"train {run}"


def measuring(run: str) -> str:
    """The name of the step that measures a run."""
    return f"measure {run}"


def scoring(run: str) -> str:
    """The name of the step that scores a run's exits."""
    return f"score {run}"


def distilling(folder: StudyFolder, seed: int) -> str:
    """The name of the step that makes the text of the distilled runs of a seed."""
    return f"distil {distilled_text(folder, seed).name}"


def joining(folder: StudyFolder, seed: int) -> str:
    """The name of the step that puts the text of a seed and its translations together."""
    return f"join {joined_text(folder, seed).name}"
