"""What a race shows: whether thresholds beat a fixed exit or a shallow decoder in the same time, and
how the time for the BLEU of full depth compares with that of the fastest plain model that reaches
it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import Int

from anydepth.clock.rounds import Spread
from anydepth.experiments.evidence import Estimate, bleu_estimate, mean
from anydepth.experiments.measuring import load_statistics
from anydepth.experiments.race import statistics_name
from anydepth.experiments.race_records import (
    CellRecord,
    ContestantRecord,
    EqualBleuRecord,
    GainRecord,
    HeatRecord,
    LapRecord,
    RaceRecord,
    SpreadRecord,
    ratios,
)
from anydepth.experiments.records import FORMAT, read_record
from anydepth.experiments.seeds import over_seeds
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.verdicts import Verdict, verdict_of

DEPTHS = (2, 3)  # of fixed exits and of other decoders in whose time BLEU is compared
KINDS: tuple[Literal["fixed", "plain"], ...] = ("fixed", "plain")
EQUAL = 0.2  # BLEU on valid that may be missing from full depth's
PAIRED = "paired bootstrap over sentences, 95% interval"
ROUNDS = "lowest and highest of the rounds"


@dataclass
class RaceCell:
    """A heat with one batch size, and the estimates of its contestants' BLEU on test."""

    heat: HeatRecord
    batch: int
    statistics: dict[str, Int[np.ndarray, "sentence 12"]]
    estimates: dict[str, Estimate] = field(default_factory=dict)

    @property
    def record(self) -> CellRecord:
        """Where this is."""
        return CellRecord(precision=self.heat.precision, beam=self.heat.beam, batch=self.batch)

    @property
    def seeds(self) -> list[int]:
        """The seeds of the adaptive model, which is trained with all of them."""
        return sorted({each.seed for each in self.heat.contestants if each.kind in ("fixed", "tuned")})

    def of(self, seed: int, *, is_tuned: bool) -> list[ContestantRecord]:
        """The tuned points of a seed, or all others; a rival without that seed races with its first."""
        own = [each for each in self.heat.contestants if (each.kind == "tuned") == is_tuned]
        seeds: dict[str, list[int]] = {}
        for each in own:
            seeds.setdefault(each.variant, []).append(each.seed)
        return [
            each for each in own if each.seed == (seed if seed in seeds[each.variant] else min(seeds[each.variant]))
        ]

    def fixed(self, seed: int, exit_: int | None = None) -> ContestantRecord | None:
        """The adaptive run of a seed at a fixed exit, or at full depth, by our own engine."""
        return next(
            (
                each
                for each in self.of(seed, is_tuned=False)
                if each.kind == "fixed"
                and each.system == self.heat.engine
                and each.policy == f"fixed:{exit_ or each.blocks}"
            ),
            None,
        )

    def plain(self, seed: int, blocks: int) -> ContestantRecord | None:
        """The decoder of so many blocks that races with a seed, by our own engine."""
        return next(
            (
                each
                for each in self.of(seed, is_tuned=False)
                if (each.kind, each.system, each.blocks) == ("plain", self.heat.engine, blocks)
            ),
            None,
        )

    def rival(self, kind: Literal["fixed", "plain"], depth: int, seed: int) -> ContestantRecord | None:
        """A fixed exit below full depth, or a decoder of so many blocks."""
        if kind == "plain":
            return self.plain(seed, depth)
        return self.fixed(seed, depth) if depth < deepest(self) else None

    def lap(self, contestant: ContestantRecord) -> LapRecord:
        """The times of a contestant with this batch size."""
        return contestant.lap(self.batch)

    def time_ratio(self, own: ContestantRecord, other: ContestantRecord) -> Spread:
        """The time of one by that of the other in the same round, end to end."""
        return Spread.of(ratios(self.lap(own).milliseconds, self.lap(other).milliseconds) or [])

    def decoding_ratio(self, own: ContestantRecord, other: ContestantRecord) -> Spread | None:
        """The same for decoding alone; None where it is too short to be told from nothing."""
        found = ratios(self.lap(own).decoding_milliseconds, self.lap(other).decoding_milliseconds)
        return None if found is None else Spread.of(found)

    def bleu(self, contestant: ContestantRecord) -> Estimate:
        """The BLEU of a contestant on test."""
        if contestant.key not in self.estimates:
            self.estimates[contestant.key] = bleu_estimate(self.statistics[contestant.key])
        return self.estimates[contestant.key]


