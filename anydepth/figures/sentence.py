"""One sentence, token by token: the exit and the probability of each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.patches import Patch

from anydepth.errors import UsageError
from anydepth.figures.glyphs import drawable, piece_label, piece_words, wrapped
from anydepth.figures.recorded import check_exits, check_scores, probability
from anydepth.figures.style import COLUMN_WIDTH, PALE, TEXT_WIDTH, drawing, exit_colours
from anydepth.figures.svg import figure_svg, tell, xml_words
from anydepth.inference.translator import Translation

TOKENS_IN_A_ROW = 20
FEWEST_SLOTS = 8
BAR_WIDTH = 0.4
HEADROOM = 1.04
MOST_TICKS = 6
CHARACTERS_AN_INCH = 17


@dataclass(frozen=True)
class TokenBars:
    """What is drawn of a sentence: a label, an exit and a probability for each token."""

    labels: Sequence[str]
    exits: Sequence[int]
    probabilities: Sequence[float]
    blocks: int

    @property
    def rows(self) -> int:
        """How many rows the tokens take."""
        return math.ceil(len(self.labels) / TOKENS_IN_A_ROW)

    @property
    def in_a_row(self) -> int:
        """How many tokens stand in each row; the last may have fewer."""
        return math.ceil(len(self.labels) / self.rows)

    @property
    def width(self) -> float:
        """The width of the picture in inches."""
        return max(COLUMN_WIDTH, TEXT_WIDTH * self.in_a_row / TOKENS_IN_A_ROW)


def plot_tokens(translation: Translation, *, blocks: int, source: str | None = None) -> Figure:
    """Figure with a pair of bars for each token: its exit (left axis) and p_t, its probability
    there (right axis). Figures 6 and 7.

    Long sentences go on in further rows. `source`, where given, stands below, as in the paper's
    captions.
    """
    _check(translation, blocks)
    count = len(translation.tokens)
    labels = [piece_label(piece) for piece in translation.tokens]
    bars = TokenBars(labels, translation.exits, [probability(score) for score in translation.scores], blocks)
    caption = wrapped(drawable(f"Source: {source}"), width=int(bars.width * CHARACTERS_AN_INCH)) if source else ""
    with drawing():
        figure = _draw(bars, room=0.2 + 0.12 * len(caption.splitlines()))
        average = sum(translation.exits) / count
        figure.suptitle(f"Average exit {average:.2f} of {blocks}, {count} {'token' if count == 1 else 'tokens'}")
        if caption:
            figure.supxlabel(caption)
    return figure


def tokens_svg(
    pieces: Sequence[str],
    exits: Sequence[int],
    probabilities: Sequence[float],
    *,
    blocks: int,
    name: str,
    description: str,
) -> str:
    """The same bars of a stored sentence as SVG, which tell their token, exit and probability."""
    words = [" ".join(xml_words(piece_words(piece)).split()) for piece in pieces]
    bars = TokenBars(words, exits, probabilities, blocks)
    with drawing():
        figure = _draw(bars, room=0.0)
    for kind in ("exit", "probability"):
        drawn = [bar for axis in figure.axes for found in axis.containers if found.get_label() == kind for bar in found]
        for bar, piece, left, score in zip(drawn, pieces, exits, probabilities, strict=True):
            tell(bar, [f"{piece_words(piece)}\nexit {left} of {blocks}\nprobability {score:.3f}"])
    return figure_svg(figure, name=name, description=description)


def _draw(bars: TokenBars, *, room: float) -> Figure:
    """The rows of bars with their legend; `room` is for a title and a caption, in inches."""
    figure = Figure(figsize=(bars.width, 0.4 + 1.5 * bars.rows + room), layout="constrained")
    axes = figure.subplots(bars.rows, 1, squeeze=False)[:, 0]
    for row, axis in enumerate(axes):
        _draw_row(axis, bars, slice(row * bars.in_a_row, (row + 1) * bars.in_a_row))
    _add_legend(axes[0], bars.blocks)
    return figure


def _check(translation: Translation, blocks: int) -> None:
    counts = {"tokens": len(translation.tokens), "exits": len(translation.exits), "scores": len(translation.scores)}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise UsageError(
            f"every token has one exit and one score but the translation has {listed}; give it as it was made"
        )
    if not translation.tokens:
        raise UsageError("a figure needs at least one token but the translation is empty; choose a line that is not")
    check_exits(translation.exits, blocks=blocks)
    check_scores(translation.scores)


def _draw_row(axis: Axes, bars: TokenBars, part: slice) -> None:
    exits, blocks, in_a_row = bars.exits[part], bars.blocks, bars.in_a_row
    slots = max(in_a_row, FEWEST_SLOTS)
    places = np.arange(len(exits))
    colours = exit_colours(blocks)
    axis.bar(places - BAR_WIDTH / 2, exits, BAR_WIDTH, color=[colours[left - 1] for left in exits], label="exit")
    axis.set_ylim(0, HEADROOM * blocks)
    step = math.ceil(blocks / MOST_TICKS)
    axis.set_yticks(range(step, blocks + 1, step))
    axis.set_ylabel("exit")
    axis.grid(axis="y")
    margin = (slots - in_a_row) / 2  # of a sentence that is shorter than a row
    axis.set_xlim(-0.6 - margin, in_a_row - 0.4 + margin)
    axis.set_xticks(places, bars.labels[part], rotation=50, ha="right", rotation_mode="anchor")
    axis.tick_params(axis="x", length=2, pad=1)
    right = axis.twinx()
    right.bar(places + BAR_WIDTH / 2, bars.probabilities[part], BAR_WIDTH, color=PALE, label="probability")
    right.set_ylim(0, HEADROOM)
    right.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    right.set_ylabel("probability")


def _add_legend(axis: Axes, blocks: int) -> None:
    """Puts the meaning of the bars above them; the exits' colours stand side by side."""
    exits = tuple(Patch(facecolor=colour) for colour in exit_colours(blocks))
    score = Patch(facecolor=PALE)
    handles: list[Any] = [exits, score]  # a tuple of patches is a handle, too
    axis.legend(
        handles,
        [f"exit, 1 to {blocks}" if blocks > 1 else "exit", "probability at that exit"],
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0)},
        handlelength=min(max(1.5, 0.7 * blocks), 4.5),
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=2,
    )
