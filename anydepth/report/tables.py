"""Tables 1 to 3 with the paper's values below ours."""

from collections.abc import Sequence
from dataclasses import replace

from anydepth.report import published
from anydepth.report.document import NOTHING, Block, Cell, Fold, Mark, Row, Section, Table, Text
from anydepth.report.missing import missing, missing_runs, recipe
from anydepth.report.published import ALIGNED, BASELINE, PublishedRow, PublishedTable
from anydepth.report.signs import LEGEND, Difference, count_line, sign_mark
from anydepth.report.study_records import StudyRecords
from anydepth.report.table_values import Column, MeasuredRow, columns_of, measured_rows

EXPLAINED = {
    "table1": "Aligned training computes every exit from aligned states. Mixed training draws M paths of exits. "
    "The baselines are separate models.",
    "table2": "The losses of the exits are weighed by ω. The reference is ω = 1, which is the aligned model.",
    "table3": f"The gradient of each exit's loss is scaled by {published.GAMMA} in its own block. "
    "The reference is no scaling, which is the aligned model.",
}
BEST = "Bold is the best of our figures and the best of the paper's in a column."


def table_sections(study: StudyRecords) -> list[Section]:
    """A section for each table that the study was asked for."""
    return [_section(study, table) for table in published.TABLES if study.asks_for(table.experiment)]


def _section(study: StudyRecords, table: PublishedTable) -> Section:
    columns = columns_of(study.blocks)
    rows = measured_rows(study, table)
    reference = table.rows[ALIGNED]
    pairs = [_row_pair(study, row, reference, columns) for row in rows]
    marks = [cell.mark for pair in pairs for row in pair for cell in row.cells if cell.mark is not None]
    heads = _heads(columns)
    blocks: list[Block] = [
        Text((EXPLAINED[table.experiment],)),
        Table(_caption(rows, table), heads, with_best([row for pair in pairs for row in pair]), texts=2),
        Text((count_line(marks),), "count") if marks else Text(("No sign could be compared.",), "count"),
        Text(
            (f"{LEGEND} {BEST} Reference row: {reference.label}. {_interval_note(study, rows)}{_depth_note(study)}",),
            "note",
        ),
        *_missing_of(study, rows, columns, table),
        Fold(
            "Differences from the reference row, with intervals, and our tokenized BLEU",
            (_difference_table(rows, reference, columns), _tokenized_table(rows, columns, table)),
        ),
        *recipe(study, (run for row in rows for run in row.runs)),
    ]
    return Section(table.name, table.title, tuple(blocks))


def _heads(columns: Sequence[Column]) -> tuple[str, ...]:
    return ("training", "figures", *(column.title for column in columns))


def _caption(rows: Sequence[MeasuredRow], table: PublishedTable) -> str:
    """Whose BLEU is which: the two are computed on different texts."""
    signatures = sorted(
        {
            m.signature
            for row in rows
            for run in row.runs
            for m in run.measurements
            if m.split == table.split and m.signature
        }
    )
    tokenizer = " 13a" if signatures and all("tok:13a" in signature for signature in signatures) else ""
    ours = f"Ours is sacreBLEU{tokenizer} on detokenized text ({', '.join(signatures) or 'no signature stored'})"
    return f"BLEU on {table.split}. {ours}; below it the paper's is tokenized BLEU, on IWSLT'14 German to English."


