"""What aligned training costs, what a sceptic would train instead, and the oracle that the paper
left for later."""

import math
from collections.abc import Sequence
from dataclasses import replace

from anydepth.figures.style import FAMILY_STYLES, SeriesStyle
from anydepth.report import published
from anydepth.report.document import NOTHING, Block, Cell, Code, Gallery, Prose, Row, Section, Table, Text
from anydepth.report.missing import missing, missing_runs, recipe, whole
from anydepth.report.published import ALIGNED
from anydepth.report.spots import (
    SEQ_BLEU,
    SEQ_C,
    SEQ_LL,
    TOK_C_GEOMETRIC,
    TOK_LL_GEOMETRIC,
    Mechanism,
    Spot,
    default_spots,
    full_spots,
    penalty_of,
    two_digits,
)
from anydepth.report.study_records import StudyRecords
from anydepth.report.tradeoff_sections import (
    Strand,
    aligned_strand,
    baseline_strand,
    by_exit,
    by_flops,
    confidence_strand,
    continued_strand,
    control_line,
    fixed_strand,
    missing_strands,
    runs_in,
    strand,
    tradeoff_picture,
)

SHALLOW, LAYERDROP = "rival-shallow", "rival-layerdrop"
LAYER_DROPS = {  # how often a layer is left out, and how the line looks
    "0.2": SeriesStyle(FAMILY_STYLES["multinomial"].colour, "X", dashes=":"),
    "0.5": SeriesStyle(FAMILY_STYLES["margin"].colour, "X", fill="none", dashes="-."),
}
DISTILLED = "rival-distilled"
RIVALS = (
    "Other ways to a fast decoder with the same data and updates: a deep encoder with one decoder block, "
    "models distilled from the deepest "
    "baseline's translations, and models trained with layers left out at random (LayerDrop, at two rates)."
)
WHAT_IS_COUNTED = "MFLOPs are the decoder's alone, so that a deeper encoder is free in them. "
CHOSEN = (
    "{} only those tuned points are shown that no other of their series equals or beats in BLEU on valid "
    "at no more MFLOPs. "
)
NOT_CHOSEN = "{} all points are shown: no BLEU on valid is stored to choose by. "
SPEED: Prose = ("Speed is for ", Code("anydepth bench"), ", which runs alone.")
BLEU_ORACLE = (
    "The paper names BLEU as an oracle for later work. Here a training sentence's exit is the one whose "
    "translation scores best, less λ "
    "for each block."
)


def cost_section(study: StudyRecords) -> Section:
    """The time of an update with N classifiers over one, beside the paper's."""
    title = "What aligned training costs"
    cost = study.cost
    if cost is None:
        return Section(
            "cost",
            title,
            (missing(study, "records/cost.json, the time of an update with all classifiers and with one."),),
        )
    more, low, high = (100 * (ratio - 1) for ratio in (cost.ratio, cost.low, cost.high))
    columns = ("figures", "extra time", "ratio", "spread over rounds", "classifiers", "output vocabulary")
    rows = (
        Row(
            ("ours",),
            (
                Cell(f"{more:+.1f}%", f"{low:+.1f}% to {high:+.1f}%"),
                Cell(f"{cost.ratio:.3f}"),
                Cell(f"{cost.low:.3f} to {cost.high:.3f}"),
                Cell(f"{cost.blocks} over 1"),
                Cell(whole(cost.vocabulary)),
            ),
        ),
        Row(
            ("paper",),
            tuple(Cell(text, kind="paper") for text in (published.COST, "about 1.01", NOTHING, "6 over 1", "44k")),
            "paper",
        ),
    )
    threads = f"{cost.threads} {'thread' if cost.threads == 1 else 'threads'}"
    how = f"Ours: {cost.rounds} rounds of {cost.updates_per_round} updates each, in turn, with {threads}."
    note = (
        "The paper's figure is for a big model on WMT'14 English to French, where the blocks outweigh the classifiers."
    )
    blocks: tuple[Block, ...] = (
        Text(
            (
                "Seconds of an update with a classifier after every block, over those of the same model with one "
                "classifier.",
            )
        ),
        Table("The cost of one update", columns, rows, texts=1),
        Text((f"{how} {note}",), "note"),
        *recipe(study, study.of(ALIGNED)),
    )
    return Section("cost", title, blocks)


