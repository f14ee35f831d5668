"""Figures 3, 4 and 5: what depth is worth, and what sets it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anydepth.experiments.records import RunRecord
from anydepth.experiments.seeds import Value, over_seeds
from anydepth.figures.scatter import MOST_WHISKERS, ChartPoint, ChartSeries, scatter_svg
from anydepth.figures.style import FAMILY_STYLES, SeriesStyle
from anydepth.report.document import Block, Cell, Code, Gallery, Picture, Row, Section, Table, Text
from anydepth.report.missing import missing, missing_runs, recipe
from anydepth.report.published import ALIGNED, BASELINE, CONTINUED, FIGURE_3_POINTS, FIGURE_5_POINTS, SIGMA, StatedPoint
from anydepth.report.spots import (
    ALIGNED_STYLE,
    BASELINE_STYLE,
    CONFIDENCE_STYLE,
    CONTINUED_STYLE,
    SEQ_C,
    SEQ_LL,
    TOK_C_GEOMETRIC,
    TOK_C_MULTINOMIAL,
    TOK_LL_GEOMETRIC,
    TOK_LL_MULTINOMIAL,
    Mechanism,
    Spot,
    baseline_spots,
    confidence_spots,
    default_spots,
    fixed_spots,
    penalty_of,
    runs_of,
    series_of,
    tuned_spots,
    values_table,
    width_of,
)
from anydepth.report.study_records import StudyRecords, measured_exits

AE_LABEL = "average exit (AE, blocks a token)"
FLOPS_LABEL = "decoder MFLOPs a token"
BLEU_LABEL = "BLEU (test)"
BY_DEPTH_AND_ARITHMETIC = (
    "The same points by depth and by arithmetic. Confidence pays for an output classifier after "
    "each block that it tries."
)
OTHER_SCALE = (
    "The paper's points are of another data set and another scale, so they stand in this table and not on our axes."
)
ODD_POINT = "For the baseline with N = 2 the paper's text has about 34.35 and its table 2 has 34.6."
WHISKERS = (
    f"Whiskers are intervals; a series of more than {MOST_WHISKERS} points tells them on hovering and in its values."
)
CYCLE = tuple(
    SeriesStyle(FAMILY_STYLES[family].colour, marker)
    for family, marker in (
        *(("multinomial", "o"), ("geometric", "s"), ("similarity", "^"), ("sequence", "D")),
        *(("confidence", "v"), ("fixed", "h"), ("margin", "*"), ("shortlist", "P")),
    )
)


@dataclass(frozen=True)
class Strand:
    """A series before it is laid on axes: the spots, and which runs are needed where there are
    none.

    `variant` is the one whose fixed exits the spots are, where they are that.
    """

    name: str
    spots: tuple[Spot, ...]
    style: SeriesStyle
    needs: str
    is_line: bool = False
    variant: str = ""


def baseline_strand(study: StudyRecords) -> Strand:
    """The separate models on test."""
    needs = f"{BASELINE}-1 to {BASELINE}-{study.blocks}"
    return Strand("Baseline", tuple(baseline_spots(study, "test")), BASELINE_STYLE, needs, is_line=True)


def aligned_strand(study: StudyRecords) -> Strand:
    """The aligned model at its fixed exits on test."""
    return fixed_strand(study, ALIGNED, "Aligned", ALIGNED_STYLE)


def continued_strand(study: StudyRecords) -> Strand:
    """The control: the aligned model with the halting runs' further updates, and without
    halting."""
    return fixed_strand(study, CONTINUED, "Aligned, continued", CONTINUED_STYLE)


def fixed_strand(study: StudyRecords, variant: str, name: str, style: SeriesStyle) -> Strand:
    """A model at its fixed exits on test."""
    return Strand(
        name,
        tuple(fixed_spots(study, variant, name, "test")),
        style,
        f"{variant} (fixed exits)",
        is_line=True,
        variant=variant,
    )


def control_line(study: StudyRecords) -> str:
    """What the line of the control is for."""
    updates = study.plan.exit_updates
    more = (
        "updates beyond those of"
        if updates is None
        else f"{updates:,} {'update' if updates == 1 else 'updates'} more than"
    )
    return (
        f"Halting runs had {more} the aligned and baseline runs; Aligned, continued shows what those updates alone "
        "give (the paper has no such control)."
    )


def confidence_strand(study: StudyRecords) -> Strand:
    """Confidence thresholds on test."""
    return Strand(
        "Confidence", tuple(confidence_spots(study, "test")), CONFIDENCE_STYLE, f"{ALIGNED} (tuned confidence)"
    )


def strand(study: StudyRecords, mechanism: Mechanism) -> Strand:
    """A mechanism on test: tuned where it has thresholds, and otherwise, or where they are not
    tuned yet, as it was trained."""
    spots = tuned_spots(study, mechanism, "test") if mechanism.halting == "geometric" else []
    name = f"{mechanism.label} (tuned)" if spots else mechanism.label
    return Strand(name, tuple(spots or default_spots(study, mechanism, "test")), mechanism.style, mechanism.label)


def figure_3_section(study: StudyRecords) -> Section:
    """BLEU against the average exit, for tokens, for sequences, and for confidence."""
    first = [baseline_strand(study), aligned_strand(study), continued_strand(study)]
    tokens = [
        strand(study, each) for each in (TOK_C_GEOMETRIC, TOK_LL_GEOMETRIC, TOK_C_MULTINOMIAL, TOK_LL_MULTINOMIAL)
    ]
    sequences = [strand(study, each) for each in (SEQ_LL, SEQ_C)]
    panels = (
        ("figure-3a", "Figure 3a: tokens choose", [*first, *tokens]),
        ("figure-3b", "Figure 3b: sequences choose", [*first, *sequences]),
        ("figure-3c", "Figure 3c: confidence", [*first, *tokens[:2], confidence_strand(study)]),
    )
    pictures = [
        picture for name, title, strands in panels for picture in tradeoff_picture(study, name, title, strands, by_exit)
    ]
    strands = [*first, *tokens, *sequences, confidence_strand(study)]
    blocks: list[Block] = [
        Text(
            (
                "What accuracy an average depth buys on the test set. Up and to the left is better. "
                f"{control_line(study)} {WHISKERS}",
            )
        ),
        *([Gallery(tuple(pictures))] if pictures else []),
        *missing_strands(study, strands),
        stated_table("IWSLT'14 German to English", FIGURE_3_POINTS),
        Text((f"{OTHER_SCALE} {ODD_POINT}",), "note"),
        *recipe(study, runs_in(strands)),
    ]
    return Section("figure-3", "Figure 3: BLEU against the average exit", tuple(blocks))


def figure_5_section(study: StudyRecords) -> Section:
    """BLEU against the average exit and against FLOPs."""
    strands = [
        baseline_strand(study),
        aligned_strand(study),
        continued_strand(study),
        *(strand(study, each) for each in (SEQ_LL, TOK_C_GEOMETRIC, TOK_LL_GEOMETRIC)),
        confidence_strand(study),
    ]
    pictures = [
        *tradeoff_picture(study, "figure-5a", "Figure 5a: BLEU against the average exit", strands, by_exit),
        *tradeoff_picture(study, "figure-5b", "Figure 5b: BLEU against FLOPs", strands, by_flops),
    ]
    blocks: list[Block] = [
        Text((f"{BY_DEPTH_AND_ARITHMETIC} {control_line(study)}",)),
        *([Gallery(tuple(pictures))] if pictures else []),
        *missing_strands(study, strands),
        stated_table("WMT'14 English to French", FIGURE_5_POINTS),
        Text((OTHER_SCALE,), "note"),
        *recipe(study, runs_in(strands)),
    ]
    return Section("figure-5", "Figure 5: BLEU against the average exit and against FLOPs", tuple(blocks))


def by_exit(spot: Spot) -> float | None:
    """The average exit of a spot."""
    return spot.average_exit


def by_flops(spot: Spot) -> float | None:
    """The decoder's MFLOPs a token of a spot."""
    return spot.mflops