def with_best(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows with the best value of each column marked, as printed, among ours and among the
    paper's; a lone value is not marked."""
    marked = list(rows)
    for kind in ("plain", "paper"):
        places = [place for place, row in enumerate(rows) if row.kind == kind]
        for column in range(len(rows[0].cells)):
            shown = {place: _shown_value(rows[place].cells[column]) for place in places}
            values = {place: value for place, value in shown.items() if value is not None}
            for place, value in values.items():
                if len(values) > 1 and value == max(values.values()):
                    cells = list(marked[place].cells)
                    cells[column] = replace(cells[column], is_best=True)
                    marked[place] = replace(marked[place], cells=tuple(cells))
    return tuple(marked)


def _shown_value(cell: Cell) -> float | None:
    """The value that a cell shows, if it shows one."""
    try:
        return float(str(cell.text))
    except ValueError:
        return None


def _row_pair(
    study: StudyRecords, row: MeasuredRow, reference: PublishedRow, columns: Sequence[Column]
) -> tuple[Row, ...]:
    ours = tuple(_our_cell(study, row, reference, column, place) for place, column in enumerate(columns))
    if row.published is None:
        return (Row((row.label, "ours"), ours),)
    paper = tuple(_paper_cell(column.paper(row.published)) for column in columns)
    return Row((row.label, "ours"), ours), Row(("", "paper"), paper, "paper")


def _our_cell(study: StudyRecords, row: MeasuredRow, reference: PublishedRow, column: Column, place: int) -> Cell:
    value = row.values[place]
    if row.variant == BASELINE and column.title == "uniform":
        return Cell(NOTHING, tip="a baseline has one exit")
    if value is None:
        return Cell(
            "missing", kind="missing", tip=f"no record of {row.variant} in this column; {study.plan.command} makes it"
        )
    return Cell(f"{value.mean:.2f}", value.spread, _mark(row, reference, column, place), value.words)


def _mark(row: MeasuredRow, reference: PublishedRow, column: Column, place: int) -> Mark | None:
    if row.variant == ALIGNED or row.published is None:
        return None
    paper, against = column.paper(row.published), column.paper(reference)
    if paper is None or against is None:
        return None
    return sign_mark(row.differences[place], round(paper - against, 1))


def _paper_cell(value: float | None) -> Cell:
    return Cell(NOTHING if value is None else f"{value:.1f}", kind="paper")


def _difference_table(rows: Sequence[MeasuredRow], reference: PublishedRow, columns: Sequence[Column]) -> Table:
    listed = []
    for row in rows:
        if row.variant == ALIGNED:
            continue
        ours = tuple(_difference_cell(difference) for difference in row.differences)
        listed.append(Row((row.label, "ours"), ours))
        if row.published is not None:
            pairs = [(column.paper(row.published), column.paper(reference)) for column in columns]
            paper = tuple(
                Cell(NOTHING if a is None or b is None else f"{round(a - b, 1) + 0.0:+.1f}", kind="paper")
                for a, b in pairs
            )
            listed.append(Row(("", "paper"), paper, "paper"))
    caption = f"BLEU minus that of {reference.label}, with the 95% interval of our difference"
    return Table(caption, _heads(columns), tuple(listed), texts=2)


def _tokenized_table(rows: Sequence[MeasuredRow], columns: Sequence[Column], table: PublishedTable) -> Table:
    listed = []
    for row in rows:
        listed.append(
            Row((row.label, "ours"), tuple(Cell(NOTHING if bleu is None else f"{bleu:.2f}") for bleu in row.tokenized))
        )
        if row.published is not None:
            listed.append(
                Row(("", "paper"), tuple(_paper_cell(column.paper(row.published)) for column in columns), "paper")
            )
    caption = f"Tokenized BLEU on {table.split}, ours and below it the paper's"
    return Table(caption, _heads(columns), with_best(listed), texts=2)


def _difference_cell(difference: Difference | None) -> Cell:
    if difference is None:
        return Cell(NOTHING)
    return Cell(f"{difference.mean:+.2f}", f"{difference.low:+.2f} to {difference.high:+.2f}", tip=difference.words)


def _interval_note(study: StudyRecords, rows: Sequence[MeasuredRow]) -> str:
    found = [(row, value) for row in rows for value in row.values if value is not None]
    bases = sorted({value.basis for _, value in found if value.low is not None})
    note = f"± is half of the interval ({'; '.join(bases)}). " if bases else ""
    seeds = len(study.plan.seeds)
    fewer = sorted({row.label for row, value in found if value.seeds < seeds})
    return f"{note}Not all of the {seeds} seeds are there for: {', '.join(fewer)}. " if fewer else note


def _depth_note(study: StudyRecords) -> str:
    if study.blocks == published.BLOCKS:
        return ""
    shown = (
        f"its columns beyond n = {study.blocks} are left out"
        if study.blocks < published.BLOCKS
        else "it has no deeper columns"
    )
    return (
        f"The paper's models have {published.BLOCKS} blocks and ours {study.blocks}: {shown}, and its uniform "
        "and average are over 6 exits."
    )


def _missing_of(
    study: StudyRecords, rows: Sequence[MeasuredRow], columns: Sequence[Column], table: PublishedTable
) -> list[Block]:
    names = []
    for row in rows:
        gone = [
            c
            for c, v in zip(columns, row.values, strict=True)
            if v is None and not (row.variant == BASELINE and c.title == "uniform")
        ]
        if row.variant == BASELINE:
            names += [f"{BASELINE}-{column.n}" for column in gone if column.n is not None]
        elif gone:
            names.append(row.variant)
    told = missing_runs(study, names, f" (wholly or in part, on {table.split})")
    if study.comparisons is None:
        told.append(missing(study, "records/comparisons.json, from which the signs are marked."))
    return told