def race_findings(folder: StudyFolder) -> RaceRecord:
    """Both findings in every cell of the heats that were run."""
    cells = [cell for file in folder.heat_records() for cell in cells_of(folder, read_record(file, HeatRecord))]
    return RaceRecord(
        format=FORMAT,
        tolerance=EQUAL,
        gains=[
            gain(cell, kind, depth)
            for cell in cells
            for kind in KINDS
            for depth in DEPTHS
            if any(cell.rival(kind, depth, seed) for seed in cell.seeds)
        ],
        equals=[equal_bleu(cell) for cell in cells],
    )


def cells_of(folder: StudyFolder, heat: HeatRecord) -> list[RaceCell]:
    """The cells of a heat that has contestants."""
    if not heat.contestants:
        return []
    statistics, estimates = load_statistics(folder, statistics_name(heat.name)), dict[str, Estimate]()
    return [RaceCell(heat, batch, statistics, estimates) for batch in heat.batches]


def deepest(cell: RaceCell) -> int:
    """The blocks of the deepest contestant, which is the adaptive model."""
    return max(each.blocks for each in cell.heat.contestants)


def gain(cell: RaceCell, kind: Literal["fixed", "plain"], depth: int) -> GainRecord:
    """BLEU on test of the tuned point that is best on valid among those that take no longer than
    a rival, minus that of the rival.

    Best is what comes closest to full depth's translations of valid: they tell points apart that
    differ in references by chance alone.
    """
    pairs = []
    for seed in cell.seeds:
        rival = cell.rival(kind, depth, seed)
        quick = [
            each
            for each in cell.of(seed, is_tuned=True)
            if rival is not None and cell.time_ratio(each, rival).median <= 1
        ]
        if rival is not None and quick:
            pairs.append((max(quick, key=lambda each: (each.closeness, -cell.lap(each).time)), rival))
    if not pairs:
        remark = "No tuned point is as fast."
        return GainRecord(cell=cell.record, kind=kind, depth=depth, verdict="not comparable", remark=remark)
    differences = [cell.bleu(own) - cell.bleu(rival) for own, rival in pairs]
    found = bleu_over_seeds(differences)
    return GainRecord(
        cell=cell.record,
        kind=kind,
        depth=depth,
        points=[own.policy for own, _ in pairs],
        by_seed=[round(each.value, 4) for each in differences],
        difference=found.median,
        low=found.low,
        high=found.high,
        time=round(float(np.mean([cell.time_ratio(*pair).median for pair in pairs])), 4),
        verdict=verdict_of(found.low, found.high),
        basis=basis(PAIRED, len(pairs)),
        remark=left_out(cell, len(pairs), "no tuned point is as fast"),
    )


def equal_bleu(cell: RaceCell) -> EqualBleuRecord:
    """The time of the fastest tuned point with the BLEU of full depth on valid, by that of the
    fastest other contestant that has it."""
    pairs = []
    for seed in cell.seeds:
        own, others = reaching(cell, seed, is_tuned=True), reaching(cell, seed, is_tuned=False)
        if own and others:
            pairs.append(tuple(min(each, key=lambda one: cell.lap(one).time) for each in (own, others)))
    if not pairs:
        remark = "No tuned point has the BLEU of full depth on valid."
        return EqualBleuRecord(cell=cell.record, verdict="not comparable", remark=remark)
    times = [cell.time_ratio(own, rival) for own, rival in pairs]
    decoding = [each for own, rival in pairs if (each := cell.decoding_ratio(own, rival)) is not None]
    whole = spread_over_seeds(times)
    return EqualBleuRecord(
        cell=cell.record,
        points=[own.policy for own, _ in pairs],
        rivals=[rival.label for _, rival in pairs],
        rival_kinds=[rival.kind for _, rival in pairs],
        by_seed=[round(each.median, 4) for each in times],
        ratio=whole,
        decoding_ratio=spread_over_seeds(decoding) if len(decoding) == len(pairs) else None,
        bleu_difference=bleu_over_seeds([cell.bleu(own) - cell.bleu(rival) for own, rival in pairs]),
        verdict=time_verdict(whole),
        basis=basis(ROUNDS, len(pairs)),
        remark=left_out(cell, len(pairs), "no tuned point has the BLEU of full depth on valid"),
    )


