"""A study as a plan: steps that each leave something behind, what they need of each other, and how
long they may take."""

import json
import shlex
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from anydepth.config.loading import make_config, with_changes
from anydepth.config.schema import Config
from anydepth.errors import UsageError
from anydepth.experiments.records import StoredRecord
from anydepth.experiments.variants import (
    Variant,
    baseline,
    block_parameters,
    chosen_experiments,
    planned_variants,
    sampled,
    seeded,
    variant_changes,
    variant_config,
)
from anydepth.files.atomic import write_text
from anydepth.files.reading import LARGE, Unreadable, checked, read_json
from anydepth.limits import MOST_MINUTES, MOST_PIECES, MOST_SEEDS

FORMAT = 1
STATES = ("waiting", "done", "failed", "blocked")


@dataclass(frozen=True)
class StudyStep:
    """One thing to do, in a process of its own. `cost` is its share of training, in updates of the
    aligned model; others have none.

    A step that `is_alone` watches the clock, so nothing runs beside it.
    """

    name: str
    kind: str
    subject: str = ""
    needs: tuple[str, ...] = ()
    command: str = ""
    cost: float = 0.0
    is_alone: bool = False

    @property
    def slug(self) -> str:
        """The name as part of a file's name."""
        return self.name.replace(" ", "-")


@dataclass(frozen=True)
class Study:
    """What was asked for: everything that decides what the steps compute. It is written down once
    and kept."""

    experiments: tuple[str, ...]
    config: Config
    data: str
    fingerprint: str
    seeds: int
    second_stage: tuple[str, ...]
    title: str
    command: str
    minutes_per_run: float | None = None
    about: dict[str, Any] = field(
        default_factory=dict
    )  # for the reader and the estimate alone: sizes of the data, machine, versions

    def variants(self) -> list[Variant]:
        """All runs."""
        return planned_variants(list(self.experiments), self.config, seeds=self.seeds)

    def variant(self, run: str) -> Variant:
        """The variant whose run has this name."""
        return next(variant for variant in self.variants() if variant.run == run)

    def changes(self, variant: Variant) -> tuple[str, ...]:
        """What a run changes in the study's settings."""
        return variant_changes(variant, self.config.training.seed, self.second_stage)


@dataclass(frozen=True)
class StoredData:
    """What study.json tells of the text: where it is, and what the estimate needs."""

    folder: str
    fingerprint: str
    vocabulary: Annotated[int, Field(ge=1, le=MOST_PIECES)]


@dataclass(frozen=True)
class StoredStudy:
    """study.json, as far as a study goes on from it."""

    format: Literal[1]
    title: str
    experiments: list[str]
    command: str
    config: dict[str, Any]
    exit_config: list[str]
    data: StoredData
    seeds: Annotated[list[int], Field(min_length=1, max_length=MOST_SEEDS)]
    minutes_per_run: Annotated[float, Field(gt=0, le=MOST_MINUTES)] | None
    machine: dict[str, Any]
    versions: dict[str, Any]


