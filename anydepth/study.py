"""A study: the paper's experiments on any prepared text, from the plan to the records that the report is made of."""

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch

from anydepth.atomic import write_text
from anydepth.config import Config, load_config, read_settings, save_config, with_changes
from anydepth.demo import Say, configuration
from anydepth.errors import AnydepthError, Interrupted, UsageError
from anydepth.evaluation.bench.recipe import cpu_name, versions
from anydepth.evaluation.exit_scores import ScoreSettings, score_exits
from anydepth.evaluation.measure import validation_scorer
from anydepth.evaluation.study.distilling import distilled_data
from anydepth.evaluation.study.execute import Execution, describe_minutes, die_with_parent, stopped
from anydepth.evaluation.study.measuring import measure_run
from anydepth.evaluation.study.plan import (
    Places,
    Step,
    Study,
    default_second_stage,
    load_study,
    make_plan,
    write_record,
)
from anydepth.evaluation.study.revision import revision
from anydepth.evaluation.study.samples import look_at_words
from anydepth.evaluation.study.trends import compare
from anydepth.evaluation.study.variants import Variant, chosen_experiments, one_classifier, seeded, variant_config
from anydepth.model.run import Run
from anydepth.text.prepare import PreparedData
from anydepth.training.start import continued_run, new_run, resumed_run, train_run
from anydepth.training.timing import update_seconds

PROBE = {"rounds": 2, "updates": 4}
COST = {"rounds": 9, "updates": 10}
SCORED_SENTENCES = 5000
WHAT_A_STUDY_KEEPS = ("config", "data", "fingerprint", "seeds", "second_stage")


@dataclass(frozen=True)
class StudyWishes:
    """What a user asks a study for."""

    names: list[str]
    data: Path
    to: Path
    config: Path | None = None
    exit_config: Path | None = None
    minutes_per_run: float | None = None
    seeds: int = 1
    jobs: int | None = None
    title: str | None = None


def run_study(wishes: StudyWishes, *, is_dry: bool, say: Say) -> None:
    """Shows the plan and does what is left of it. A study that was begun at the same place goes on, with further experiments if they are
    new; other settings than it was begun with are refused."""
    places = Places(wishes.to)
    study, seconds = planned_study(wishes, places)
    steps = make_plan(study, places)
    jobs, threads = side_by_side(wishes.jobs)
    execution = Execution(study, places, steps, jobs=jobs, threads=threads, say=say)
    print(plan_table(steps, execution.progress.done, seconds), flush=True)
    say(estimate(steps, execution.progress.done, seconds, jobs))
    if is_dry:
        return
    places.folder.mkdir(parents=True, exist_ok=True)
    save_config(study.config, places.config_file)
    try:
        left = execution.go()
    except (Interrupted, KeyboardInterrupt):
        raise stopped(places) from None
    say(f"\nall {len(steps)} steps: {len(steps) - len(left)} done" + (f", {len(left)} failed or waiting for a failed one" if left else ""))
    say(f"the page: anydepth report {places.folder}")
    if left:
        raise AnydepthError(f"{left[0]} failed or could not be done (see {places.logs}); the same command tries again what is left")