def reaching(cell: RaceCell, seed: int, *, is_tuned: bool) -> list[ContestantRecord]:
    """The tuned points of a seed, or all others, with the BLEU on valid that full depth has.

    The tuned points must have it as they are and smoothed, too, so that it does not fall from a point
    to one that is closer to full depth: of dozens of points some always have more on valid than they
    are worth.
    """
    full = cell.fixed(seed)
    if full is None:
        return []
    bar = round(full.valid_bleu - EQUAL, 4)
    found = [each for each in cell.of(seed, is_tuned=is_tuned) if each.valid_bleu >= bar]
    if not is_tuned:
        return found
    every = sorted(cell.of(seed, is_tuned=True), key=lambda each: each.closeness)
    smoothed = rising([*(each.valid_bleu for each in every), full.valid_bleu])[:-1]
    risen = {each.key for each, value in zip(every, smoothed, strict=True) if round(value, 4) >= bar}
    return [each for each in found if each.key in risen]


def rising(values: Sequence[float]) -> list[float]:
    """The numbers that never fall and come closest to the values by the sum of squares: isotonic
    regression, where each is the highest over all beginnings of the lowest mean over all ends."""
    sums, count = np.concatenate([[0.0], np.cumsum(values)]), len(values)

    def mean_of(first: int, last: int) -> float:
        return float((sums[last + 1] - sums[first]) / (last + 1 - first))

    return [
        max(min(mean_of(first, last) for last in range(place, count)) for first in range(place + 1))
        for place in range(count)
    ]


def time_verdict(ratio: SpreadRecord) -> Verdict:
    """Whether ours takes less time: all of the ratio's spread lies below 1, above it, or around
    it."""
    return verdict_of(1 - ratio.high, 1 - ratio.low)


def bleu_over_seeds(differences: Sequence[Estimate]) -> SpreadRecord:
    """The mean difference with its interval over sentences, widened to that over seeds."""
    average = mean(differences)
    low, high = average.interval
    return widened(Spread(average.value, low, high), [each.value for each in differences])


def spread_over_seeds(spreads: Sequence[Spread]) -> SpreadRecord:
    """The mean of the medians, with the mean of the lowest and of the highest, widened to the spread
    over seeds."""
    parts = [[each.median for each in spreads], [each.low for each in spreads], [each.high for each in spreads]]
    return widened(Spread(*(float(np.mean(part)) for part in parts)), parts[0])


def widened(spread: Spread, values: Sequence[float]) -> SpreadRecord:
    """A spread that has room for that of `values`, one for each seed."""
    over = over_seeds(values)
    lows = [spread.low, *([] if over.low is None else [over.low])]
    highs = [spread.high, *([] if over.high is None else [over.high])]
    return SpreadRecord.of(Spread(spread.median, min(lows), max(highs)))


def basis(kind: str, seeds: int) -> str:
    """What an interval rests on."""
    return kind if seeds == 1 else f"{kind}, widened to that over {seeds} seeds"


def left_out(cell: RaceCell, compared: int, why: str) -> str:
    """With how many seeds there was nothing to compare."""
    gone = len(cell.seeds) - compared
    return f"With {gone} of {len(cell.seeds)} seeds {why}." if gone else ""
