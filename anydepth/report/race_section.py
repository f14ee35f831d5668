"""The race: what adaptive depth is worth on the clock beside every plain model of fixed depth."""

from collections import Counter
from collections.abc import Sequence

from anydepth.clock.rounds import Spread
from anydepth.experiments.race_records import (
    ContestantKind,
    ContestantRecord,
    EqualBleuRecord,
    GainRecord,
    HeatRecord,
    LapRecord,
    RaceRecord,
    SpreadRecord,
)
from anydepth.experiments.variants import RACE
from anydepth.experiments.verdicts import Verdict
from anydepth.figures.race import RacedPoint, race_svg, series_name
from anydepth.report.document import NOTHING, Block, Cell, Code, Mark, Picture, Row, Section, Table, Text
from anydepth.report.missing import missing, recipe
from anydepth.report.signs import KINDS, SYMBOLS
from anydepth.report.spots import two_digits
from anydepth.report.study_records import StudyRecords

INTRODUCTION = (
    "One model with an exit after every block, at fixed exits and at thresholds tuned on valid, against what a user "
    "would train instead: decoders of few blocks, and a deep encoder with a decoder of one. All learned from the "
    "same text, which is the corpus and the deepest baseline's translations of it, for the same updates, and all "
    "have the same choice of words, checked on valid."
)
OWN_INTRODUCTION = (
    "One model with an exit after every block, at fixed exits and at thresholds tuned on valid. It learned from the "
    "text alone. All its trainings have the same choice of words, checked on valid."
)
HOW_CHOSEN = (
    "What is compared is chosen on valid, in the same precision and with the same beam, and by the time in the rounds "
    "that are shown; test has no say in it. Of the thresholds in no more time than a rival those are taken whose "
    "translations of valid are most like full depth's. Times are ratios within rounds. Equal BLEU allows for {} on "
    "valid, where thresholds must have it smoothed, too, so that it does not fall as they come closer to full depth; "
    "what remains of it on test stands beside the times."
)
RIVAL_WORDS: dict[ContestantKind, str] = {
    "fixed": "A fixed exit of the same model",
    "plain": "A shallow decoder",
    "deep encoder": "A deep encoder with a decoder of one block",
    "tuned": "Another threshold",
}
GAIN_WORDS: dict[Verdict, str] = {"agree": "gain", "disagree": "loss"}
TIME_WORDS: dict[Verdict, str] = {"agree": "faster", "disagree": "slower"}


def race_section(study: StudyRecords) -> Section:
    """BLEU against time in every cell, and both findings as tables and in words."""
    is_with_rivals = study.asks_for(RACE)
    title = f"The race: adaptive depth against {'plain models' if is_with_rivals else 'fixed exits'}, on the clock"
    heats = [heat for heat in study.heats if heat.contestants]
    blocks: list[Block] = [Text((INTRODUCTION if is_with_rivals else OWN_INTRODUCTION,))]
    if study.race is not None and study.race.equals:
        blocks.append(Text((f"{worth_line(study.race.equals)} {gains_line(study.race.gains)}".strip(),), "lead"))
    if heats:
        blocks.append(race_picture(heats))
    if study.race is not None and study.race.equals:
        blocks += [equals_table(study.race), *gains_tables(study.race.gains)]
        blocks.append(Text((HOW_CHOSEN.format(f"{study.race.tolerance:g}"), *how_run(heats)), "note"))
    blocks += gone(study)
    taking_part = {each.run for heat in heats for each in heat.contestants}
    blocks += recipe(study, (run for run in study.runs.values() if run.run in taking_part))
    return Section("race", title, tuple(blocks))


def gone(study: StudyRecords) -> list[Block]:
    """What of the race is not there, and why."""
    found: list[Block] = [Text((f"{heat.name}: {heat.remark}",), "note") for heat in study.heats if heat.remark]
    waiting = [step.name for step in study.plan.steps if step.name.startswith("race ") and step.state != "done"]
    if not study.heats:
        found.append(missing(study, "records/race, the figures of the contestants."))
    elif waiting:
        found.append(missing(study, f"heats: {', '.join(waiting)}."))
    if study.race is None:
        found.append(missing(study, "records/race.json, what the race shows."))
    return found


def how_run(heats: Sequence[HeatRecord]) -> list[str]:
    """How the clock was read, from the first heat."""
    if not heats:
        return []
    heat = heats[0]
    threads = f"{heat.threads} {'thread' if heat.threads == 1 else 'threads'}"
    return [
        f" BLEU is of {heat.sentences:,} test sentences, times are of {heat.timed_sentences:,} of them in "
        f"{heat.rounds} rounds that all contestants of a heat share, by the {heat.engine} engine with {threads}."
    ]


