"""What a user asks a study for, checked before anything is trained."""

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch

from anydepth.bench.bench_recipe import versions
from anydepth.config.loading import load_config, read_settings, with_changes
from anydepth.config.schema import Config
from anydepth.config.shipped import shipped_file
from anydepth.errors import UsageError
from anydepth.experiments.definition import Study, default_second_stage, load_study
from anydepth.experiments.places import StepPlace
from anydepth.experiments.records import DataRecord, VersionsRecord
from anydepth.experiments.revision import revision
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.variants import chosen_experiments, variant_config
from anydepth.text.overlap import MOST_OVERLAP, pairs_in, pairs_seen_in_training
from anydepth.text.prepared import PreparedData
from anydepth.training.timing import update_seconds

PROBE = {"rounds": 2, "updates": 4}
# Settings of the aligned model that stay at their defaults: what variants change, and what would
# give them different budgets.
PLAIN = (
    ("model", "exits"),
    ("training", "mode"),
    ("training", "exit_weights"),
    ("training", "gradient_ratio"),
    ("training", "patience"),
    ("exits", "halting"),
)
# What a kill may leave before study.json is there.
OWN_NAMES = ("config.toml", "logs", "steps", ".lock", ".study.json.tmp", ".config.toml.tmp")


@dataclass(frozen=True, kw_only=True)
class StudyWishes:
    """What a user asks a study for."""

    names: list[str]
    data: Path
    to: Path
    config: Path | None = None
    exit_config: Path | None = None
    minutes_per_run: float | None = None
    seeds: int = 1
    repeated: tuple[str, ...] = ()
    title: str | None = None


def planned_study(wishes: StudyWishes, folder: StudyFolder, place: StepPlace) -> tuple[Study, float]:
    """What to do in `folder`, with steps that run at `place`, and the seconds of an update of the
    aligned model on this machine."""
    experiments = chosen_experiments(wishes.names)
    data = PreparedData.open(wishes.data)
    if "test" not in data.manifest.splits:
        raise UsageError(
            f"{wishes.data} has no test set, which a study measures on; prepare it again with --test PREFIX"
        )
    before = load_study(folder) if folder.study_file.exists() else None
    if before is None and folder.path.exists() and any(file.name not in OWN_NAMES for file in folder.path.iterdir()):
        raise UsageError(f"{folder.path} exists and is no study; choose another --to")
    if before is None:
        check_held_out(data)
    config = first_stage(wishes.config)
    torch.set_num_threads(place.threads)
    seconds = median(update_seconds([config], data, **PROBE)[0])
    if wishes.minutes_per_run is not None:
        known = before is not None and before.minutes_per_run == wishes.minutes_per_run
        updates = (
            before.config.training.updates
            if before is not None and known
            else max(1, round(60 * wishes.minutes_per_run / seconds))
        )
        config = with_changes(
            config,
            [f"training.updates={updates}", f"training.warmup={min(config.training.warmup, max(1, updates // 5))}"],
        )
    study = Study(
        experiments=tuple(experiments),
        config=config,
        data=data_record(wishes.data, data),
        seeds=wishes.seeds,
        second_stage=second_stage(config, wishes.exit_config),
        title=wishes.title or f"{wishes.data.name}, {data.manifest.splits['train'].pairs:,} pairs",
        command=shlex.join(["anydepth", *sys.argv[1:]]),
        machine=place.machine,
        versions=versions_record(),
        minutes_per_run=wishes.minutes_per_run,
        repeated=wishes.repeated,
    )
    check_settings(study)
    return (study if before is None else grown(before, study, folder)), seconds


def first_stage(file: Path | None) -> Config:
    """The settings of the aligned model; those that would make variants differ by more than their
    names say are refused."""
    path = file or shipped_file("demo_study")
    config = load_config(path)
    values, plain = config.model_dump(), Config().model_dump()
    for section, key in PLAIN:
        if values[section][key] != plain[section][key]:
            told = f"{section}.{key} = {values[section][key]!r}"
            raise UsageError(f"{path}: a study makes its variants from a plain aligned model; leave out {told}")
    if config.model.blocks == 1:
        raise UsageError(f"{path}: model.blocks = 1 leaves no exit to choose; a study needs 2 blocks or more")
    return with_changes(config, ["training.minutes=none"])


