"""Tables 1 to 3 with the paper's figures below ours."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anydepth.evaluation.report import published
from anydepth.evaluation.report.document import NOTHING, Block, Cell, Fold, Mark, Row, Section, Table, Text
from anydepth.evaluation.report.published import ALIGNED, BASELINE, PublishedRow, PublishedTable
from anydepth.evaluation.report.reading import Study, measured
from anydepth.evaluation.report.recipe import missing, missing_runs, recipe
from anydepth.evaluation.report.records import Comparison, Measurement, Run
from anydepth.evaluation.report.seeds import Value, bleu_of, over_seeds
from anydepth.evaluation.report.signs import LEGEND, Difference, count_line, sign_mark, stored_difference

EXPLAINED = {
    "table1": "Aligned training computes every exit from aligned states. Mixed training draws M paths of exits. "
    "The baselines are separate models.",
    "table2": "The losses of the exits are weighed by ω. The reference is ω = 1, which is the aligned model.",
    "table3": f"The gradient of each exit's loss is scaled by {published.GAMMA} in its own block. "
    "The reference is no scaling, which is the aligned model.",
}
ROLES = {"table1": "mixed", "table2": "omega", "table3": "gamma"}


@dataclass(frozen=True)
class Column:
    """A column of a table: "uniform", "average", or fixed exit `n`."""

    title: str
    n: int | None = None

    def paper(self, row: PublishedRow) -> float | None:
        """The paper's figure in this column, if it has the column."""
        if self.n is not None:
            return row.fixed[self.n - 1] if self.n <= published.BLOCKS else None
        return row.uniform if self.title == "uniform" else row.average

    def is_of(self, comparison: Comparison, *, of_baseline: bool) -> bool:
        """Whether a comparison was made of this column's figures; a baseline's own policy is its full depth."""
        policy = comparison.against_policy if of_baseline and self.title != "average" else comparison.policy
        return policy.partition(":")[0] == self.title if self.n is None else policy == f"fixed:{self.n}"


@dataclass(frozen=True)
class Figures:
    """One row of ours, by columns: the figures (None for what is missing) and the differences from the reference."""

    variant: str
    label: str
    values: tuple[Value | None, ...]
    differences: tuple[Difference | None, ...]
    published: PublishedRow | None


def table_sections(study: Study) -> list[Section]:
    """A section for each table that the study was asked for."""
    return [_section(study, table) for table in published.TABLES if study.asks_for(table.experiment)]


def columns_of(blocks: int) -> tuple[Column, ...]:
    """uniform, n = 1..N, average."""
    return (Column("uniform"), *(Column(f"n = {n}", n) for n in range(1, blocks + 1)), Column("average"))


def _section(study: Study, table: PublishedTable) -> Section:
    columns = columns_of(study.blocks)
    rows = [_figures(study, table, variant, row, columns) for variant, row in _variants(study, table).items()]
    reference = table.rows[ALIGNED]
    pairs = [_row_pair(study, row, reference, columns) for row in rows]
    marks = [cell.mark for pair in pairs for row in pair for cell in row.cells if cell.mark is not None]
    heads = ("training", "figures", *(column.title for column in columns))
    runs = [run for row in rows for run in _runs(study, row.variant)]
    blocks: list[Block] = [
        Text((EXPLAINED[table.experiment],)),
        Table(
            f"BLEU on {table.split}; below ours the paper's, on IWSLT'14 German to English",
            heads,
            tuple(r for pair in pairs for r in pair),
            texts=2,
        ),
        Text((count_line(marks),), "count") if marks else Text(("No sign could be compared.",), "count"),
        Text((f"{LEGEND} Reference row: {reference.label}. {_interval_note(study, rows)}{_depth_note(study)}",), "note"),
        *_missing_of(study, rows, columns, table),
        Fold("Differences from the reference row, with intervals", (_difference_table(rows, reference, columns),)),
        *recipe(study, runs),
    ]
    return Section(table.name, table.title, tuple(blocks))


def _variants(study: Study, table: PublishedTable) -> dict[str, PublishedRow | None]:
    """The variants that stand for the paper's rows, and further ones of the same kind that this study has."""
    found: dict[str, PublishedRow | None] = {}
    for name, row in table.rows.items():
        found.setdefault(*_counterpart(name, row, study.blocks))
    for variant in sorted({run.variant for run in study.runs.values() if run.role == ROLES[table.experiment]}):
        found.setdefault(variant, None)
    return found


