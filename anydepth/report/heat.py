"""The joint histogram of exits and probabilities (figure 9)."""

import math

import matplotlib

from anydepth.experiments.records import ScoreModelRecord
from anydepth.figures.probabilities import COLOUR_MAP, percent_label
from anydepth.figures.style import GRID, text_colour
from anydepth.report.bars import colour_text
from anydepth.report.svg import SMALL, label, line, picture, tag, tipped

CELL_WIDTH, CELL_HEIGHT = 33.0, 29.0
LEFT, RIGHT, TOP = 46.0, 64.0, 28.0
CELL_FONT = 11
PALEST, DARKEST = 0.1, 0.95


def scores_svg(model: ScoreModelRecord, *, description: str) -> str:
    """Percent of all tokens in each cell; colours on a logarithmic scale, and an empty cell for no
    token."""
    total = sum(map(sum, model.counts))
    shares = [[100 * count / total for count in row] for row in model.counts]
    filled = [share for row in shares for share in row if share > 0]
    width = LEFT + model.bins * CELL_WIDTH + RIGHT
    bottom = TOP + model.blocks * CELL_HEIGHT
    parts = [label("of all", LEFT + model.bins * CELL_WIDTH + 8, TOP - 9, size=SMALL)]
    for n in range(model.blocks, 0, -1):
        y = bottom - n * CELL_HEIGHT
        parts.append(label(str(n), LEFT - 10, y + CELL_HEIGHT / 2 + 4, anchor="end", size=SMALL))
        parts.append(
            label(f"{sum(shares[n - 1]):.1f}%", LEFT + model.bins * CELL_WIDTH + 8, y + CELL_HEIGHT / 2 + 4, size=SMALL)
        )
        for place, share in enumerate(shares[n - 1]):
            x = LEFT + place * CELL_WIDTH
            span = f"{place / model.bins:g} to {(place + 1) / model.bins:g}"
            told = f"exit {n}\nprobability {span}\n{model.counts[n - 1][place]:,} tokens, {share:.2f}%"
            parts.append(tipped(told, *_cell(x, y, share, min(filled), max(filled))))
    for edge in range(model.bins + 1):
        if edge % math.ceil(model.bins / 10) == 0:
            x = LEFT + edge * CELL_WIDTH
            parts += [
                line(x, bottom, x, bottom + 4),
                label(f"{edge / model.bins:g}", x, bottom + 18, anchor="middle", size=SMALL),
            ]
    parts.append(
        label("probability of the token at its exit", LEFT + model.bins * CELL_WIDTH / 2, bottom + 40, anchor="middle")
    )
    parts.append(label("exit", 14, (TOP + bottom) / 2, anchor="middle", turn=-90))
    return picture(width, bottom + 50, description, *parts)


def _cell(x: float, y: float, share: float, fewest: float, most: float) -> tuple[str, ...]:
    if share == 0:
        return (tag("rect", x=x, y=y, width=CELL_WIDTH, height=CELL_HEIGHT, fill="#ffffff", stroke=GRID),)
    depth = 1.0 if fewest == most else math.log(share / fewest) / math.log(most / fewest)
    colour = matplotlib.colormaps[COLOUR_MAP](PALEST + (DARKEST - PALEST) * depth)
    return (
        tag("rect", x=x, y=y, width=CELL_WIDTH, height=CELL_HEIGHT, fill=colour_text(colour), stroke=GRID),
        label(
            percent_label(share),
            x + CELL_WIDTH / 2,
            y + CELL_HEIGHT / 2 + 4,
            anchor="middle",
            size=CELL_FONT,
            colour=text_colour(colour),
        ),
    )
