"""A study as it was asked for: everything that decides what its steps compute, and study.json,
which keeps it."""

from collections.abc import Sequence
from dataclasses import dataclass

from anydepth.config.loading import make_config, with_changes
from anydepth.config.schema import Config
from anydepth.errors import UsageError
from anydepth.experiments.records import (
    FORMAT,
    DataRecord,
    MachineRecord,
    PlanRecord,
    StepRecord,
    VersionsRecord,
    written,
)
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.variants import Variant, chosen_experiments, planned_variants, variant_changes
from anydepth.files.atomic import write_text
from anydepth.files.reading import Unreadable, checked, read_json


@dataclass(frozen=True)
class Study:
    """What was asked for. It is written down once and kept; machine and versions are for the reader
    alone."""

    experiments: tuple[str, ...]
    config: Config
    data: DataRecord
    seeds: int
    second_stage: tuple[str, ...]
    title: str
    command: str
    machine: MachineRecord
    versions: VersionsRecord
    minutes_per_run: float | None = None
    repeated: tuple[str, ...] = ()  # runs with all seeds that have but one otherwise

    def variants(self) -> list[Variant]:
        """All runs."""
        return planned_variants(list(self.experiments), self.config, seeds=self.seeds, repeated=self.repeated)

    def changes(self, variant: Variant) -> tuple[str, ...]:
        """What a run changes in the study's settings."""
        return variant_changes(variant, self.config.training.seed, self.second_stage)

    @property
    def kept(self) -> dict[str, object]:
        """What a study that was begun keeps, by its names in messages."""
        return {
            "settings": self.config,
            "text": self.data.fingerprint,
            "second stage": self.second_stage,
        }

    def record(self, steps: Sequence[StepRecord]) -> PlanRecord:
        """The study as study.json holds it, with how far its steps are."""
        return PlanRecord(
            format=FORMAT,
            title=self.title,
            experiments=list(self.experiments),
            command=self.command,
            config=self.config.model_dump(exclude_none=True),
            exit_config=list(self.second_stage),
            data=self.data,
            seeds=[self.config.training.seed + number for number in range(self.seeds)],
            minutes_per_run=self.minutes_per_run,
            repeated=list(self.repeated),
            updates=self.config.training.updates,
            exit_updates=with_changes(self.config, self.second_stage).training.updates,
            machine=self.machine,
            versions=self.versions,
            steps=list(steps),
        )

    @classmethod
    def of(cls, record: PlanRecord) -> "Study":
        """The study that `record` holds."""
        return cls(
            experiments=tuple(record.experiments),
            config=make_config(record.config, origin="its config"),
            data=record.data,
            seeds=len(record.seeds),
            second_stage=tuple(record.exit_config),
            title=record.title,
            command=record.command,
            machine=record.machine,
            versions=record.versions,
            minutes_per_run=record.minutes_per_run,
            repeated=tuple(record.repeated),
        )


def default_second_stage(config: Config) -> tuple[str, ...]:
    """The second stage where nothing else is asked for: a quarter of the updates from half of the
    rate down, and a quick start for the halting module, which begins with nothing while the rest is
    trained already."""
    updates = max(1, config.training.updates // 4)
    return (
        f"training.updates={updates}",
        f"training.learning_rate={config.training.learning_rate / 2:g}",
        f"training.warmup={max(1, updates // 10)}",
        "training.cooldown=0.8",
        "exits.rate_factor=5.0",
    )


def save_study(folder: StudyFolder, study: Study, steps: Sequence[StepRecord]) -> None:
    """Writes study.json: what was asked for, and how far it is."""
    write_text(folder.study_file, written(study.record(steps)))


def load_study(folder: StudyFolder) -> Study:
    """The study that was written down in `folder`."""
    try:
        study = Study.of(checked(PlanRecord, read_json(folder.study_file)))
        chosen_experiments(list(study.experiments))
        return study
    except (OSError, Unreadable, UsageError) as error:
        raise UsageError(
            f"{folder.study_file} cannot be read ({error}); restore it from a copy or choose another --to"
        ) from error
