"""The steps of a race: text and translations put together, words and thresholds chosen, and heats
on the clock."""

from dataclasses import dataclass
from pathlib import Path

from anydepth.experiments.distilling import joined_data
from anydepth.experiments.race import Heat, race_runs, run_heat
from anydepth.experiments.race_preparation import agree_on_words, choose_words, tune_run_for_race, write_held_out
from anydepth.experiments.steps import StudyStep, distilling, joining, training
from anydepth.experiments.training_runs import distilled_text, joined_text
from anydepth.experiments.variants import Variant
from anydepth.messages.say import Say
from anydepth.runs.run import Run
from anydepth.text.prepared import PreparedData

HOLDING_OUT = "hold out valid"
AGREEING = "agree on words"


@dataclass(frozen=True, eq=False)
class JoinStep(StudyStep):
    """Puts the text and the translations of a seed together."""

    seed: int

    @property
    def name(self) -> str:
        return joining(self.folder, self.seed)

    @property
    def needs(self) -> tuple[str, ...]:
        return (distilling(self.folder, self.seed),)

    @property
    def result(self) -> Path:
        return joined_text(self.folder, self.seed)

    def perform(self, *, say: Say) -> None:
        data = PreparedData.open(Path(self.study.data.folder))
        joined_data(data, PreparedData.open(distilled_text(self.folder, self.seed)), self.result, say=say)


class HoldOutStep(StudyStep):
    """Writes the part of valid that words and thresholds are chosen on."""

    @property
    def name(self) -> str:
        return HOLDING_OUT

    @property
    def result(self) -> Path:
        return self.folder.held_out.with_suffix(f".{self.study.data.languages.partition('-')[2]}")

    def perform(self, *, say: Say) -> None:
        write_held_out(self.study, self.folder)


@dataclass(frozen=True, eq=False)
class ChooseWordsStep(StudyStep):
    """Learns which words a sentence of the run of a variant may need, and measures on valid how few keep
    its BLEU."""

    variant: Variant

    @property
    def name(self) -> str:
        return choosing_words(self.variant.run)

    @property
    def needs(self) -> tuple[str, ...]:
        return training(self.variant.run), HOLDING_OUT

    @property
    def changed_run(self) -> str:
        return self.variant.run

    @property
    def result(self) -> Path:
        return self.folder.run_record(self.variant.run)

    def perform(self, *, say: Say) -> None:
        choose_words(self.study, self.folder, self.variant, say=say)


class AgreeOnWordsStep(StudyStep):
    """Gives all runs of the race the same choice of words."""

    @property
    def name(self) -> str:
        return AGREEING

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(choosing_words(variant.run) for variant in race_runs(self.study))

    @property
    def result(self) -> Path:
        return self.folder.common_words_file

    def perform(self, *, say: Say) -> None:
        agree_on_words(self.study, self.folder, say=say)


@dataclass(frozen=True, eq=False)
class TuneStep(StudyStep):
    """Tunes thresholds of the run of a variant on valid, by the clock where the engine is fast."""

    variant: Variant

    @property
    def name(self) -> str:
        return tuning(self.variant.run)

    @property
    def needs(self) -> tuple[str, ...]:
        return (AGREEING,)

    @property
    def changed_run(self) -> str:
        return self.variant.run

    @property
    def is_alone(self) -> bool:
        return True

    @property
    def result(self) -> Path:
        return Run(self.folder.run(self.variant.run)).points_file

    def perform(self, *, say: Say) -> None:
        tune_run_for_race(self.study, self.folder, self.variant, say=say)


@dataclass(frozen=True, eq=False)
class HeatStep(StudyStep):
    """Races all runs in one precision with one beam."""

    heat: Heat

    @property
    def name(self) -> str:
        return f"race {self.heat.precision} beam {self.heat.beam}"

    @property
    def needs(self) -> tuple[str, ...]:
        return AGREEING, *(tuning(each.run) for each in self.heat.runs(self.study) if each.is_raced_adaptively)

    @property
    def is_alone(self) -> bool:
        return True

    @property
    def result(self) -> Path:
        return self.folder.heat_record(self.heat.name)

    def perform(self, *, say: Say) -> None:
        run_heat(self.study, self.folder, self.heat, say=say)


def choosing_words(run: str) -> str:
    """The name of the step that chooses the words of a run."""
    return f"choose words {run}"


def tuning(run: str) -> str:
    """The name of the step that tunes a run."""
    return f"tune {run}"