def planned_study(wishes: StudyWishes, places: Places) -> tuple[Study, float]:
    """What to do at `places`, and the seconds of an update of the aligned model on this machine."""
    experiments = chosen_experiments(wishes.names)
    data = PreparedData.open(wishes.data)
    if "test" not in data.manifest.splits:
        raise UsageError(f"{wishes.data} has no test set, which a study measures on; prepare it again with --test PREFIX")
    before = load_study(places) if places.study_file.exists() else None
    if before is None and places.folder.exists() and any(places.folder.iterdir()):
        raise UsageError(f"{places.folder} exists and is no study; choose another --to")
    config = load_config(configuration(wishes.config, "demo_study.toml", "--config"))
    if config.model.exits != "all" or config.exits.halting != "none" or config.training.mode != "aligned":
        raise UsageError(f"{wishes.config} must be of an aligned model without halting; the study makes the other variants from it")
    config = with_changes(config, ["training.minutes=none"])
    torch.set_num_threads(side_by_side(wishes.jobs)[1])
    seconds = median(update_seconds([config], data, **PROBE)[0])
    if wishes.minutes_per_run is not None:
        known = before is not None and before.minutes_per_run == wishes.minutes_per_run
        updates = before.config.training.updates if before is not None and known else max(1, round(60 * wishes.minutes_per_run / seconds))
        config = with_changes(
            config, [f"training.updates={updates}", f"training.warmup={min(config.training.warmup, max(1, updates // 5))}"]
        )
    study = Study(
        experiments=tuple(experiments),
        config=config,
        data=str(wishes.data),
        fingerprint=data.fingerprint[:16],
        seeds=wishes.seeds,
        second_stage=second_stage(config, wishes.exit_config),
        title=wishes.title or f"{wishes.data.name}, {data.manifest.splits['train'].pairs:,} pairs",
        command=shlex.join(["anydepth", *sys.argv[1:]]),
        minutes_per_run=wishes.minutes_per_run,
        about=about_study(data, side_by_side(wishes.jobs)[1]),
    )
    check_settings(study)
    return (study if before is None else grown(before, study, places)), seconds


def grown(before: Study, now: Study, places: Places) -> Study:
    """The study that was begun, with the experiments that are asked for now; refused where anything else is different."""
    for name in WHAT_A_STUDY_KEEPS:
        if getattr(before, name) != getattr(now, name):
            raise UsageError(f"{places.folder} was begun with other settings ({name.replace('_', ' ')} differs); choose another --to")
    experiments = tuple(chosen_experiments([*before.experiments, *now.experiments]))
    return replace(before, experiments=experiments, command=before.command if experiments == before.experiments else now.command)


def second_stage(config: Config, exit_config: Path | None) -> tuple[str, ...]:
    """The changes of a second stage: those of a file, or the default ones."""
    if exit_config is None:
        return default_second_stage(config)
    settings = read_settings(exit_config)
    return tuple(f"{section}.{key}={json.dumps(value)}" for section, values in settings.items() for key, value in values.items())


def check_settings(study: Study) -> None:
    """Refuses a variant whose settings cannot be, before anything is trained."""
    for variant in study.variants():
        variant_config(variant, study.config, study.second_stage)


def about_study(data: PreparedData, threads: int) -> dict[str, dict[str, object]]:
    """What a reader of the report wants to know of the data, the machine and the versions."""
    manifest = data.manifest
    return {
        "data": {
            "languages": f"{data.source_lang}-{data.target_lang}",
            "pairs": {split: counts.pairs for split, counts in manifest.splits.items()},
            "vocabulary": manifest.vocab_sizes[data.target_lang],
        },
        "machine": {"processor": cpu_name(), "cores": os.cpu_count() or 1, "threads_per_run": threads},
        "versions": {**versions(), "revision": revision()},
    }


