"""One sentence, token by token: the exit and the probability of each."""

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.patches import Patch

from anydepth.errors import UsageError
from anydepth.figures.glyphs import drawable, piece_label, wrapped
from anydepth.figures.recorded import check_exits, check_scores, probability
from anydepth.figures.style import COLUMN_WIDTH, PALE, TEXT_WIDTH, drawing, exit_colours
from anydepth.inference.translator import Translation

TOKENS_IN_A_ROW = 20
FEWEST_SLOTS = 8
BAR_WIDTH = 0.4
HEADROOM = 1.04
MOST_TICKS = 6
CHARACTERS_AN_INCH = 17


def plot_tokens(translation: Translation, *, blocks: int, source: str | None = None) -> Figure:
    """Figure with a pair of bars for each token: its exit (left axis) and p_t, its probability
    there (right axis). Figures 6 and 7.

    Long sentences go on in further rows. `source`, where given, stands below, as in the paper's
    captions.
    """
    _check(translation, blocks)
    count = len(translation.tokens)
    rows = math.ceil(count / TOKENS_IN_A_ROW)
    in_a_row = math.ceil(count / rows)
    width = max(COLUMN_WIDTH, TEXT_WIDTH * in_a_row / TOKENS_IN_A_ROW)
    caption = wrapped(drawable(f"Source: {source}"), width=int(width * CHARACTERS_AN_INCH)) if source else ""
    height = 0.6 + 1.5 * rows + 0.12 * len(caption.splitlines())
    with drawing():
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, 1, squeeze=False)[:, 0]
        for row, axis in enumerate(axes):
            first = row * in_a_row
            _draw_row(axis, translation, slice(first, min(first + in_a_row, count)), blocks=blocks, in_a_row=in_a_row)
        average = sum(translation.exits) / count
        figure.suptitle(f"Average exit {average:.2f} of {blocks}, {count} {'token' if count == 1 else 'tokens'}")
        if caption:
            figure.supxlabel(caption)
        _add_legend(axes[0], blocks)
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


def _draw_row(axis: Axes, translation: Translation, part: slice, *, blocks: int, in_a_row: int) -> None:
    exits = translation.exits[part]
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
    labels = [piece_label(piece) for piece in translation.tokens[part]]
    axis.set_xticks(places, labels, rotation=50, ha="right", rotation_mode="anchor")
    axis.tick_params(axis="x", length=2, pad=1)
    right = axis.twinx()
    heights = [probability(score) for score in translation.scores[part]]
    right.bar(places + BAR_WIDTH / 2, heights, BAR_WIDTH, color=PALE, label="probability")
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
