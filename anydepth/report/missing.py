"""What a value was made with, and which command makes what is missing."""

import json
from collections.abc import Callable, Iterable, Sequence

from anydepth.experiments.records import MeasurementRecord, RunRecord, Settings
from anydepth.report.document import NOTHING, Block, Cell, Code, FactList, Fold, Prose, Row, Table, Text
from anydepth.report.study_records import StudyRecords

# What a run has stored of how it was made, by the names in the recipe.
PER_RUN: dict[str, Callable[[RunRecord], str]] = {
    "revision": lambda run: run.revision or "unknown",
    "threads": lambda run: "unknown" if run.threads is None else str(run.threads),
    "training seed": lambda run: "unknown" if run.training_seed is None else str(run.training_seed),
}


def missing(study: StudyRecords, what: str) -> Text:
    """The sentence for what is not there: what it is, and what makes it."""
    return Text(("Missing: ", what, " ", Code(study.plan.command), " makes it."), "missing")


def missing_runs(study: StudyRecords, names: Sequence[str], what: str = "") -> list[Block]:
    """The sentence for runs without a record, or without the measurement that is needed, if there
    are any."""
    if not names:
        return []
    word = "run" if len(names) == 1 else "runs"
    return [missing(study, f"{word} {', '.join(names)}{what}; the states of the steps are at the end.")]


def recipe(study: StudyRecords, runs: Iterable[RunRecord]) -> tuple[Block, ...]:
    """The recipe in a line, and in full behind a heading."""
    used = sorted({run.run: run for run in runs}.values(), key=lambda run: run.run)
    return Text((short_recipe(study, used),), "note"), Fold("Recipe", (_facts(study, used), *_runs_table(used)))


def short_recipe(study: StudyRecords, runs: Sequence[RunRecord]) -> str:
    """One line: data, revision, seeds, updates and beam."""
    plan = study.plan
    parts = [
        f"Data {plan.data.languages} {plan.data.fingerprint}",
        _revisions_line(study, runs),
        f"{'seed' if len(plan.seeds) == 1 else 'seeds'} {', '.join(map(str, plan.seeds))}",
        _beams(runs),
        f"{plan.updates:,} updates" if plan.updates is not None else "",
    ]
    return " · ".join(part for part in parts if part)


def _beams(runs: Sequence[RunRecord]) -> str:
    beams = sorted({m.beam for m in _measurements(runs) if m.beam is not None})
    return f"beam {', '.join(map(str, beams))}" if beams else ""


def _measurements(runs: Sequence[RunRecord]) -> list[MeasurementRecord]:
    return [measurement for run in runs for measurement in run.measurements]


def _facts(study: StudyRecords, runs: Sequence[RunRecord]) -> FactList:
    plan = study.plan
    signatures = sorted({m.signature for m in _measurements(runs) if m.signature})
    shared = _shared(runs)
    items: list[tuple[str, Prose]] = [
        ("command", (Code(plan.command),)),
        ("data", (f"{plan.data.languages}, fingerprint {plan.data.fingerprint}, {pairs_line(study)}",)),
        ("updates", (updates_line(study),)),
        ("seeds", (", ".join(map(str, plan.seeds)),)),
        ("beam", (_beams(runs).removeprefix("beam ") or "not stored",)),
        ("BLEU", (", ".join(signatures) or "no signature stored",)),
        *((name, (shared.get(name, "see the runs"),)) for name in PER_RUN if runs),
        ("study", (f"revision {plan.versions.revision or 'unknown'}, {versions_line(study)}",)),
        ("machine", (machine_line(study),)),
    ]
    return FactList(tuple(items))


def _shared(runs: Sequence[RunRecord]) -> dict[str, str]:
    """What all of the runs were made with alike."""
    told = {name: {tell(run) for run in runs} for name, tell in PER_RUN.items()}
    return {name: next(iter(values)) for name, values in told.items() if len(values) == 1}


def _revisions_line(study: StudyRecords, runs: Sequence[RunRecord]) -> str:
    """The revisions that the runs were made with; that of the study where no run has stored its
    own."""
    stored = sorted({run.revision for run in runs if run.revision})
    if not stored:
        return f"revision {study.plan.versions.revision or 'unknown'}"
    told = [*stored, *(["unknown"] if any(not run.revision for run in runs) else [])]
    return f"{'revision' if len(told) == 1 else 'revisions'} {', '.join(told)}"


def pairs_line(study: StudyRecords) -> str:
    """The sizes of the splits and of the vocabulary."""
    data = study.plan.data
    sizes = ", ".join(f"{count:,} {split}" for split, count in data.pairs.items())
    return f"{sizes} pairs, {data.vocabulary:,} pieces"


def updates_line(study: StudyRecords) -> str:
    """The updates of both stages."""
    plan = study.plan
    first = f"{plan.updates:,}" if plan.updates is not None else "not stored"
    return f"{first}, and {plan.exit_updates:,} more for halting" if plan.exit_updates is not None else first


def machine_line(study: StudyRecords) -> str:
    """The processor and how much of it a run had."""
    machine = study.plan.machine
    threads = machine.threads_per_run
    parts = [
        machine.processor or "unknown processor",
        f"{machine.cores} cores" if machine.cores is not None else "",
        f"{threads} {'thread' if threads == 1 else 'threads'} a run" if threads is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def versions_line(study: StudyRecords) -> str:
    """The versions of what the runs were made with."""
    versions = study.plan.versions
    named = (("anydepth", versions.anydepth), ("torch", versions.torch), ("Python", versions.python))
    return ", ".join(f"{name} {version}" for name, version in named if version)


def _runs_table(runs: Sequence[RunRecord]) -> tuple[Table, ...]:
    if not runs:
        return ()
    differing = [name for name in PER_RUN if name not in _shared(runs)]
    columns = ("run", "differs by", "from", "weights", *differing, "seed", "blocks", "parameters", "updates", "minutes")
    rows = tuple(Row((run.run,), _run_cells(run, differing)) for run in runs)
    return (Table("The runs behind it", columns, rows, texts=4 + len(differing)),)


def _run_cells(run: RunRecord, differing: Sequence[str]) -> tuple[Cell, ...]:
    return (
        Cell(Code(settings_line(run.settings)) if run.settings else "nothing"),
        Cell(run.origin or NOTHING),
        Cell(run.weights or NOTHING),
        *(Cell(PER_RUN[name](run)) for name in differing),
        Cell(str(run.seed)),
        Cell(str(run.blocks)),
        Cell(whole(run.parameters)),
        Cell(whole(run.updates)),
        Cell(NOTHING if run.training_minutes is None else f"{run.training_minutes:.1f}"),
    )


def settings_line(settings: Settings) -> str:
    """Settings as --set takes them."""
    return " ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in settings.items()
    )


def whole(count: int | None) -> str:
    """A count with thousands, or a dash for one that is not stored."""
    return NOTHING if count is None else f"{count:,}"
