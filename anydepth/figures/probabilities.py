"""How sure a model is where it leaves: the joint histogram of probabilities and exits."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from anydepth.errors import UsageError
from anydepth.figures.recorded import check_exits, check_scores, probability
from anydepth.figures.style import COLUMN_WIDTH, PALE, TEXT_WIDTH, drawing, text_colour
from anydepth.figures.svg import figure_svg, tell

BINS = 10
MOST_NARROW_BINS = 12  # more have smaller words and need a wider picture
COLOUR_MAP = "Blues"
PALEST = 0.2  # the colour scale begins so far below the rarest cell that it is told from an empty one


def joint_histogram(
    exits: Sequence[Sequence[int]], scores: Sequence[Sequence[float]], *, blocks: int, bins: int = BINS
) -> Int[np.ndarray, "exit bin"]:
    """Number of tokens that leave at each exit 1..N with a probability in each of `bins` equal
    parts of [0, 1]. Figure 9.

    The sequences hold one sentence each, as in Translation.exits and Translation.scores, which are
    log-probabilities. A probability on an edge belongs to the part above it, and 1 to the last
    part.
    """
    if bins < 1:
        raise UsageError(f"bins = {bins} but [0, 1] is cut into at least 1 part; try {BINS}")
    lengths = [[len(sentence) for sentence in recorded] for recorded in (exits, scores)]
    if lengths[0] != lengths[1]:
        totals = [sum(each) for each in lengths]
        raise UsageError(
            f"every exit has a score but there are {totals[0]:,} exits in {len(exits):,} sentences and {totals[1]:,} "
            f"scores in {len(scores):,}; give those of the same translations"
        )
    left = [n for sentence in exits for n in sentence]
    kept = [score for sentence in scores for score in sentence]
    check_exits(left, blocks=blocks)
    check_scores(kept)
    counts = np.zeros((blocks, bins), dtype=np.int64)
    for n, score in zip(left, kept, strict=True):
        counts[n - 1, min(int(probability(score) * bins), bins - 1)] += 1
    return counts


def plot_scores(
    exits: Sequence[Sequence[int]], scores: Sequence[Sequence[float]], *, blocks: int, bins: int = BINS
) -> Figure:
    """Figure with the joint histogram as percent of all tokens, its sums over exits above and over
    probabilities beside. Figure 9.

    Colours follow a logarithmic scale, so that rare cells are seen; a cell without tokens is white.
    """
    counts = joint_histogram(exits, scores, blocks=blocks, bins=bins)
    if not counts.any():
        raise UsageError(
            "a histogram needs at least one token but the translations are empty; translate lines that are not"
        )
    percentages = 100 * counts / counts.sum()
    with drawing():
        figure = Figure(figsize=(TEXT_WIDTH, 1.4 + 0.28 * max(blocks, 3)), layout="constrained")
        cells = {"width_ratios": [6, 1], "height_ratios": [0.7, 0.28 * max(blocks, 3)]}
        (above, corner), (centre, beside) = figure.subplots(2, 2, gridspec_kw=cells)
        corner.set_axis_off()
        _draw_cells(centre, percentages)
        _draw_sums(above, beside, percentages)
        total = int(counts.sum())
        figure.suptitle(f"Percent of {total:,} {'token' if total == 1 else 'tokens'} (colours on a logarithmic scale)")
    return figure


def scores_svg(counts: Sequence[Sequence[int]], *, name: str, description: str) -> str:
    """A stored histogram as SVG for a narrow column: the same cells, which tell their counts, and
    the sums over probabilities in words."""
    blocks, bins = len(counts), len(counts[0])
    percentages = 100 * np.array(counts) / np.sum(counts)
    tips = [
        f"exit {n}\nprobability {place / bins:g} to {(place + 1) / bins:g}\n"
        f"{counts[n - 1][place]:,} tokens, {percentages[n - 1, place]:.2f}%"
        for n in range(1, blocks + 1)
        for place in range(bins)
    ]
    with drawing():
        size = (COLUMN_WIDTH if bins <= MOST_NARROW_BINS else TEXT_WIDTH, 0.6 + 0.23 * max(blocks, 3))
        figure = Figure(figsize=size, layout="constrained")
        axis = figure.subplots()
        tell(_draw_cells(axis, percentages), tips)
        beside = axis.secondary_yaxis("right")
        beside.set_yticks(np.arange(1, blocks + 1), [f"{share:.1f}%" for share in percentages.sum(axis=1)])
        beside.tick_params(length=0)
        beside.spines["right"].set_visible(False)
        beside.set_ylabel("of all")
    return figure_svg(figure, name=name, description=description)


def _draw_cells(axis: Axes, percentages: np.ndarray) -> QuadMesh:
    blocks, bins = percentages.shape
    edges, numbers = np.linspace(0, 1, bins + 1), np.arange(blocks + 1) + 0.5
    filled = np.ma.masked_equal(percentages, 0)
    fewest, most = min(filled.min(), filled.max() / 2), filled.max()  # equal ends would leave the scale without a range
    scale = LogNorm(vmin=fewest * (fewest / most) ** PALEST, vmax=most)
    mesh = axis.pcolormesh(edges, numbers, filled, norm=scale, cmap=COLOUR_MAP, edgecolor="white", linewidth=0.5)
    for n, place in zip(*np.nonzero(percentages), strict=True):
        share = percentages[n, place]
        axis.text(
            (edges[place] + edges[place + 1]) / 2,
            n + 1,
            percent_label(share),
            ha="center",
            va="center",
            fontsize=6.5 if bins <= MOST_NARROW_BINS else 5,
            color=text_colour(tuple(mesh.to_rgba(share))),
        )
    axis.set_xticks(np.linspace(0, 1, 11) if bins % 10 == 0 else edges)
    axis.set_yticks(np.arange(1, blocks + 1))
    axis.set_xlabel("probability of the token at its exit")
    axis.set_ylabel("exit")
    axis.spines["right"].set_visible(False)
    return mesh


def _draw_sums(above: Axes, beside: Axes, percentages: np.ndarray) -> None:
    blocks, bins = percentages.shape
    above.bar((np.arange(bins) + 0.5) / bins, percentages.sum(axis=0), 1 / bins, label="probability", color=PALE)
    above.set_xlim(0, 1)
    above.set_xticks([])
    above.set_ylabel("%")
    beside.barh(np.arange(1, blocks + 1), percentages.sum(axis=1), 1.0, label="exit", color=PALE)
    beside.set_ylim(0.5, blocks + 0.5)
    beside.set_yticks([])
    beside.set_xlabel("%")
    for axis in (above, beside):
        axis.spines["right"].set_visible(False)


def percent_label(share: float) -> str:
    """A percentage in few characters: "37", "4.2", "0.3", and "<0.1" below that."""
    if share >= 9.95:
        return f"{share:.0f}"
    return f"{share:.1f}" if share >= 0.1 else "<0.1"