X_LABELS: dict[Callable[[Spot], float | None], str] = {by_exit: AE_LABEL, by_flops: FLOPS_LABEL}


def tradeoff_picture(
    study: StudyRecords, name: str, title: str, strands: Sequence[Strand], x: Callable[[Spot], float | None]
) -> list[Picture]:
    """The chart of some strands, or nothing where no point is measured."""
    series = [series_of(each.name, each.spots, each.style, x, is_line=each.is_line) for each in strands]
    drawn = [each.name for each in series if each.points]
    if not drawn:
        return []
    alt = f"{title}. {BLEU_LABEL} against {X_LABELS[x]}; series: {', '.join(drawn)}."
    svg = scatter_svg(
        series,
        x_label=X_LABELS[x],
        y_label=BLEU_LABEL,
        name=name,
        description=alt,
        exits=study.blocks if x is by_exit else None,
    )
    spots = [spot for each in strands for spot in each.spots if x(spot) is not None]
    return [Picture(name, title, svg, alt, values_table(f"{title}: values", spots))]


def missing_strands(
    study: StudyRecords, strands: Sequence[Strand], *, baselines: Sequence[int] | None = None
) -> list[Block]:
    """A sentence for the series without a point, for the baselines (all of 1..N, or these) and for
    the exits that a line lacks."""
    names = [each.needs for each in strands if not each.spots]
    told = {spot.runs[0].variant for each in strands for spot in each.spots}
    if any(each.name == "Baseline" and each.spots for each in strands):
        names += [f"{BASELINE}-{n}" for n in baselines or range(1, study.blocks + 1) if f"{BASELINE}-{n}" not in told]
    for each in strands:
        if each.variant and 0 < len(each.spots) < study.blocks:
            names.append(f"{each.variant} ({study.blocks - len(each.spots)} of its fixed exits)")
    return missing_runs(study, names, " on test")


