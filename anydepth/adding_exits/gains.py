"""What exits have gained: the original at full depth beside points of the run, as a table."""

from collections.abc import Sequence

from anydepth.evaluation.evaluation_table import aligned_table
from anydepth.runs.operating_points import OperatingPoint, PointSet
from anydepth.vocabulary.names import FULL

FULL_DEPTH = "full depth"
MOST_POINTS = 6


def gains_table(found: PointSet, *, blocks: int) -> str:
    """The original at full depth, the run at full depth, and some points of it, slowest first; then
    what the columns mean."""
    *points, full = found.points
    rows = [
        ["", "policy", "AE", "BLEU", "% of the FLOPs", "% of the time", "words"],
        ["original", FULL_DEPTH, f"{blocks:.2f}", "100.00", "100.0", "100.0", FULL],
        point_row(full, FULL_DEPTH),
        *(point_row(point, point.policy) for point in reversed(some_points(points))),
    ]
    notes = [
        f"BLEU      against the original's own translations of {found.sentences:,} held-out lines (beam {found.beam}), "
        "which thresholds were chosen on, not against references",
        "FLOPs     of the decoder, and time of the whole search, as shares of full depth's with all words",
    ]
    if found.clock is not None:
        notes.append(
            f"clock     {found.clock.place.describe()} | {found.clock.sentences:,} sentences, {found.clock.rounds} "
            "rounds with full depth in each, medians"
        )
    return "\n".join([*aligned_table(rows), *notes])


def point_row(point: OperatingPoint, policy: str) -> list[str]:
    """What a point of the run costs and is worth."""
    return [
        "run",
        policy,
        f"{point.average_exit:.2f}",
        f"{point.bleu:.2f}",
        f"{100 * point.flops_share:.1f}",
        "-" if point.time_share is None else f"{100 * point.time_share:.1f}",
        point.vocabulary,
    ]


def some_points(points: Sequence[OperatingPoint]) -> list[OperatingPoint]:
    """At most `MOST_POINTS` of the points, the first and the last among them."""
    if len(points) <= MOST_POINTS:
        return list(points)
    places = [round(number * (len(points) - 1) / (MOST_POINTS - 1)) for number in range(MOST_POINTS)]
    return [points[place] for place in places]