def worth_line(equals: Sequence[EqualBleuRecord]) -> str:
    """When adaptive depth is worth it and when something else is, by the verdicts on the time for
    the BLEU of full depth."""
    told = []
    if won := [each for each in equals if each.verdict == "agree"]:
        times = [each.ratio.median for each in won if each.ratio is not None]
        told.append(
            f"Adaptive depth is worth it with {cells(won)}: it has the BLEU of full depth in {share(times)} of the "
            "time of the fastest rival that has it."
        )
    lost = [each for each in equals if each.verdict == "disagree"]
    for kind, words in RIVAL_WORDS.items():
        if better := [each for each in lost if usual(each.rival_kinds) == kind]:
            times = [1 / each.ratio.median for each in better if each.ratio is not None]
            told.append(
                f"{words} is worth more with {cells(better)}: it has that BLEU in {share(times)} of the time of "
                "adaptive depth."
            )
    if open_ := [each for each in equals if each.verdict == "within noise"]:
        told.append(f"Neither is shown to be faster with {cells(open_)}.")
    if apart := [each for each in equals if each.verdict == "not comparable"]:
        told.append(f"No thresholds have the BLEU of full depth with {cells(apart)}.")
    return " ".join(told)


def gains_line(gains: Sequence[GainRecord]) -> str:
    """In how many cells thresholds beat a fixed exit or a shallow decoder in its own time."""
    told = []
    for rival in dict.fromkeys(gain.rival for gain in gains):
        same = [gain for gain in gains if gain.rival == rival]
        counts = Counter(gain.verdict for gain in same)
        told.append(
            f"In the time of {rival}, thresholds gain BLEU in {counts['agree']} of {len(same)} cells and lose "
            f"it in {counts['disagree']}."
        )
    return " ".join(told)


def cells(records: Sequence[EqualBleuRecord]) -> str:
    """The cells of some findings."""
    return "; ".join(record.cell.words for record in records)


def share(values: Sequence[float]) -> str:
    """A share, or the range of several."""
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def usual(kinds: Sequence[ContestantKind]) -> ContestantKind:
    """The kind that most seeds have, the first of several."""
    return Counter(kinds).most_common(1)[0][0]


def equals_table(race: RaceRecord) -> Table:
    """The time for the BLEU of full depth, by that of the fastest rival."""
    columns = (
        "cell",
        "adaptive depth is",
        "fastest rival with that BLEU",
        "time by the rival's",
        "decoding alone",
        "BLEU minus the rival's",
        "by seed",
        "thresholds",
        "remark",
    )
    rows = tuple(
        Row(
            (each.cell.words,),
            (
                verdict_cell(each.verdict, TIME_WORDS, each.basis),
                Cell(alternatives(each.rivals)),
                spread_cell(each.ratio),
                spread_cell(each.decoding_ratio),
                spread_cell(each.bleu_difference, "+.2f"),
                *seed_cells(each, ".2f"),
            ),
        )
        for each in race.equals
    )
    return Table("The time for the BLEU of full depth", columns, rows)


def gains_tables(gains: Sequence[GainRecord]) -> list[Block]:
    """BLEU beside the fixed exits and shallow decoders; nothing where there are none."""
    if not gains:
        return []
    columns = (
        "cell",
        "rival",
        "thresholds are a",
        "BLEU minus the rival's",
        "time by the rival's",
        "by seed",
        "thresholds",
        "remark",
    )
    rows = tuple(
        Row(
            (each.cell.words,),
            (
                Cell(each.rival),
                verdict_cell(each.verdict, GAIN_WORDS, each.basis),
                difference_cell(each),
                Cell(two_digits(each.time)),
                *seed_cells(each, "+.2f"),
            ),
        )
        for each in gains
    )
    return [Table("BLEU in no more time than a fixed exit or a shallow decoder", columns, rows)]


def seed_cells(found: EqualBleuRecord | GainRecord, form: str) -> tuple[Cell, Cell, Cell]:
    """The value of each seed, the thresholds that it is of, and the remark."""
    return (
        Cell(", ".join(f"{value:{form}}" for value in found.by_seed) or NOTHING),
        Cell(Code(alternatives(found.points)) if found.points else NOTHING),
        Cell(found.remark or NOTHING),
    )