def runs_in(strands: Sequence[Strand]) -> list[RunRecord]:
    """The runs behind some strands."""
    return [run for each in strands for spot in each.spots for run in spot.runs]


def stated_table(data: str, points: Sequence[StatedPoint]) -> Table:
    """The points that the paper's text states."""
    rows = tuple(
        Row((point.system,), (Cell(point.average_exit, kind="paper"), Cell(point.bleu, kind="paper")))
        for point in points
    )
    return Table(
        f"Points that the paper states ({data}, test)", ("paper's system", "average exit", "BLEU"), rows, texts=1
    )


@dataclass(frozen=True)
class Setting:
    """Lambda and sigma of some runs, their average exit on valid, and the runs."""

    penalty: float
    width: float
    average_exit: Value
    policy: str
    runs: tuple[RunRecord, ...]


def figure_4_section(study: StudyRecords) -> Section:
    """The average exit by lambda and by sigma, of Tok-LL geometric with thresholds of 0.5 on
    valid."""
    title = f"Figure 4: what λ and {SIGMA} do to the average exit"
    settings = _settings(study)
    panels = (
        (
            "figure-4a",
            "Figure 4a: the regularization λ",
            "regularization parameter λ",
            SIGMA,
            lambda each: (each.penalty, each.width),
        ),
        (
            "figure-4b",
            f"Figure 4b: the kernel width {SIGMA}",
            f"RBF kernel width {SIGMA}",
            "λ",
            lambda each: (each.width, each.penalty),
        ),
    )
    blocks: list[Block] = [
        Text(
            (
                "Tok-LL geometric with all thresholds at 0.5, on the valid set. In the paper a higher λ lowers the "
                f"exits and a wider {SIGMA} raises them.",
            )
        )
    ]
    pictures = []
    for name, panel_title, x_label, symbol, key in panels:
        series = _setting_series(settings, symbol, key)
        if not series:
            blocks.append(
                missing(
                    study,
                    f"{panel_title} needs {TOK_LL_GEOMETRIC.label} runs that differ in {x_label[-1]} alone, measured "
                    "on valid.",
                )
            )
            continue
        alt = f"{panel_title}. Average exit on valid; lines: {', '.join(each.name for each in series)}."
        svg = scatter_svg(series, x_label=x_label, y_label=AE_LABEL, name=name, description=alt)
        pictures.append(Picture(name, panel_title, svg, alt, _setting_table(f"{panel_title}: values", settings)))
    if pictures:
        blocks.insert(1, Gallery(tuple(pictures)))
    blocks += recipe(study, (run for each in settings for run in each.runs))
    return Section("figure-4", title, tuple(blocks))


def _settings(study: StudyRecords) -> list[Setting]:
    by_key: dict[tuple[float, float], list[tuple[RunRecord, float, str]]] = {}
    for run in runs_of(study, TOK_LL_GEOMETRIC):
        for average_exit, policy in measured_exits(run, "valid", "default")[:1]:
            by_key.setdefault((penalty_of(run), width_of(run)), []).append((run, average_exit, policy))
    return [
        Setting(
            penalty, width, over_seeds([exit_ for _, exit_, _ in found]), found[0][2], tuple(run for run, _, _ in found)
        )
        for (penalty, width), found in sorted(by_key.items())
    ]


def _setting_series(
    settings: Sequence[Setting], symbol: str, key: Callable[[Setting], tuple[float, float]]
) -> list[ChartSeries]:
    """One line for each value of the setting that is held, where the other takes two values or
    more."""
    held: dict[float, list[ChartPoint]] = {}
    for setting in sorted(settings, key=key):
        x, line = key(setting)
        value = setting.average_exit
        held.setdefault(line, []).append(ChartPoint(x, value.mean, _setting_tip(setting), value.low, value.high))
    lines = [(line, points) for line, points in sorted(held.items()) if len(points) > 1]
    return [
        ChartSeries(f"{symbol} = {line:g}", tuple(points), CYCLE[place % len(CYCLE)], is_line=True)
        for place, (line, points) in enumerate(lines)
    ]


def _setting_tip(setting: Setting) -> str:
    exits = setting.average_exit
    told = f"{exits.mean:.2f}" if exits.low is None else exits.words
    names = ", ".join(run.run for run in setting.runs)
    return (
        f"λ = {setting.penalty:g}, {SIGMA} = {setting.width:g} ({names})\npolicy {setting.policy}\naverage exit {told}"
    )


def _setting_table(caption: str, settings: Sequence[Setting]) -> Table:
    rows = tuple(
        Row(
            (", ".join(run.run for run in each.runs),),
            (
                Cell(Code(each.policy)),
                Cell(f"{each.penalty:g}"),
                Cell(f"{each.width:g}"),
                Cell(f"{each.average_exit.mean:.2f}", each.average_exit.spread),
            ),
        )
        for each in settings
    )
    return Table(caption, ("run", "policy", "λ", SIGMA, "average exit"), rows, texts=2)
