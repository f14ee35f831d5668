"""A study: the paper's experiments on any prepared text, from the plan to the records that the
report is made of."""

import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch

from anydepth.bench.bench_recipe import cpu_name, versions
from anydepth.bleu_oracle.scoring import ScoreSettings, score_exits
from anydepth.config.loading import load_config, read_settings, save_config, with_changes
from anydepth.config.schema import Config
from anydepth.config.shipped import shipped_file
from anydepth.errors import AnydepthError, Interrupted, UsageError
from anydepth.experiments.distilling import distilled_data
from anydepth.experiments.execution import Execution, die_with_parent, stopped
from anydepth.experiments.measuring import measure_run, trained
from anydepth.experiments.plan import (
    Places,
    Study,
    StudyStep,
    default_second_stage,
    load_study,
    make_plan,
    needed_steps,
    write_record,
)
from anydepth.experiments.revision import revision
from anydepth.experiments.trends import compare
from anydepth.experiments.variants import Variant, chosen_experiments, one_classifier, seeded, variant_config
from anydepth.experiments.word_samples import look_at_words
from anydepth.files.checksums import known_hash
from anydepth.files.locks import in_turn, one_writer
from anydepth.files.reading import Unreadable, json_of
from anydepth.messages.say import Say
from anydepth.messages.times import describe_seconds
from anydepth.runs.run import Run
from anydepth.text.overlap import MOST_OVERLAP, pairs_in, pairs_seen_in_training
from anydepth.text.prepared import PreparedData
from anydepth.training.start import continued_run, new_run, resumed_run, train_run
from anydepth.training.timing import update_seconds

PROBE = {"rounds": 2, "updates": 4}
COST = {"rounds": 9, "updates": 10}
SCORED_SENTENCES = (
    50_000  # a larger text is sampled, which weakens the lesson of the BLEU oracle by the share that is left out
)
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
WHAT_A_STUDY_KEEPS = {"config": "settings", "fingerprint": "text", "seeds": "seeds", "second_stage": "second stage"}
CHANGES_ITS_RUN = ("train", "measure", "score")  # kinds of steps that write to the run that they are about
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
    jobs: int | None = None
    title: str | None = None


def run_study(wishes: StudyWishes, *, is_dry: bool, say: Say) -> None:
    """Shows the plan and does what is left of it. A study that was begun at the same place goes on,
    with further experiments if they are new; other settings than it was begun with are refused."""
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
    with one_writer(places.folder):
        save_config(study.config, places.config_file)
        try:
            left = execution.go()
        except (Interrupted, KeyboardInterrupt):
            raise stopped(places) from None
    say(
        f"\nall {len(steps)} steps: {len(steps) - len(left)} done"
        + (f", {len(left)} failed or waiting for a failed one" if left else "")
    )
    say(f"the page: anydepth report {places.folder}")
    if left:
        raise AnydepthError(
            f"{left[0]} failed or could not be done (see {places.logs}); the same command tries again what is left"
        )


