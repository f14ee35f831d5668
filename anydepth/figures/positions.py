"""Where sentences are hard: the exits of their first and of their last tokens."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from anydepth.errors import UsageError
from anydepth.figures.recorded import check_exits
from anydepth.figures.style import COLUMN_WIDTH, END_COLOUR, START_COLOUR, TEXT_WIDTH, drawing
from anydepth.figures.svg import figure_svg, tell

START, END = "start (rpos < 0.1)", "end (rpos > 0.9)"
BAR_WIDTH = 0.4
FEWEST_SLOTS = 3


def position_histograms(exits: Sequence[Sequence[int]], *, blocks: int) -> tuple[list[float], list[float]]:
    """Percent of the tokens that leave at exits 1..N, among those at the start (rpos < 0.1) and at
    the end (rpos > 0.9). Figure 8.

    Each sequence holds the exits of one sentence. The relative position of token t of T is rpos =
    (t - 1) / (T - 1): 0 for the first token, 1 for `</s>`. The paper prints no formula; with this
    one both ends have the same number of tokens, a tenth of them rounded up ("the first 10% of
    tokens" and "the last 10%"), where t / T would find no start in sentences of ten tokens or
    fewer. A sentence of one token has no start apart from its end and is left out.
    """
    starts: Counter[int] = Counter()
    ends: Counter[int] = Counter()
    for sentence in exits:
        check_exits(sentence, blocks=blocks)
        last = len(sentence) - 1
        # In whole numbers, since 0.1 has no exact binary form. With last = 0 neither comparison
        # holds.
        starts.update(left for t, left in enumerate(sentence) if 10 * t < last)
        ends.update(left for t, left in enumerate(sentence) if 10 * t > 9 * last)
    if not starts:
        raise UsageError(
            f"a start and an end need a sentence of two tokens or more but none of {len(exits):,} has; translate "
            "longer lines"
        )
    return _percentages(starts, blocks), _percentages(ends, blocks)


def _percentages(counts: Counter[int], blocks: int) -> list[float]:
    return [100 * counts[n] / counts.total() for n in range(1, blocks + 1)]


def mean_exit(percentages: Sequence[float]) -> float:
    """The mean of a distribution of exits 1..N in percent."""
    return sum(n * percent for n, percent in enumerate(percentages, start=1)) / 100


def plot_positions(exits: Sequence[Sequence[int]], *, blocks: int) -> Figure:
    """Figure with the exit distributions at the start and at the end of sentences side by side.
    Figure 8."""
    return _draw(*position_histograms(exits, blocks=blocks))


def positions_svg(start: Sequence[float], end: Sequence[float], *, name: str, description: str) -> str:
    """The same picture of stored distributions as SVG, whose bars tell their percentages."""
    figure = _draw(start, end)
    for words, shares, bars in zip((START, END), (start, end), figure.axes[0].containers, strict=True):
        for n, (share, bar) in enumerate(zip(shares, bars, strict=True), start=1):
            tell(bar, [f"{words}\nexit {n}\n{share:.1f}% of these tokens"])
    return figure_svg(figure, name=name, description=description)


def _draw(start: Sequence[float], end: Sequence[float]) -> Figure:
    blocks = len(start)
    numbers = np.arange(1, blocks + 1)
    with drawing():
        figure = Figure(figsize=(COLUMN_WIDTH if blocks <= 8 else TEXT_WIDTH, 2.3), layout="constrained")
        axis = figure.subplots()
        for side, heights, colour, hatch, label in (
            (-1, start, START_COLOUR, "", START),
            (+1, end, END_COLOUR, "////", END),
        ):
            axis.bar(
                numbers + side * BAR_WIDTH / 2,
                heights,
                BAR_WIDTH,
                color=colour,
                hatch=hatch,
                label=f"{label}: mean exit {mean_exit(heights):.2f}",
            )
        reach = max(blocks, FEWEST_SLOTS) / 2 + 0.1
        axis.set_xlim((blocks + 1) / 2 - reach, (blocks + 1) / 2 + reach)
        axis.set_xticks(numbers)
        axis.set_xlabel("exit")
        axis.set_ylabel("tokens (%)")
        axis.spines["right"].set_visible(False)
        axis.grid(axis="y")
        figure.legend(loc="outside upper center", ncols=1)
    return figure
