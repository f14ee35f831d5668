"""Does it agree? The paper's claims one by one, and how far the study is."""

from collections import Counter

from anydepth.experiments.records import TrendRecord
from anydepth.experiments.verdicts import MEANING
from anydepth.report.document import NOTHING, Block, Cell, Mark, Row, Section, Table, Text
from anydepth.report.missing import missing, recipe
from anydepth.report.signs import KINDS, SYMBOLS
from anydepth.report.study_records import StudyRecords


def agreement_section(study: StudyRecords) -> Section:
    """The table of claims with their verdicts, and the count above it."""
    title = "Does it agree?"
    if study.trends is None:
        return Section("agreement", title, (missing(study, "records/trends.json, the claims and what was found."),))
    trends = [trend for trend in study.trends if study.asks_for(trend.experiment)]
    if not trends:
        return Section(
            "agreement", title, (missing(study, "claims: records/trends.json has none for these experiments."),)
        )
    columns = ("claim", "verdict", "paper", "ours", "difference (95% interval)", "remark")
    rows = tuple(Row((trend.claim,), _cells(trend)) for trend in trends)
    blocks: tuple[Block, ...] = (
        Text((verdict_line(trends),), "count"),
        Table("The paper's claims beside what was measured here", columns, rows),
        Text((MEANING,), "note"),
        *recipe(study, (study.runs[name] for trend in trends for name in trend.runs if name in study.runs)),
    )
    return Section("agreement", title, blocks)


def verdict_line(trends: list[TrendRecord]) -> str:
    """How many claims have which verdict."""
    counts = Counter(trend.verdict for trend in trends)
    told = [f"{counts[verdict]} {verdict}" for verdict in KINDS]
    return f"{len(trends)} {'claim' if len(trends) == 1 else 'claims'}: {', '.join(told)}."


def _cells(trend: TrendRecord) -> tuple[Cell, ...]:
    kind = KINDS[trend.verdict]
    mark = Mark(SYMBOLS[kind], kind, trend.basis or trend.verdict, leads=True)
    runs = f"runs: {', '.join(trend.runs)}" if trend.runs else ""
    return (
        Cell(trend.verdict, mark=mark, kind="missing" if kind == "missing" else "plain"),
        Cell(trend.paper, kind="paper"),
        Cell(trend.ours or NOTHING, tip=runs),
        _difference(trend),
        Cell(trend.remark or NOTHING),
    )


def _difference(trend: TrendRecord) -> Cell:
    if trend.difference is None:
        return Cell(NOTHING)
    spread = f"{trend.low:+.2f} to {trend.high:+.2f}" if trend.low is not None and trend.high is not None else ""
    told = "; ".join(part for part in (spread, trend.basis) if part)
    return Cell(f"{trend.difference:+.2f} {trend.unit}".strip(), told)