def _counterpart(name: str, row: PublishedRow, blocks: int) -> tuple[str, PublishedRow]:
    """Our variant for a row of the paper: mixed training has M = 1, N / 2 and N paths, whatever N is."""
    if name not in ("mixed-3", "mixed-6") or blocks == published.BLOCKS:
        return name, row
    paths = blocks if name == "mixed-6" else max(1, blocks // 2)
    return f"mixed-{paths}", replace(row, label=f"Mixed, M = {paths} (paper: {name[-1]})")


def _runs(study: Study, variant: str) -> list[Run]:
    if variant != BASELINE:
        return study.of(variant)
    return [run for n in range(1, study.blocks + 1) for run in study.of(f"{BASELINE}-{n}")]


def _figures(study: Study, table: PublishedTable, variant: str, row: PublishedRow | None, columns: Sequence[Column]) -> Figures:
    values = tuple(_value(study, table, variant, column) for column in columns)
    differences = tuple(_difference(study, table, variant, column) if variant != ALIGNED else None for column in columns)
    return Figures(variant, row.label if row else variant, values, differences, row)


def _value(study: Study, table: PublishedTable, variant: str, column: Column) -> Value | None:
    if column.title == "average":
        return _average(study, table, variant)
    found = [m for run in _runs(study, variant) for m in _cell_measurements(run, table, variant, column)]
    return bleu_of(found) if found else None


def _cell_measurements(run: Run, table: PublishedTable, variant: str, column: Column) -> list[Measurement]:
    """The one measurement of a run for a cell, or none."""
    if variant == BASELINE:
        return measured(run, table.split, "full")[:1] if column.n == run.blocks else []
    if column.n is None:
        return measured(run, table.split, "uniform")[:1]
    return measured(run, table.split, "fixed", f"fixed:{column.n}")[:1]


def _average(study: Study, table: PublishedTable, variant: str) -> Value | None:
    """The mean over the fixed exits, seed by seed; a seed that lacks one is left out."""
    exits = columns_of(study.blocks)[1:-1]
    by_seed: dict[int, list[float]] = {}
    for run in _runs(study, variant):
        for column in exits:
            by_seed.setdefault(run.seed, []).extend(m.bleu for m in _cell_measurements(run, table, variant, column))
    whole = [sum(values) / len(values) for values in by_seed.values() if len(values) == len(exits)]
    return over_seeds(whole) if whole else None


def _difference(study: Study, table: PublishedTable, variant: str, column: Column) -> Difference | None:
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


def _row_pair(study: Study, row: Figures, reference: PublishedRow, columns: Sequence[Column]) -> tuple[Row, ...]:
    ours = tuple(_our_cell(study, row, reference, column, place) for place, column in enumerate(columns))
    if row.published is None:
        return (Row((row.label, "ours"), ours),)
    paper = tuple(_paper_cell(column.paper(row.published)) for column in columns)
    return Row((row.label, "ours"), ours), Row(("", "paper"), paper, "paper")


def _our_cell(study: Study, row: Figures, reference: PublishedRow, column: Column, place: int) -> Cell:
    value = row.values[place]
    if row.variant == BASELINE and column.title == "uniform":
        return Cell(NOTHING, tip="a baseline has one exit")
    if value is None:
        return Cell("missing", kind="missing", tip=f"no record of {row.variant} in this column; {study.plan.command} makes it")
    return Cell(f"{value.mean:.2f}", value.spread, _mark(row, reference, column, place), value.words)


def _mark(row: Figures, reference: PublishedRow, column: Column, place: int) -> Mark | None:
    if row.variant == ALIGNED or row.published is None:
        return None
    paper, against = column.paper(row.published), column.paper(reference)
    if paper is None or against is None:
        return None
    return sign_mark(row.differences[place], round(paper - against, 1))


def _paper_cell(figure: float | None) -> Cell:
    return Cell(NOTHING if figure is None else f"{figure:.1f}", kind="paper")


def _difference_table(rows: Sequence[Figures], reference: PublishedRow, columns: Sequence[Column]) -> Table:
    listed = []
    for row in rows:
        if row.variant == ALIGNED:
            continue
        ours = tuple(_difference_cell(difference) for difference in row.differences)
        listed.append(Row((row.label, "ours"), ours))
        if row.published is not None:
            pairs = [(column.paper(row.published), column.paper(reference)) for column in columns]
            paper = tuple(Cell(NOTHING if a is None or b is None else f"{round(a - b, 1) + 0.0:+.1f}", kind="paper") for a, b in pairs)
            listed.append(Row(("", "paper"), paper, "paper"))
    heads = ("training", "figures", *(column.title for column in columns))
    return Table(f"BLEU minus that of {reference.label}, with the 95% interval of our difference", heads, tuple(listed), texts=2)


def _difference_cell(difference: Difference | None) -> Cell:
    if difference is None:
        return Cell(NOTHING)
    return Cell(f"{difference.mean:+.2f}", f"{difference.low:+.2f} to {difference.high:+.2f}", tip=difference.words)


def _interval_note(study: Study, rows: Sequence[Figures]) -> str:
    found = [(row, value) for row in rows for value in row.values if value is not None]
    bases = sorted({value.basis for _, value in found if value.low is not None})
    note = f"± is half of the interval ({'; '.join(bases)}). " if bases else ""
    seeds = len(study.plan.seeds)
    fewer = sorted({row.label for row, value in found if value.seeds < seeds})
    return f"{note}Not all of the {seeds} seeds are there for: {', '.join(fewer)}. " if fewer else note


def _depth_note(study: Study) -> str:
    if study.blocks == published.BLOCKS:
        return ""
    shown = f"its columns beyond n = {study.blocks} are left out" if study.blocks < published.BLOCKS else "it has no deeper columns"
    return (
        f"The paper's models have {published.BLOCKS} blocks and ours {study.blocks}: {shown}, and its uniform and average are over 6 exits."
    )


def _missing_of(study: Study, rows: Sequence[Figures], columns: Sequence[Column], table: PublishedTable) -> list[Block]:
    names = []
    for row in rows:
        gone = [c for c, v in zip(columns, row.values, strict=True) if v is None and not (row.variant == BASELINE and c.title == "uniform")]
        if row.variant == BASELINE:
            names += [f"{BASELINE}-{column.n}" for column in gone if column.n is not None]
        elif gone:
            names.append(row.variant)
    told = missing_runs(study, names, f" (wholly or in part, on {table.split})")
    if study.comparisons is None:
        told.append(missing(study, "records/comparisons.json, from which the signs are marked."))
    return told
