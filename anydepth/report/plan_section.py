"""What the study is and how far: the opening of a report, and the plan at its end."""

import json
from collections import Counter
from typing import Literal

from anydepth.experiments.records import Settings, StepRecord
from anydepth.report import published
from anydepth.report.document import (
    NOTHING,
    Block,
    Cell,
    Code,
    FactList,
    Fold,
    Listing,
    Prose,
    Row,
    Section,
    Table,
    Text,
)
from anydepth.report.missing import machine_line, pairs_line, updates_line, versions_line
from anydepth.report.study_records import StudyRecords

STATES: tuple[Literal["failed", "blocked", "waiting"], ...] = ("failed", "blocked", "waiting")
ORDER = {state: place for place, state in enumerate((*STATES, "done"))}
MOST_LISTED = 12
MOST_NEEDS = 4


def opening(study: StudyRecords) -> tuple[Block, ...]:
    """What the study is, and what of it has failed or waits."""
    lead = (
        f"The tables and figures of the paper {published.PAPER}, measured on other data and beside the "
        "published figures."
    )
    facts: tuple[tuple[str, Prose], ...] = (
        ("data", (f"{study.plan.data.languages}, {pairs_line(study)}",)),
        ("updates", (updates_line(study),)),
        ("seeds", (", ".join(map(str, study.plan.seeds)),)),
        ("machine", (machine_line(study),)),
        ("command", (Code(study.plan.command),)),
    )
    return Text((lead,), "lead"), FactList(facts), *_unfinished(study)


def _unfinished(study: StudyRecords) -> tuple[Block, ...]:
    steps = [step for step in study.plan.steps if step.state != "done"]
    if not steps:
        return ()
    counts = Counter(step.state for step in steps)
    told = ", ".join(f"{counts[state]} {state}" for state in STATES if counts[state])
    head = Text(
        (
            f"The study is not finished. Of {len(study.plan.steps)} steps: {told}. ",
            Code(study.plan.command),
            " goes on with it.",
        ),
        "alert",
    )
    items = tuple(_step_line(step) for step in sorted(steps, key=lambda step: ORDER[step.state]))
    return head, Fold("The unfinished steps", (Listing(items),)) if len(items) > MOST_LISTED else Listing(items)


def _step_line(step: StepRecord) -> Prose:
    return (f"{step.name}: {step.state}" + (f", {step.reason}" if step.reason else ""),)


def plan_section(study: StudyRecords) -> Section:
    """Every step with its state and minutes, and the whole configuration."""
    plan = study.plan
    rows = tuple(
        Row(
            (step.name,),
            (
                Cell(step.state, kind="plain" if step.state == "done" else "missing"),
                Cell(step.reason or NOTHING),
                Cell(_needs(step)),
                Cell(Code(step.command) if step.command else NOTHING),
                Cell(NOTHING if step.minutes is None else f"{step.minutes:.1f}"),
            ),
        )
        for step in plan.steps
    )
    columns = ("step", "state", "reason", "needs", "command", "minutes")
    minutes = sum(step.minutes or 0 for step in plan.steps)
    done = sum(step.state == "done" for step in plan.steps)
    facts: tuple[tuple[str, Prose], ...] = (
        (
            "data",
            (f"{plan.data.folder}: {plan.data.languages}, fingerprint {plan.data.fingerprint}, {pairs_line(study)}",),
        ),
        ("revision", (plan.versions.revision or "unknown",)),
        ("versions", (versions_line(study) or "not stored",)),
        ("machine", (machine_line(study),)),
        ("halting stage", (Code(" ".join(plan.exit_config)) if plan.exit_config else "no changes",)),
    )
    blocks: list[Block] = [
        Text((f"{done} of {len(rows)} steps are done, {minutes:.1f} minutes in all.",)),
        *([Fold("The steps", (Table("The plan's steps", columns, rows, texts=5),))] if rows else []),
        FactList(facts),
        *([Fold("The configuration of the first stage", (_configuration(plan.config),))] if plan.config else []),
    ]
    return Section("plan", "The plan and its recipe", tuple(blocks))


def _needs(step: StepRecord) -> str:
    """The steps that come before; of many only how many."""
    return f"{len(step.needs)} steps" if len(step.needs) > MOST_NEEDS else ", ".join(step.needs) or NOTHING


def _configuration(config: Settings) -> FactList:
    return FactList(
        tuple((name, (Code(json.dumps(value, ensure_ascii=False)),)) for name, value in _flat(config).items())
    )


def _flat(config: Settings, prefix: str = "") -> Settings:
    """Nested settings by their names with dots, as --set takes them."""
    flat: Settings = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat
