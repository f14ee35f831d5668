"""The values of tables 1 to 3: ours from the records, by the rows and columns of the paper."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from anydepth.experiments.records import ComparisonRecord, MeasurementRecord, RunRecord
from anydepth.experiments.seeds import Value, bleu_of, over_seeds
from anydepth.report import published
from anydepth.report.published import ALIGNED, BASELINE, PublishedRow, PublishedTable
from anydepth.report.signs import Difference, stored_difference
from anydepth.report.study_records import StudyRecords, measured

ROLES = {"table1": "mixed", "table2": "omega", "table3": "gamma"}


@dataclass(frozen=True)
class Column:
    """A column of a table: "uniform", "average", or fixed exit `n`."""

    title: str
    n: int | None = None

    def paper(self, row: PublishedRow) -> float | None:
        """The paper's value in this column, if it has the column."""
        if self.n is not None:
            return row.fixed[self.n - 1] if self.n <= published.BLOCKS else None
        return row.uniform if self.title == "uniform" else row.average

    def is_of(self, comparison: ComparisonRecord, *, of_baseline: bool) -> bool:
        """Whether a comparison was made of this column's values; a baseline's own policy is its
        full depth."""
        policy = comparison.against_policy if of_baseline and self.title != "average" else comparison.policy
        return policy.partition(":")[0] == self.title if self.n is None else policy == f"fixed:{self.n}"


@dataclass(frozen=True)
class MeasuredRow:
    """One row of ours, by columns: BLEU (None for what is missing), differences from the reference,
    and tokenized BLEU; and its runs."""

    variant: str
    label: str
    values: tuple[Value | None, ...]
    differences: tuple[Difference | None, ...]
    tokenized: tuple[float | None, ...]
    published: PublishedRow | None
    runs: tuple[RunRecord, ...]


def columns_of(blocks: int) -> tuple[Column, ...]:
    """uniform, n = 1..N, average."""
    return (Column("uniform"), *(Column(f"n = {n}", n) for n in range(1, blocks + 1)), Column("average"))


def measured_rows(study: StudyRecords, table: PublishedTable) -> list[MeasuredRow]:
    """Our rows of a table."""
    columns = columns_of(study.blocks)
    return [_measured_row(study, table, variant, row, columns) for variant, row in _variants(study, table).items()]


def _variants(study: StudyRecords, table: PublishedTable) -> dict[str, PublishedRow | None]:
    """The variants that stand for the paper's rows, and further ones of the same kind that this
    study has."""
    found: dict[str, PublishedRow | None] = {}
    for name, row in table.rows.items():
        found.setdefault(*_counterpart(name, row, study.blocks))
    for variant in sorted({run.variant for run in study.runs.values() if run.role == ROLES[table.experiment]}):
        found.setdefault(variant, None)
    return found


def _counterpart(name: str, row: PublishedRow, blocks: int) -> tuple[str, PublishedRow]:
    """Our variant for a row of the paper: mixed training has M = 1, N / 2 and N paths, whatever N
    is."""
    if name not in ("mixed-3", "mixed-6") or blocks == published.BLOCKS:
        return name, row
    paths = blocks if name == "mixed-6" else max(1, blocks // 2)
    return f"mixed-{paths}", replace(row, label=f"Mixed, M = {paths} (paper: {name[-1]})")


def _runs(study: StudyRecords, variant: str) -> list[RunRecord]:
    if variant != BASELINE:
        return study.of(variant)
    return [run for n in range(1, study.blocks + 1) for run in study.of(f"{BASELINE}-{n}")]


def _measured_row(
    study: StudyRecords, table: PublishedTable, variant: str, row: PublishedRow | None, columns: Sequence[Column]
) -> MeasuredRow:
    values = tuple(_value(study, table, variant, column) for column in columns)
    differences = tuple(
        _difference(study, table, variant, column) if variant != ALIGNED else None for column in columns
    )
    tokenized = tuple(_tokenized(study, table, variant, column) for column in columns)
    return MeasuredRow(
        variant, row.label if row else variant, values, differences, tokenized, row, tuple(_runs(study, variant))
    )


def _value(study: StudyRecords, table: PublishedTable, variant: str, column: Column) -> Value | None:
    if column.title == "average":
        whole = _averages(study, table, variant, lambda m: m.bleu)
        return over_seeds(whole) if whole else None
    found = [m for run in _runs(study, variant) for m in _cell_measurements(run, table, variant, column)]
    return bleu_of(found) if found else None


def _tokenized(study: StudyRecords, table: PublishedTable, variant: str, column: Column) -> float | None:
    """BLEU on tokenized text, as the paper has it: the mean over the seeds that have stored it."""
    if column.title == "average":
        found = _averages(study, table, variant, lambda m: m.tokenized_bleu)
    else:
        measurements = [m for run in _runs(study, variant) for m in _cell_measurements(run, table, variant, column)]
        found = [m.tokenized_bleu for m in measurements if m.tokenized_bleu is not None]
    return sum(found) / len(found) if found else None


def _cell_measurements(run: RunRecord, table: PublishedTable, variant: str, column: Column) -> list[MeasurementRecord]:
    """The one measurement of a run for a cell, or none."""
    if variant == BASELINE:
        return measured(run, table.split, "full")[:1] if column.n == run.blocks else []
    if column.n is None:
        return measured(run, table.split, "uniform")[:1]
    return measured(run, table.split, "fixed", f"fixed:{column.n}")[:1]


def _averages(
    study: StudyRecords, table: PublishedTable, variant: str, score: Callable[[MeasurementRecord], float | None]
) -> list[float]:
    """The means over the fixed exits, seed by seed; a seed that lacks one is left out."""
    exits = columns_of(study.blocks)[1:-1]
    by_seed: dict[int, list[float]] = {}
    for run in _runs(study, variant):
        found = [score(m) for column in exits for m in _cell_measurements(run, table, variant, column)]
        by_seed.setdefault(run.seed, []).extend(value for value in found if value is not None)
    return [sum(values) / len(values) for values in by_seed.values() if len(values) == len(exits)]


def _difference(study: StudyRecords, table: PublishedTable, variant: str, column: Column) -> Difference | None:
    is_baseline = variant == BASELINE

    def is_row(name: str) -> bool:
        if not is_baseline:
            return name == variant
        return name.startswith(BASELINE) if column.title == "average" else name == f"{BASELINE}-{column.n}"

    return stored_difference(
        study,
        split=table.split,
        reference=ALIGNED,
        is_row=is_row,
        is_policy=lambda comparison: column.is_of(comparison, of_baseline=is_baseline),
    )
