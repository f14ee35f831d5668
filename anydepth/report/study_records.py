"""A study's folder as one object: study.json and records/, and nothing else."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from anydepth.errors import UsageError
from anydepth.experiments.race_records import HeatRecord, RaceRecord
from anydepth.experiments.records import (
    FORMAT,
    ComparisonRecord,
    ComparisonsRecord,
    CostRecord,
    FileKind,
    MeasurementRecord,
    PlanRecord,
    PositionsRecord,
    RunRecord,
    ScoresRecord,
    Split,
    TokensRecord,
    TrendRecord,
    TrendsRecord,
)
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.variants import ALL, BY_NAME_ALONE
from anydepth.files.reading import LARGE, Unreadable, first_problem, parse_json, read_text, shown
from anydepth.limits import MOST_BLOCKS

# What neither XML nor UTF-8 can hold: controls, lone surrogates and the two non-characters.
UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class StudyRecords:
    """A study as it is stored; None stands for a record that is not there."""

    plan: PlanRecord
    runs: dict[str, RunRecord]
    trends: list[TrendRecord] | None
    comparisons: list[ComparisonRecord] | None
    tokens: TokensRecord | None
    positions: PositionsRecord | None
    scores: ScoresRecord | None
    cost: CostRecord | None
    heats: list[HeatRecord]
    race: RaceRecord | None

    def asks_for(self, experiment: str) -> bool:
        """Whether the study was asked for `experiment`."""
        named = self.plan.experiments
        return experiment in named or (ALL in named and experiment not in BY_NAME_ALONE)

    @property
    def blocks(self) -> int:
        """N, the depth of the aligned model, or of the deepest one where there is none, or what the
        config says."""
        aligned = self.of("aligned")
        if aligned:
            return aligned[0].blocks
        if self.runs:
            return max(run.blocks for run in self.runs.values())
        stated = self.plan.config.get("model", {})
        blocks = stated.get("blocks") if isinstance(stated, dict) else None
        return blocks if isinstance(blocks, int) and 1 <= blocks <= MOST_BLOCKS else 6

    def of(self, variant: str) -> list[RunRecord]:
        """The runs of a variant, one for each seed, in the seeds' order."""
        return sorted((run for run in self.runs.values() if run.variant == variant), key=lambda run: run.seed)

    @cached_property
    def compared(self) -> dict[tuple[Split, str], dict[str, list[ComparisonRecord]]]:
        """The comparisons by split and by the variant that was compared against, then by the other
        variant.

        Each stands there the other way round, too, with its sign turned.
        """
        found: dict[tuple[Split, str], dict[str, list[ComparisonRecord]]] = {}
        for comparison in self.comparisons or []:
            run, against = self.variant_of(comparison.run), self.variant_of(comparison.against)
            found.setdefault((comparison.split, against), {}).setdefault(run, []).append(comparison)
            found.setdefault((comparison.split, run), {}).setdefault(against, []).append(turned(comparison))
        return found

    def variant_of(self, name: str) -> str:
        """The variant of a run by the run's name; a run without a record is its own variant."""
        return self.runs[name].variant if name in self.runs else name


def turned(comparison: ComparisonRecord) -> ComparisonRecord:
    """A comparison the other way round."""
    return comparison.model_copy(
        update={
            "run": comparison.against,
            "against": comparison.run,
            "policy": comparison.against_policy,
            "against_policy": comparison.policy,
            "difference": -comparison.difference,
            "low": -comparison.high,
            "high": -comparison.low,
        }
    )


def measured(run: RunRecord, split: Split, kind: str, policy: str | None = None) -> list[MeasurementRecord]:
    """The measurements of a run that are of this split and kind and have BLEU, and of this policy
    where one is given."""
    return [m for m in _of(run, split, kind) if m.bleu is not None and policy in (None, m.policy)]


def measured_exits(run: RunRecord, split: Split, kind: str) -> list[tuple[float, str]]:
    """The average exits of this split and kind that were kept, each with its policy."""
    return [(m.average_exit, m.policy) for m in _of(run, split, kind) if m.average_exit is not None]


def _of(run: RunRecord, split: Split, kind: str) -> list[MeasurementRecord]:
    return [m for m in run.measurements if m.split == split and m.kind == kind]


def read_study(path: Path) -> StudyRecords:
    """The study at `path`; what is damaged or foreign is refused, what is missing is None."""
    folder = StudyFolder(path)
    if not folder.study_file.is_file():
        raise UsageError(
            f'{path} is no study: it has no study.json; give the folder that "anydepth study ... --to" wrote'
        )
    trends = _read_if_there(folder.trends_file, TrendsRecord)
    comparisons = _read_if_there(folder.comparisons_file, ComparisonsRecord)
    return StudyRecords(
        plan=_read(folder.study_file, PlanRecord),
        runs=_read_runs(folder),
        trends=trends.trends if trends else None,
        comparisons=comparisons.comparisons if comparisons else None,
        tokens=_read_if_there(folder.tokens_file, TokensRecord),
        positions=_read_if_there(folder.positions_file, PositionsRecord),
        scores=_read_if_there(folder.scores_file, ScoresRecord),
        cost=_read_if_there(folder.cost_file, CostRecord),
        heats=[_read(path, HeatRecord) for path in folder.heat_records()],
        race=_read_if_there(folder.race_file, RaceRecord),
    )


def _read_runs(folder: StudyFolder) -> dict[str, RunRecord]:
    runs = {}
    for path in folder.run_records():
        run = _read(path, RunRecord)
        if run.run != path.stem:
            raise UsageError(f'{path} holds the run "{run.run}" and should be {run.run}.json; rename it')
        runs[run.run] = run
    return runs


def _read_if_there(path: Path, kind: type[FileKind]) -> FileKind | None:
    return _read(path, kind) if path.exists() else None


def _read(path: Path, kind: type[FileKind]) -> FileKind:
    try:
        text = read_text(path, most=LARGE)
        found = parse_json(text)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror or error}; check the path and its permissions"
        ) from error
    except Unreadable as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(found, dict):
        raise _damaged(path, "it should hold one JSON object")
    if found.get("format") != FORMAT:
        raise UsageError(
            f"{path} has format {shown(found.get('format'))} but this version reads format {FORMAT}; make it with "
            "this version's study"
        )
    try:
        # Without an escape and an unwritable character the file can hold none, which spares a walk
        # through all of it.
        return kind.model_validate(_writable(found) if "\\" in text or UNWRITABLE.search(text) else found)
    except ValidationError as error:
        raise _damaged(path, first_problem(error)) from error


def _damaged(path: Path, reason: str) -> UsageError:
    return UsageError(
        f"{path} is no record of a study: {reason}; restore it from a copy or make the study again in a new folder"
    )


def _writable(value: Any) -> Any:
    """`value` with a replacement character for each character that no page can hold."""
    if isinstance(value, str):
        return UNWRITABLE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_writable(each) for each in value]
    if isinstance(value, dict):
        return {_writable(key): _writable(each) for key, each in value.items()}
    return value