class Places:
    """Where the parts of a study are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.study_file = folder / "study.json"
        self.config_file = folder / "config.toml"
        self.records = folder / "records"
        self.statistics = folder / "statistics"
        self.logs = folder / "logs"
        self.steps = folder / "steps"
        self.distilled = folder / "distilled"

    def run(self, name: str) -> Path:
        """The run directory of that name."""
        return self.folder / "runs" / name

    def record(self, run: str) -> Path:
        """The measurements of a run."""
        return self.records / "runs" / f"{run}.json"

    def log(self, step: StudyStep) -> Path:
        """What a step said."""
        return self.logs / f"{step.slug}.log"

    def marker(self, step: StudyStep) -> Path:
        """What tells that a step is done, and how long it took."""
        return self.steps / f"{step.slug}.json"

    def result(self, step: StudyStep) -> Path:
        """What a step leaves behind; without it the step is not done, whatever its marker says."""
        results = {
            "train": self.run(step.subject) / "model.safetensors",
            "measure": self.record(step.subject),
            "distil": self.distilled / step.name.removeprefix("distil "),
            "score": self.run(step.subject) / "exit_scores.safetensors",
            "samples": self.records / "tokens.json",
            "cost": self.records / "cost.json",
            "compare": self.records / "trends.json",
        }
        return results[step.kind]

    def mark(self, step: StudyStep, needs: Sequence[StudyStep], minutes: float) -> None:
        """Notes that a step is done, and with which results of the steps that it needs."""
        seen = {need.name: self.stamp(need) for need in needs}
        write_text(
            self.marker(step), json.dumps({"minutes": minutes, "stamp": str(time.time_ns()), "seen": seen}) + "\n"
        )

    def stamp(self, step: StudyStep) -> str | None:
        """What tells one doing of a step from another; None where it is not done."""
        note = self._note(step)
        return None if note is None else str(note["stamp"])

    def minutes(self, step: StudyStep, needs: Sequence[StudyStep] = ()) -> float | None:
        """How long a step took; None where it is not done, or was done before a step that it needs
        was done again."""
        note = self._note(step)
        if note is None or any(note["seen"].get(need.name) != self.stamp(need) for need in needs):
            return None
        return float(note["minutes"])

    def _note(self, step: StudyStep) -> dict[str, Any] | None:
        try:
            note = read_json(self.marker(step))
            is_whole = (
                isinstance(note["minutes"], float | int) and isinstance(note["seen"], dict) and bool(note["stamp"])
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return note if is_whole and self.result(step).exists() else None


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


def make_plan(study: Study, places: Places) -> list[StudyStep]:
    """The steps of a study in an order in which they can be done; what several experiments need is
    there once."""
    variants = study.variants()
    steps: list[StudyStep] = []
    for variant in variants:
        if variant.is_distilled and not any(step.name == teaching_step(variant) for step in steps):
            teacher = teacher_run(study, variant)
            steps.append(StudyStep(teaching_step(variant), "distil", teacher, (f"train {teacher}",)))
        if variant.needs_scores and not any(step.name == f"score {variant.origin}" for step in steps):
            steps.append(
                StudyStep(f"score {variant.origin}", "score", str(variant.origin), (f"train {variant.origin}",))
            )
        steps += run_steps(study, places, variant)
    if "figures6-9" in study.experiments:
        run = sampled().run
        steps.append(StudyStep("look at words", "samples", run, (f"measure {run}",)))
    if "cost" in study.experiments:
        steps.append(StudyStep("time updates", "cost", is_alone=True))
    return [
        *steps,
        StudyStep(
            "compare", "compare", needs=tuple(step.name for step in steps if step.kind in ("measure", "samples"))
        ),
    ]


def run_steps(study: Study, places: Places, variant: Variant) -> list[StudyStep]:
    """Training a run, and measuring it."""
    needs = [f"train {variant.origin}"] if variant.origin is not None else []
    if variant.is_distilled:
        needs.append(teaching_step(variant))
    if variant.needs_scores:
        needs.append(f"score {variant.origin}")
    config = variant_config(variant, study.config, study.second_stage)
    words = study.about["data"]["vocabulary"]
    price = config.training.updates * update_cost(config, words) / update_cost(study.config, words)
    training = StudyStep(
        f"train {variant.run}", "train", variant.run, tuple(needs), train_command(study, places, variant), price
    )
    return [training, StudyStep(f"measure {variant.run}", "measure", variant.run, (training.name,))]


def teaching_step(variant: Variant) -> str:
    """The step that translates the training text for a distilled run."""
    return f"distil {seeded('text', variant.seed)}"


def teacher_run(study: Study, variant: Variant) -> str:
    """The run whose translations a distilled run learns from: the deepest baseline of the same
    seed."""
    return baseline(study.config.model.blocks).with_seed(variant.seed).run


def train_command(study: Study, places: Places, variant: Variant) -> str:
    """What a user would type to train the same run."""
    data = str(places.distilled / seeded("text", variant.seed)) if variant.is_distilled else study.data
    origin = [] if variant.origin is None else ["--from", str(places.run(variant.origin))]
    config = [str(places.config_file)] if variant.origin is None else []
    changes = [word for change in study.changes(variant) for word in ("--set", change)]
    return shlex.join(
        ["anydepth", "train", *config, *origin, "--data", data, *changes, "--to", str(places.run(variant.run))]
    )


def update_cost(config: Config, vocabulary: int) -> int:
    """What an update costs, as a number of multiplications a token; only ratios of it mean
    anything."""
    model, (encoder_block, decoder_block) = config.model, block_parameters(config)
    paths = config.training.paths if config.training.mode == "mixed" else 1
    scored = paths if config.training.mode != "aligned" else len(model.classifier_exits)
    return (
        model.encoder.blocks * encoder_block
        + paths * model.blocks * decoder_block
        + scored * vocabulary * model.decoder.dim
    )


def save_study(places: Places, study: Study, steps: Sequence[dict[str, Any]]) -> None:
    """Writes study.json: what was asked for, and how far it is."""
    values = {
        "format": FORMAT,
        "title": study.title,
        "experiments": list(study.experiments),
        "command": study.command,
        "config": study.config.model_dump(exclude_none=True),
        "exit_config": list(study.second_stage),
        "data": {"folder": study.data, "fingerprint": study.fingerprint, **study.about.get("data", {})},
        "seeds": [study.config.training.seed + number for number in range(study.seeds)],
        "minutes_per_run": study.minutes_per_run,
        "updates": study.config.training.updates,
        "exit_updates": with_changes(study.config, study.second_stage).training.updates,
        "machine": study.about.get("machine", {}),
        "versions": study.about.get("versions", {}),
        "steps": list(steps),
    }
    write_text(places.study_file, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def load_study(places: Places) -> Study:
    """The study that was written down at `places`."""
    try:
        values = read_json(places.study_file)
        stored = checked(StoredStudy, values)
        study = Study(
            experiments=tuple(stored.experiments),
            config=make_config(stored.config, origin="its config"),
            data=stored.data.folder,
            fingerprint=stored.data.fingerprint,
            seeds=len(stored.seeds),
            second_stage=tuple(stored.exit_config),
            title=stored.title,
            command=stored.command,
            minutes_per_run=stored.minutes_per_run,
            about={
                "data": {
                    name: value for name, value in values["data"].items() if name not in ("folder", "fingerprint")
                },
                "machine": stored.machine,
                "versions": stored.versions,
            },
        )
        chosen_experiments(list(study.experiments))
        return study
    except (OSError, Unreadable, UsageError) as error:
        raise UsageError(
            f"{places.study_file} cannot be read ({error}); restore it from a copy or choose another --to"
        ) from error


def needed_steps(step: StudyStep, steps: Sequence[StudyStep]) -> list[StudyStep]:
    """The steps that a step needs."""
    return [other for other in steps if other.name in step.needs]


def step_json(step: StudyStep, state: str, minutes: float | None, reason: str | None) -> dict[str, Any]:
    """A step as study.json tells it."""
    assert state in STATES
    shown = {name: value for name, value in asdict(step).items() if name in ("name", "command", "needs")}
    return {**shown, "needs": list(step.needs), "state": state, "minutes": minutes, "reason": reason}


def read_record(file: Path, kind: type[StoredRecord]) -> dict[str, Any]:
    """What `write_record` wrote to `file`, where it is a record of this kind."""
    try:
        record: dict[str, Any] = read_json(file, most=LARGE)
        checked(kind, record)
    except (OSError, Unreadable) as error:
        raise UsageError(
            f"{file} is no record of a study ({error}); restore it from a copy or measure again in a new folder"
        ) from error
    return record


def write_record(file: Path, values: dict[str, Any]) -> None:
    """Writes one file of records."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, json.dumps({"format": FORMAT, **values}, indent=1, ensure_ascii=False) + "\n")