def verdict_cell(verdict: Verdict, words: dict[Verdict, str], basis: str) -> Cell:
    """A verdict in the words of its table, with its sign."""
    kind = KINDS[verdict]
    return Cell(words.get(verdict, verdict), mark=Mark(SYMBOLS[kind], kind, basis or verdict, leads=True), tip=basis)


def spread_cell(value: SpreadRecord | None, form: str = ".2f") -> Cell:
    """A figure with where it lies."""
    if value is None:
        return Cell(NOTHING)
    return Cell(f"{value.median:{form}}", f"{value.low:{form}} to {value.high:{form}}")


def difference_cell(gain: GainRecord) -> Cell:
    """A difference with its interval."""
    if gain.difference is None or gain.low is None or gain.high is None:
        return Cell(NOTHING)
    return Cell(f"{gain.difference:+.2f}", f"{gain.low:+.2f} to {gain.high:+.2f}")


def alternatives(names: Sequence[str]) -> str:
    """What was chosen with each seed, each once."""
    return " | ".join(dict.fromkeys(names)) or NOTHING


def race_picture(heats: Sequence[HeatRecord]) -> Picture:
    """BLEU against milliseconds per sentence, a panel for each cell."""
    title = "BLEU on test against milliseconds per sentence"
    is_with_rivals = any(each.kind in ("plain", "deep encoder") for heat in heats for each in heat.contestants)
    beside = (
        "; numbers beside points are the blocks of other decoders, and deep is the deep encoder with one"
        if is_with_rivals
        else ""
    )
    raced = [(heat, each, lap) for heat in heats for each in heat.contestants for lap in each.laps]
    points = [raced_point(*each) for each in raced]
    series = ", ".join(dict.fromkeys(point.series for point in points))
    alt = f"{title}, a panel for each precision, beam and batch size; series: {series}."
    svg = race_svg(points, name="race", description=alt)
    return Picture("race", f"{title}{beside}", svg, alt, race_values(f"{title}: values", raced), is_wide=True)


def raced_point(heat: HeatRecord, contestant: ContestantRecord, lap: LapRecord) -> RacedPoint:
    """A contestant on its panel; the models that have one point each are named by their blocks, those
    of the first seed alone, since there is no room for more."""
    is_own = contestant.kind in ("fixed", "tuned")
    series = series_name(contestant.system, contestant.policy, contestant.vocabulary, is_own=is_own)
    is_named = contestant.seed == 1 and (not is_own or contestant.system != heat.engine)
    return RacedPoint(
        (heat.precision, heat.beam, lap.batch),
        series,
        Spread.of(lap.milliseconds),
        contestant.bleu,
        line=contestant.run,
        label=mark_of(contestant) if is_named else "",
        tip=f"{contestant.label} ({contestant.run})\n{contestant.policy}\nBLEU {contestant.bleu:.2f}, "
        f"{lap.time:.2f} ms per sentence, AE {contestant.average_exit:.2f}",
    )


def mark_of(contestant: ContestantRecord) -> str:
    """What stands beside a point."""
    return "deep" if contestant.kind == "deep encoder" else str(contestant.blocks)


def race_values(caption: str, raced: Sequence[tuple[HeatRecord, ContestantRecord, LapRecord]]) -> Table:
    """Every contestant in every cell."""
    columns = (
        "run",
        "system",
        "policy",
        "cell",
        "BLEU",
        "BLEU on valid",
        "like full depth",
        "average exit",
        "words",
        "ms per sentence",
        "decoding alone",
        "tokens/s",
        "decoding tokens/s",
    )
    rows = tuple(
        Row(
            (each.run,),
            (
                Cell(each.system),
                Cell(Code(each.policy)),
                Cell(f"{heat.precision}, beam {heat.beam}, batch {lap.batch}"),
                Cell(f"{each.bleu:.2f}"),
                Cell(f"{each.valid_bleu:.2f}"),
                Cell(two_digits(each.valid_agreement)),
                Cell(f"{each.average_exit:.2f}"),
                Cell(NOTHING if each.words is None else f"{each.words:,.0f}"),
                spread_cell(SpreadRecord.of(Spread.of(lap.milliseconds)), ".3f"),
                spread_cell(SpreadRecord.of(Spread.of(lap.decoding_milliseconds)), ".3f"),
                spread_cell(lap.tokens_per_second, ",.0f"),
                spread_cell(lap.decoding_tokens_per_second, ",.0f"),
            ),
        )
        for heat, each, lap in raced
    )
    return Table(caption, columns, rows, texts=4)
