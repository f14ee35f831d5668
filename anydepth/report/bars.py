"""Bars: the exit and the probability of each token (figures 6 and 7), and exits by position (figure
8)."""

import math

from anydepth.experiments.records import PositionModelRecord, SampleRecord
from anydepth.figures.glyphs import LONGEST_PIECE, VISIBLE_SPACE
from anydepth.figures.positions import mean_exit
from anydepth.figures.style import END_COLOUR, INK, PALE, START_COLOUR, exit_colours
from anydepth.report.axes import make_axis
from anydepth.report.svg import SMALL, label, line, number, picture, tag, text_width, tipped
from anydepth.text.tokenizer import WORD_START

TOKENS_IN_A_ROW = 18
SLOT, BAR = 44.0, 15.0
BAR_HEIGHT = 100.0
SIDE = 52.0
TURN = -45.0
POSITION_WIDTH, POSITION_HEIGHT = 440.0, 210.0


def colour_text(colour: tuple[float, ...]) -> str:
    """An RGB(A) colour between 0 and 1 as #rrggbb."""
    return "#" + "".join(f"{round(255 * part):02x}" for part in colour[:3])


def piece_words(piece: str) -> str:
    """A SentencePiece piece as a short label with its space shown."""
    shown = piece.replace(WORD_START, VISIBLE_SPACE)
    return shown if len(shown) <= LONGEST_PIECE else shown[: LONGEST_PIECE - 1] + "…"


def tokens_svg(sample: SampleRecord, *, blocks: int, description: str) -> str:
    """A pair of bars for each token, in as many rows as the sentence needs."""
    rows = math.ceil(len(sample.tokens) / TOKENS_IN_A_ROW)
    in_a_row = math.ceil(len(sample.tokens) / rows)
    width = 2 * SIDE + max(in_a_row, 8) * SLOT
    words_height = 22 + max(text_width(piece_words(piece), SMALL) for piece in sample.tokens) * math.sin(
        math.radians(-TURN)
    )
    height = BAR_HEIGHT + words_height + 12
    parts = [_token_legend(blocks)]
    for row in range(rows):
        part = slice(row * in_a_row, (row + 1) * in_a_row)
        parts.append(_token_row(sample, part, top=42 + row * height, width=width, blocks=blocks))
    return picture(width, 42 + rows * height, description, *parts)


def _token_legend(blocks: int) -> str:
    parts = []
    for n, colour in enumerate(exit_colours(blocks)):
        parts.append(
            tag(
                "rect",
                x=SIDE + n * 14,
                y=8,
                width=14,
                height=12,
                fill=colour_text(colour),
                stroke=INK,
                stroke_width=0.4,
            )
        )
    x = SIDE + 14 * blocks + 8
    words = f"exit, 1 to {blocks}"
    parts.append(label(words, x, 18.5))
    x += text_width(words) + 20
    parts.append(tag("rect", x=x, y=8, width=14, height=12, fill=PALE, stroke=INK, stroke_width=0.4))
    parts.append(label("probability of the token at its exit", x + 22, 18.5))
    return tag("g", *parts)


def _token_row(sample: SampleRecord, part: slice, *, top: float, width: float, blocks: int) -> str:
    bottom, right = top + BAR_HEIGHT, width - SIDE
    parts = []
    step = math.ceil(blocks / 6)
    for n in range(step, blocks + 1, step):
        y = bottom - BAR_HEIGHT * n / blocks
        parts += [line(SIDE, y, right, y), label(str(n), SIDE - 8, y + 4, anchor="end", size=SMALL)]
    for share in (0.0, 0.5, 1.0):
        parts.append(label(f"{share:g}", right + 8, bottom - BAR_HEIGHT * share + 4, size=SMALL))
    parts.append(label("exit", 16, (top + bottom) / 2, anchor="middle", turn=-90))
    parts.append(label("probability", width - 10, (top + bottom) / 2, anchor="middle", turn=-90))
    parts.append(line(SIDE, bottom, right, bottom, colour=INK))
    colours = exit_colours(blocks)
    for place, (piece, left, score) in enumerate(
        zip(sample.tokens[part], sample.exits[part], sample.scores[part], strict=True)
    ):
        middle = SIDE + (place + 0.5) * SLOT
        tall, sure = BAR_HEIGHT * left / blocks, BAR_HEIGHT * score
        fill = colour_text(colours[left - 1])
        parts.append(
            tipped(
                f"{piece_words(piece)}\nexit {left} of {blocks}\nprobability {score:.3f}",
                tag(
                    "rect",
                    x=middle - BAR,
                    y=bottom - tall,
                    width=BAR,
                    height=tall,
                    fill=fill,
                    stroke=INK,
                    stroke_width=0.4,
                ),
                tag("rect", x=middle, y=bottom - sure, width=BAR, height=sure, fill=PALE, stroke=INK, stroke_width=0.4),
                label(piece_words(piece), middle + 3, bottom + 15, anchor="end", size=SMALL, turn=TURN),
            )
        )
    return tag("g", *parts)


def positions_svg(model: PositionModelRecord, *, name: str, description: str) -> str:
    """The exits of the first and of the last tenth of each sentence's tokens, side by side."""
    left, right, top = 52.0, POSITION_WIDTH - 12, 62.0
    bottom = top + POSITION_HEIGHT
    axis = make_axis([0.0, max([*model.start, *model.end, 1.0])], start=bottom, end=top)
    slot = (right - left) / model.blocks
    bar = min(slot * 0.4, 44.0)
    hatch = f"hatch-{name}"
    parts = [_hatching(hatch)]
    base = axis.place(0)
    for tick in axis.ticks:
        y = axis.place(tick)
        parts += [line(left, y, right, y), label(axis.words(tick), left - 8, y + 4, anchor="end", size=SMALL)]
    sides = (
        ("start (rpos < 0.1)", model.start, START_COLOUR, START_COLOUR, -1),
        ("end (rpos > 0.9)", model.end, f"url(#{hatch})", END_COLOUR, 0),
    )
    for row, (words, shares, fill, colour, side) in enumerate(sides):
        y = 8 + row * 22
        parts.append(tag("rect", x=left, y=y, width=20, height=13, fill=fill, stroke=colour))
        parts.append(label(f"{words}: mean exit {mean_exit(shares):.2f}", left + 28, y + 11))
        for n, share in enumerate(shares, start=1):
            x = left + (n - 0.5) * slot + side * bar
            shape = tag(
                "rect", x=x, y=axis.place(share), width=bar, height=base - axis.place(share), fill=fill, stroke=colour
            )
            parts.append(tipped(f"{words}\nexit {n}\n{share:.1f}% of these tokens", shape))
    for n in range(1, model.blocks + 1):
        parts.append(label(str(n), left + (n - 0.5) * slot, bottom + 18, anchor="middle", size=SMALL))
    parts.append(line(left, base, right, base, colour=INK))
    parts.append(label("exit", (left + right) / 2, bottom + 40, anchor="middle"))
    parts.append(label("tokens (%)", 14, (top + bottom) / 2, anchor="middle", turn=-90))
    return picture(POSITION_WIDTH, bottom + 50, description, *parts)


def _hatching(name: str) -> str:
    stripe = tag("path", d="M0,6 L6,0", stroke=INK, stroke_width=0.8)
    ground = tag("rect", width=6, height=6, fill=END_COLOUR)
    return tag(
        "defs",
        tag("pattern", ground, stripe, id=name, patternUnits="userSpaceOnUse", width=number(6), height=number(6)),
    )