def check_held_out(data: PreparedData) -> None:
    """Refuses held-out text that is not: thresholds are tuned on valid and test is measured on, at
    the end of long trainings."""
    valid, test = (list(zip(*data.references(split), strict=True)) for split in ("valid", "test"))
    if valid == test:
        raise UsageError(
            f"the validation and the test text of {data.folder} are the same ({first_line(data, 'test', 0)} on), and "
            "thresholds are tuned on one and measured on the other; prepare it again with two texts"
        )
    refuse_overlap(
        data, "valid", valid, pairs_seen_in_training(data, valid), "training", "thresholds are tuned on them"
    )
    refuse_overlap(data, "test", test, pairs_seen_in_training(data, test), "training", "figures are measured on them")
    refuse_overlap(data, "test", test, pairs_in(test, valid), "validation", "thresholds are tuned on these")


def refuse_overlap(
    data: PreparedData, split: str, pairs: Sequence[tuple[str, str]], seen: Sequence[int], where: str, why: str
) -> None:
    """Refuses a held-out text of which more than a few pairs are in other text as well."""
    if len(seen) > MOST_OVERLAP * len(pairs):
        kind = {"valid": "validation", "test": "test"}[split]
        raise UsageError(
            f"{len(seen):,} of the {len(pairs):,} {kind} pairs of {data.folder} are in its {where} text "
            f"(the first is {first_line(data, split, seen[0])}), and {why}; prepare it again with held-out text"
        )


def first_line(data: PreparedData, split: str, number: int) -> str:
    """Where a pair stands, for a message."""
    return f"{data.folder / f'{split}.{data.source_lang}'} line {number + 1:,}"


def grown(before: Study, now: Study, folder: StudyFolder) -> Study:
    """The study that was begun, with the experiments and further seeds that are asked for now; refused
    where anything else is different."""
    for name, value in before.kept.items():
        if value != now.kept[name]:
            raise UsageError(f"{folder.path} was begun with other {name}; choose another --to")
    if now.seeds < before.seeds:
        raise UsageError(f"{folder.path} has {before.seeds} seeds already; write --seeds {before.seeds} or more")
    after = replace(
        before,
        experiments=tuple(chosen_experiments([*before.experiments, *now.experiments])),
        seeds=now.seeds,
        repeated=tuple(dict.fromkeys([*before.repeated, *now.repeated])),
        data=before.data.model_copy(update={"folder": now.data.folder}),
    )
    return after if after.variants() == before.variants() else replace(after, command=now.command)


def second_stage(config: Config, exit_config: Path | None) -> tuple[str, ...]:
    """The changes of a second stage: those of a file, or the default ones."""
    if exit_config is None:
        return default_second_stage(config)
    settings = read_settings(exit_config)
    if loose := [key for key, values in settings.items() if not isinstance(values, dict)]:
        raise UsageError(f"{exit_config}: {loose[0]} stands outside of a section; write it under [training] or [exits]")
    load_config(exit_config, over=config)  # what is wrong with the file is reported with its name
    return tuple(
        f"{section}.{key}={json.dumps(value)}" for section, values in settings.items() for key, value in values.items()
    )


def check_settings(study: Study) -> None:
    """Refuses a variant whose settings cannot be, before anything is trained."""
    for variant in study.variants():
        variant_config(variant, study.config, study.second_stage)


def data_record(folder: Path, data: PreparedData) -> DataRecord:
    """What study.json tells of the text at `folder`."""
    return DataRecord(
        folder=str(folder),
        fingerprint=data.fingerprint[:16],
        languages=f"{data.source_lang}-{data.target_lang}",
        pairs={split: counts.pairs for split, counts in data.manifest.splits.items()},
        vocabulary=data.manifest.vocab_sizes[data.target_lang],
    )


def versions_record() -> VersionsRecord:
    """What study.json tells of the versions; what is not installed has none."""
    return VersionsRecord(**versions(), revision=revision())