def side_by_side(jobs: int | None) -> tuple[int, int]:
    """How many steps run at a time, and the threads of each: a thread a step gets most out of small models."""
    cores = os.cpu_count() or 1
    chosen = cores if jobs is None else jobs
    return chosen, max(1, cores // chosen)


def plan_table(steps: Sequence[Step], done: dict[str, float], seconds: float) -> str:
    """The steps, each with its state, its time and its command."""
    lines = []
    for step in steps:
        state = "done" if step.name in done else ""
        minutes = describe_minutes(done[step.name] if state else step.cost * seconds / 60) if state or step.cost else ""
        lines.append(f"{state:4}  {minutes:>8}  {step.name:34}  {step.command}".rstrip())
    return "\n".join([f"{'':4}  {'time':>8}  {'step':34}  command", *lines])


def estimate(steps: Sequence[Step], done: dict[str, float], seconds: float, jobs: int) -> str:
    """How long the training that is left may take."""
    trainings = [step for step in steps if step.kind == "train"]
    left = [step for step in trainings if step.name not in done]
    minutes = sum(step.cost for step in left) * seconds / 60 / jobs
    return (
        f"{len(trainings)} runs, {len(left)} of them to train, {jobs} side by side: about {describe_minutes(minutes)} of training "
        f"({1000 * seconds:.0f} ms an update of the aligned model); measuring comes on top"
    )


def do_step(folder: Path, name: str, *, say: Say) -> None:
    """Does one step of the study at `folder` and leaves a marker; does nothing where another process has done it meanwhile."""
    die_with_parent()
    places = Places(folder)
    study = load_study(places)
    step = next((step for step in make_plan(study, places) if step.name == name), None)
    if step is None:
        raise UsageError(f"{folder} has no step {name!r}; see its study.json")
    with locked(places.steps / f"{step.slug}.lock"):
        if places.minutes(step) is not None:
            return
        started = time.monotonic()
        perform(study, places, step, say=say)
        write_text(places.marker(step), json.dumps({"minutes": (time.monotonic() - started) / 60}) + "\n")


def perform(study: Study, places: Places, step: Step, *, say: Say) -> None:
    """What a step of each kind does."""
    if step.kind == "train":
        train_variant(study, places, study.variant(step.subject))
    elif step.kind == "measure":
        measure_run(study, places, study.variant(step.subject), say=say)
    elif step.kind == "distil":
        data = PreparedData.open(Path(study.data))
        distilled_data(places.run(step.subject), data, places.distilled / step.name.removeprefix("distil "), say=say)
    elif step.kind == "score":
        score_exits(places.run(step.subject), ScoreSettings(sentences=SCORED_SENTENCES), say=say)
    elif step.kind == "samples":
        look_at_words(study, places, step.subject, say=say)
    elif step.kind == "cost":
        write_record(places.records / "cost.json", training_cost(study))
    else:
        assert step.kind == "compare"
        compare(study, places)


def train_variant(study: Study, places: Places, variant: Variant) -> None:
    """Trains a run to its end, from where it was left."""
    run, changes = Run(places.run(variant.run)), list(study.changes(variant))
    data = places.distilled / seeded("text", variant.seed) if variant.is_distilled else Path(study.data)
    if run.config_file.exists():
        if run.config != variant_config(variant, study.config, study.second_stage):
            raise UsageError(f"{run.folder} was made with other settings than the study's; remove it")
        train_run(run.folder, lambda: resumed_run(run.folder, []), validation_scorer)
    elif variant.origin is None:
        train_run(run.folder, lambda: new_run(run.folder, places.config_file, data, changes, overwrite=False), validation_scorer)
    else:
        origin = places.run(variant.origin)
        train_run(
            run.folder, lambda: continued_run(run.folder, origin, None, changes, data_folder=data, overwrite=False), validation_scorer
        )


def training_cost(study: Study) -> dict[str, object]:
    """The seconds of an update of the aligned model over those of a model with one classifier (section 4.2)."""
    data, blocks = PreparedData.open(Path(study.data)), study.config.model.blocks
    many, one = update_seconds([study.config, with_changes(study.config, one_classifier(blocks))], data, **COST)
    ratios = sorted(first / second for first, second in zip(many, one, strict=True))
    return {
        "ratio": round(median(ratios), 4),
        "low": round(ratios[0], 4),
        "high": round(ratios[-1], 4),
        "rounds": COST["rounds"],
        "updates_per_round": COST["updates"],
        "threads": side_by_side(None)[1],
        "vocabulary": data.manifest.vocab_sizes[data.target_lang],
        "blocks": blocks,
    }


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """While inside, no other process on this machine is inside with the same path; the lock of a process that dies is free."""
    try:
        import fcntl
    except ImportError:  # no such locks on Windows
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