def planned_study(wishes: StudyWishes, places: Places) -> tuple[Study, float]:
    """What to do at `places`, and the seconds of an update of the aligned model on this machine."""
    experiments = chosen_experiments(wishes.names)
    data = PreparedData.open(wishes.data)
    if "test" not in data.manifest.splits:
        raise UsageError(
            f"{wishes.data} has no test set, which a study measures on; prepare it again with --test PREFIX"
        )
    before = load_study(places) if places.study_file.exists() else None
    if (
        before is None
        and places.folder.exists()
        and any(file.name not in OWN_NAMES for file in places.folder.iterdir())
    ):
        raise UsageError(f"{places.folder} exists and is no study; choose another --to")
    if before is None:
        check_held_out(data)
    config = first_stage(wishes.config)
    torch.set_num_threads(side_by_side(wishes.jobs)[1])
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
    """Refuses held-out text that is not: thresholds are tuned on valid and figures come from test,
    at the end of long trainings."""
    valid, test = (list(zip(*data.references(split), strict=True)) for split in ("valid", "test"))
    if valid == test:
        raise UsageError(
            f"the validation and the test text of {data.folder} are the same ({first_line(data, 'test', 0)} on), "
            "and thresholds are tuned "
            "on one and measured on the other; prepare it again with two texts"
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


def grown(before: Study, now: Study, places: Places) -> Study:
    """The study that was begun, with the experiments that are asked for now; refused where anything
    else is different."""
    for name, words in WHAT_A_STUDY_KEEPS.items():
        if getattr(before, name) != getattr(now, name):
            raise UsageError(f"{places.folder} was begun with other {words}; choose another --to")
    experiments = tuple(chosen_experiments([*before.experiments, *now.experiments]))
    command = before.command if experiments == before.experiments else now.command
    return replace(before, experiments=experiments, command=command, data=now.data)


def second_stage(config: Config, exit_config: Path | None) -> tuple[str, ...]:
    """The changes of a second stage: those of a file, or the default ones."""
    if exit_config is None:
        return default_second_stage(config)
    settings = read_settings(exit_config)
    if loose := [key for key, values in settings.items() if not isinstance(values, dict)]:
        raise UsageError(f"{exit_config}: {loose[0]} stands outside of a section; write it under [training] or [exits]")
    load_config(exit_config, over=config)  # what is wrong with the file is told with its name
    return tuple(
        f"{section}.{key}={json.dumps(value)}" for section, values in settings.items() for key, value in values.items()
    )


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
    """How many steps run at a time, and the threads of each: a thread a step gets most out of small
    models on a CPU."""
    cores = os.cpu_count() or 1
    chosen = jobs if jobs is not None else 1 if torch.cuda.is_available() else cores
    return chosen, max(1, cores // chosen)


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
    trainings = [step for step in steps if step.kind == "train"]
    left = [step for step in trainings if step.name not in done]
    minutes = sum(step.cost for step in left) * seconds / 60 / jobs
    return (
        f"{len(trainings)} runs, {len(left)} of them to train, {jobs} side by side: about "
        f"{describe_seconds(60 * minutes)} of training "
        f"({1000 * seconds:.0f} ms an update of the aligned model); measuring comes on top"
    )


def do_step(folder: Path, name: str, *, say: Say) -> None:
    """Does one step of the study at `folder` and leaves a marker; does nothing where another
    process has done it meanwhile."""
    die_with_parent()
    places = Places(folder)
    study = load_study(places)
    steps = make_plan(study, places)
    step = next((step for step in steps if step.name == name), None)
    if step is None:
        raise UsageError(f"{folder} has no step {name!r}; see its study.json")
    needs = needed_steps(step, steps)
    turn = f"run-{step.subject}" if step.kind in CHANGES_ITS_RUN else step.slug  # of a study that was killed, too
    with in_turn(places.steps / f"{turn}.lock"):
        if places.minutes(step, needs) is not None:
            return
        started = time.monotonic()
        perform(study, places, step, say=say)
        seconds = trained(Run(places.run(step.subject)))[1] if step.kind == "train" else time.monotonic() - started
        places.mark(step, needs, seconds / 60)
        if (
            step.kind == "train"
        ):  # only now: a step that is killed before its mark ends its training once more, and averages them again
            remove_checkpoints(Run(places.run(step.subject)))


def perform(study: Study, places: Places, step: StudyStep, *, say: Say) -> None:
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
    origin = None if variant.origin is None else Run(places.run(variant.origin))
    if run.config_file.exists() and run.config != variant_config(variant, study.config, study.second_stage):
        raise UsageError(f"{run.folder} was made with other settings than the study's; remove it")

    def make_run() -> Run:
        if run.config_file.exists() and is_of(run, PreparedData.open(data), origin):
            return resumed_run(run.folder, [], data_folder=data)
        if origin is None:
            return new_run(run.folder, places.config_file, data, changes, overwrite=True)
        return continued_run(run.folder, origin.folder, None, changes, data_folder=data, overwrite=True)

    train_run(run.folder, make_run)


def remove_checkpoints(run: Run) -> None:
    """Removes the checkpoints of a run whose weights are made: those of dozens of runs would fill
    the disk."""
    run.seal.remove(file for _, file in run.checkpoints())


def is_of(run: Run, data: PreparedData, origin: Run | None) -> bool:
    """Whether a run was begun with this text and, where it is a second stage, from these
    weights."""
    if run.data_note()["fingerprint"] != data.fingerprint:
        return False
    if origin is None:
        return True
    try:
        note = json_of(run.seal.read(run.origin_file))
    except Unreadable as error:
        raise UsageError(
            f"{run.origin_file} cannot be read ({error}); restore it from a copy, or remove {run.folder}"
        ) from error
    return isinstance(note, dict) and note.get("weights") == known_hash(origin.weights_file)


def training_cost(study: Study) -> dict[str, object]:
    """The seconds of an update of the aligned model over those of a model with one classifier
    (section 4.2)."""
    data, blocks = PreparedData.open(Path(study.data)), study.config.model.blocks
    many, one = update_seconds([study.config, with_changes(study.config, one_classifier(blocks))], data, **COST)
    ratios = sorted(first / second for first, second in zip(many, one, strict=True))
    return {
        "ratio": round(median(ratios), 4),
        "low": round(ratios[0], 4),
        "high": round(ratios[-1], 4),
        "rounds": COST["rounds"],
        "updates_per_round": COST["updates"],
        "threads": torch.get_num_threads(),
        "vocabulary": data.manifest.vocab_sizes[data.target_lang],
        "blocks": blocks,
    }