def rivals_section(study: StudyRecords) -> Section:
    """What else one could train: a shallow decoder, distilled models, layers dropped at random."""
    needed = [
        _shallow(study),
        _distilled(study),
        *_layerdrop(study),
        baseline_strand(study),
        aligned_strand(study),
        continued_strand(study),
        confidence_strand(study),
    ]
    # where another experiment has trained them
    halting = [
        strand(study, TOK_C_GEOMETRIC),
        strand(study, TOK_LL_GEOMETRIC),
    ]
    tunable = [each for each in (needed[-1], *halting) if each.spots]
    strands = [*needed[:-1], *map(front, tunable)]
    depths = sorted({*_distilled_depths(study), study.blocks})
    pictures = tradeoff_picture(study, "rivals-flops", "BLEU against the decoder's arithmetic", strands, by_flops)
    spots = [spot for each in strands for spot in each.spots]
    blocks: list[Block] = [
        Text((f"{RIVALS} {control_line(study)}",)),
        *([Gallery(tuple(pictures))] if pictures else []),
        *([_rivals_table(spots)] if spots else []),
        *missing_strands(study, needed, baselines=depths),
        *_missing_distilled(study, needed),
        Text((f"{WHAT_IS_COUNTED}{_choice_line(tunable)}", *SPEED), "note"),
        *recipe(study, runs_in(strands)),
    ]
    return Section("rivals", "Fair rivals", tuple(blocks))


def front(strand: Strand) -> Strand:
    """The spots that no other spot of the strand equals or beats in BLEU on valid at no more
    arithmetic.

    The test set has no say in what is shown of it; where no BLEU on valid is stored, all spots are
    shown.
    """
    if not _has_choice(strand):
        return strand
    kept: list[Spot] = []
    best = -math.inf
    for spot in sorted(strand.spots, key=lambda spot: (spot.mflops or 0.0, -(spot.valid_bleu or 0.0))):
        if (spot.valid_bleu or 0.0) > best:
            kept.append(spot)
            best = spot.valid_bleu or 0.0
    return replace(strand, spots=tuple(kept))


def _has_choice(strand: Strand) -> bool:
    """Whether a strand's spots can be chosen by what is known without the test set."""
    return all(spot.valid_bleu is not None and spot.mflops is not None for spot in strand.spots)


def _choice_line(strands: Sequence[Strand]) -> str:
    """Of which strands a choice is shown, and of which all points."""
    chosen = [each.name for each in strands if _has_choice(each)]
    others = [each.name for each in strands if not _has_choice(each)]
    told = [(CHOSEN, chosen), (NOT_CHOSEN, others)]
    return "".join(words.format(f"Of {' and '.join(names)}") for words, names in told if names)


def _shallow(study: StudyRecords) -> Strand:
    style = SeriesStyle(FAMILY_STYLES["shortlist"].colour, "P")
    spots = full_spots(study, SHALLOW, "Deep encoder, shallow decoder", "test")
    return Strand("Deep encoder, shallow decoder", tuple(spots), style, SHALLOW)


def _distilled(study: StudyRecords) -> Strand:
    style = SeriesStyle(FAMILY_STYLES["sequence"].colour, "*")
    spots = [
        spot for n in _distilled_depths(study) for spot in full_spots(study, f"{DISTILLED}-{n}", "Distilled", "test")
    ]
    return Strand("Distilled", tuple(spots), style, DISTILLED, is_line=True)


