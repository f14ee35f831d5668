"""The measured points of each mechanism, ready to be drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anydepth.experiments.records import MeasurementRecord, RunRecord, Split
from anydepth.experiments.seeds import Value, bleu_of
from anydepth.figures.scatter import ChartPoint, ChartSeries
from anydepth.figures.style import FAMILY_STYLES, OTHER_STYLE, SeriesStyle
from anydepth.report.document import NOTHING, Cell, Code, Row, Table
from anydepth.report.published import ALIGNED, BASELINE
from anydepth.report.study_records import StudyRecords, measured


@dataclass(frozen=True)
class Mechanism:
    """A way to decide where to stop: what decides, and the oracle that taught it."""

    label: str
    halting: str
    oracle: str
    style: SeriesStyle

    def is_of(self, run: RunRecord) -> bool:
        """Whether a run was trained so."""
        return (
            run.role == "halting"
            and run.settings.get("exits.halting") == self.halting
            and run.settings.get("exits.oracle") == self.oracle
        )


def _colour(family: str) -> str:
    return FAMILY_STYLES[family].colour


BASELINE_STYLE = SeriesStyle(_colour("uniform"), "s", dashes="--")
ALIGNED_STYLE = SeriesStyle(_colour("fixed"), "o")
CONTINUED_STYLE = SeriesStyle(OTHER_STYLE.colour, "o", fill="none", dashes=":")
CONFIDENCE_STYLE = SeriesStyle(_colour("confidence"), "D")
TOK_C_GEOMETRIC = Mechanism("Tok-C geometric", "geometric", "correctness", SeriesStyle(_colour("geometric"), "v"))
TOK_LL_GEOMETRIC = Mechanism("Tok-LL geometric", "geometric", "likelihood", SeriesStyle(_colour("similarity"), "^"))
TOK_C_MULTINOMIAL = Mechanism(
    "Tok-C multinomial", "multinomial", "correctness", SeriesStyle(_colour("multinomial"), "v", fill="none")
)
TOK_LL_MULTINOMIAL = Mechanism(
    "Tok-LL multinomial", "multinomial", "likelihood", SeriesStyle(_colour("shortlist"), "^", fill="none")
)
SEQ_LL = Mechanism("Seq-LL", "sequence", "likelihood", SeriesStyle(_colour("sequence"), "h"))
SEQ_C = Mechanism("Seq-C", "sequence", "correctness", SeriesStyle(_colour("shortlist"), "h", fill="none"))
SEQ_BLEU = Mechanism("Seq-BLEU", "sequence", "bleu", SeriesStyle(_colour("multinomial"), "*"))


@dataclass(frozen=True)
class Spot:
    """One measured policy: means over the seeds that it was measured with."""

    series: str
    runs: tuple[RunRecord, ...]
    policy: str
    bleu: Value
    average_exit: float | None
    mflops: float | None
    flops_share: float | None
    valid_bleu: float | None

    @property
    def run(self) -> str:
        """The run's name, or the names of the seeds' runs."""
        return ", ".join(run.run for run in self.runs)


def make_spot(series: str, found: Sequence[tuple[RunRecord, MeasurementRecord]]) -> Spot:
    """The spot of one policy from its measurements, one for each seed."""
    measurements = [measurement for _, measurement in found]
    policies = dict.fromkeys(measurement.policy for measurement in measurements)
    return Spot(
        series=series,
        runs=tuple(run for run, _ in found),
        policy=", ".join(policies),
        bleu=bleu_of(measurements),
        average_exit=_mean([m.average_exit for m in measurements]),
        mflops=_mean([m.mflops_per_token for m in measurements]),
        flops_share=_mean([m.flops_share for m in measurements]),
        valid_bleu=_mean([m.valid_bleu for m in measurements]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def baseline_spots(study: StudyRecords, split: Split) -> list[Spot]:
    """The separate models of 1..N blocks."""
    return [
        spot for n in range(1, study.blocks + 1) for spot in full_spots(study, f"{BASELINE}-{n}", "Baseline", split)
    ]


def full_spots(study: StudyRecords, variant: str, series: str, split: Split) -> list[Spot]:
    """A model that is always run at full depth: one spot, or none."""
    found = [(run, m) for run in study.of(variant) for m in measured(run, split, "full")[:1]]
    return [make_spot(series, found)] if found else []


def fixed_spots(study: StudyRecords, variant: str, series: str, split: Split) -> list[Spot]:
    """A model at each fixed exit 1..N."""
    blocks = max((run.blocks for run in study.of(variant)), default=0)
    exits = [
        [(run, m) for run in study.of(variant) for m in measured(run, split, "fixed", f"fixed:{n}")[:1]]
        for n in range(1, blocks + 1)
    ]
    return [make_spot(series, found) for found in exits if found]


def confidence_spots(study: StudyRecords, split: Split) -> list[Spot]:
    """The aligned model with tuned confidence thresholds; thresholds differ between seeds, so that
    each run has its own spots."""
    return [
        make_spot("Confidence", [(run, m)])
        for run in study.of(ALIGNED)
        for m in measured(run, split, "tuned")
        if m.family == "confidence"
    ]


def tuned_spots(study: StudyRecords, mechanism: Mechanism, split: Split) -> list[Spot]:
    """A mechanism with tuned thresholds, each run by itself."""
    return [
        make_spot(mechanism.label, [(run, m)])
        for run in narrowest(runs_of(study, mechanism))
        for m in measured(run, split, "tuned")
    ]


def narrowest(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The runs with the narrowest kernel; the wider ones belong to figure 4, and would lend one
    mechanism more points than the others."""
    least = min(map(width_of, runs), default=0.0)
    return [run for run in runs if width_of(run) == least]