def _distilled_depths(study: StudyRecords) -> range:
    """A model is distilled into fewer blocks than it has, three at most."""
    return range(1, min(4, study.blocks))


def _layerdrop(study: StudyRecords) -> list[Strand]:
    return [
        fixed_strand(study, f"{LAYERDROP}-{rate}", f"LayerDrop {rate}, cut at n", style)
        for rate, style in LAYER_DROPS.items()
    ]


def _missing_distilled(study: StudyRecords, rivals: Sequence[Strand]) -> list[Block]:
    there = {run.variant for run in runs_in(rivals)}
    gone = [f"{DISTILLED}-{n}" for n in _distilled_depths(study) if f"{DISTILLED}-{n}" not in there]
    return missing_runs(study, gone, " on test") if len(gone) < len(_distilled_depths(study)) else []


def _rivals_table(spots: Sequence[Spot]) -> Table:
    columns = (
        "system",
        "run",
        "policy",
        "BLEU",
        "average exit",
        "parameters",
        "MFLOPs/token",
        "of full depth",
        "BLEU on valid (tuned)",
    )
    rows = []
    for spot in spots:
        rows.append(
            Row(
                (spot.series,),
                (
                    Cell(spot.run),
                    Cell(Code(spot.policy)),
                    Cell(f"{spot.bleu.mean:.2f}", spot.bleu.spread, tip=spot.bleu.words),
                    Cell(two_digits(spot.average_exit)),
                    Cell(whole(spot.runs[0].parameters)),
                    Cell(two_digits(spot.mflops)),
                    Cell(NOTHING if spot.flops_share is None else f"{100 * spot.flops_share:.0f}%"),
                    Cell(two_digits(spot.valid_bleu)),
                ),
            )
        )
    return Table("All systems on test", columns, tuple(rows), texts=3)


def seq_bleu_section(study: StudyRecords) -> Section:
    """The BLEU oracle for sequences beside likelihood and correctness."""
    mechanisms = (SEQ_BLEU, SEQ_LL, SEQ_C)
    strands = [aligned_strand(study), continued_strand(study), *(strand(study, each) for each in mechanisms)]
    pictures = tradeoff_picture(study, "seq-bleu-exits", "Seq-BLEU, Seq-LL and Seq-C on test", strands, by_exit)
    blocks: list[Block] = [
        Text((f"{BLEU_ORACLE} {control_line(study)}",)),
        *([Gallery(tuple(pictures))] if pictures else []),
        *_sequence_table(study, mechanisms),
        *missing_strands(study, strands),
        *recipe(study, runs_in(strands)),
    ]
    return Section("seq-bleu", "Beyond the paper: the BLEU oracle", tuple(blocks))


def _sequence_table(study: StudyRecords, mechanisms: Sequence[Mechanism]) -> list[Block]:
    rows = []
    for mechanism in mechanisms:
        valid = {spot.runs[0].variant: spot for spot in default_spots(study, mechanism, "valid")}
        test = {spot.runs[0].variant: spot for spot in default_spots(study, mechanism, "test")}
        for variant in dict.fromkeys([*test, *valid]):
            run = study.of(variant)[0]
            cells = [Cell(f"{penalty_of(run):g}"), *_split_cells(valid.get(variant)), *_split_cells(test.get(variant))]
            rows.append(Row((mechanism.label,), (Cell(variant), *cells)))
    columns = ("oracle", "run", "λ", "BLEU, valid", "AE, valid", "BLEU, test", "AE, test")
    return [Table("Depth for each sequence, by oracle", columns, tuple(rows), texts=2)] if rows else []


def _split_cells(spot: Spot | None) -> tuple[Cell, Cell]:
    if spot is None:
        return Cell("missing", kind="missing"), Cell("missing", kind="missing")
    return Cell(f"{spot.bleu.mean:.2f}", spot.bleu.spread, tip=spot.bleu.words), Cell(two_digits(spot.average_exit))