def default_spots(study: StudyRecords, mechanism: Mechanism, split: Split) -> list[Spot]:
    """A mechanism as it was trained, one spot for each setting: the mean over its seeds."""
    by_variant: dict[str, list[tuple[RunRecord, MeasurementRecord]]] = {}
    for run in narrowest(runs_of(study, mechanism)):
        for m in measured(run, split, "default")[:1]:
            by_variant.setdefault(run.variant, []).append((run, m))
    return [make_spot(mechanism.label, found) for found in by_variant.values()]


def runs_of(study: StudyRecords, mechanism: Mechanism) -> list[RunRecord]:
    """The runs of a mechanism, weakest penalty first."""
    found = [run for run in study.runs.values() if mechanism.is_of(run)]
    return sorted(found, key=lambda run: (penalty_of(run), width_of(run), run.seed))


def penalty_of(run: RunRecord) -> float:
    """Lambda, the price of an exit that the oracle was given."""
    value = run.settings.get("exits.exit_penalty", 0.0)
    return float(value) if isinstance(value, int | float) else 0.0


def width_of(run: RunRecord) -> float:
    """Sigma, the width of the oracle's kernel."""
    value = run.settings.get("exits.kernel_width", 0.0)
    return float(value) if isinstance(value, int | float) else 0.0


def series_of(
    name: str, spots: Sequence[Spot], style: SeriesStyle, x: Callable[[Spot], float | None], *, is_line: bool = False
) -> ChartSeries:
    """Spots as points with BLEU upward; a spot without `x` is left out."""
    points = []
    for spot in spots:
        place = x(spot)
        if place is not None:
            points.append(ChartPoint(place, spot.bleu.mean, spot_tip(spot), spot.bleu.low, spot.bleu.high))
    return ChartSeries(name, tuple(points), style, is_line)


def spot_tip(spot: Spot) -> str:
    """What a point tells: its series and run, the policy, and the numbers."""
    lines = [
        f"{spot.series} ({spot.run})",
        f"policy {spot.policy}",
        f"BLEU {spot.bleu.words}",
        f"average exit {spot.average_exit:.2f}" if spot.average_exit is not None else "",
        f"{spot.mflops:.2f} MFLOPs a token" if spot.mflops is not None else "",
        f"BLEU on valid {spot.valid_bleu:.2f}" if spot.valid_bleu is not None else "",
    ]
    return "\n".join(each for each in lines if each)


def two_digits(value: float | None) -> str:
    """A number, or a dash for one that is not stored."""
    return NOTHING if value is None else f"{value:.2f}"


def values_table(caption: str, spots: Sequence[Spot]) -> Table:
    """The drawn points in numbers."""
    columns = ("series", "run", "policy", "BLEU", "average exit", "MFLOPs/token")
    rows = tuple(
        Row(
            (spot.series,),
            (
                Cell(spot.run),
                Cell(Code(spot.policy)),
                Cell(f"{spot.bleu.mean:.2f}", spot.bleu.spread, tip=spot.bleu.words),
                Cell(two_digits(spot.average_exit)),
                Cell(two_digits(spot.mflops)),
            ),
        )
        for spot in spots
    )
    return Table(caption, columns, rows, texts=3)
