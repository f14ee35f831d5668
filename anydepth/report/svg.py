"""The few shapes that charts are made of, as SVG text."""

import math
from html import escape
from typing import TypeAlias

from anydepth.figures.style import GRID, INK

Number: TypeAlias = int | float
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', sans-serif"
FONT_SIZE = 13
SMALL = 12
LETTER_WIDTH = 0.56  # of the font size, a little more than most fonts' average
PAPER = "#FFFFFF"
MADE_BY = "<!-- made by anydepth report -->"
NAMESPACE = 'xmlns="http://www.w3.org/2000/svg"'


def number(value: Number) -> str:
    """A coordinate with at most one decimal."""
    return f"{round(value, 1) + 0.0:g}"  # adding 0 turns -0 into 0


def tag(name: str, *children: str, **attributes: str | Number | None) -> str:
    """An element; `stroke_width` stands for stroke-width and `class_` for class, None for an
    attribute that is not there."""
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            shown = value if isinstance(value, str) else number(value)
            parts.append(f'{key.rstrip("_").replace("_", "-")}="{escape(shown)}"')
    opened = " ".join(parts)
    return f"<{opened}>{''.join(children)}</{name}>" if children else f"<{opened}/>"


def label(
    words: str,
    x: Number,
    y: Number,
    *,
    anchor: str = "start",
    size: Number = FONT_SIZE,
    colour: str | None = None,
    turn: Number | None = None,
    weight: str | None = None,
) -> str:
    """Text at a place; `turn` rotates it there, in degrees."""
    rotation = None if turn is None else f"rotate({number(turn)} {number(x)} {number(y)})"
    chosen_anchor = None if anchor == "start" else anchor
    chosen_size = None if size == FONT_SIZE else size
    return tag(
        "text",
        escape(words),
        x=x,
        y=y,
        text_anchor=chosen_anchor,
        font_size=chosen_size,
        fill=colour,
        transform=rotation,
        font_weight=weight,
    )


def line(
    x1: Number, y1: Number, x2: Number, y2: Number, *, colour: str = GRID, width: Number = 1, opacity: str | None = None
) -> str:
    """A straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=colour, stroke_width=width, stroke_opacity=opacity)


def tipped(tip: str, *children: str) -> str:
    """Shapes that tell `tip` when a reader points at them, with or without the page's script."""
    return tag("g", tag("title", escape(tip)), *children, class_="point")


def picture(width: Number, height: Number, description: str, *children: str) -> str:
    """The whole SVG, on white, with a description for those who do not see it."""
    return tag(
        "svg",
        tag("desc", escape(description)),
        tag("rect", width=width, height=height, fill=PAPER),
        *children,
        viewBox=f"0 0 {number(width)} {number(height)}",
        width=width,
        height=height,
        role="group",
        aria_label=description,
        font_family=FONT,
        font_size=FONT_SIZE,
        fill=INK,
    )


def standalone(svg: str) -> str:
    """A picture as a file of its own."""
    return f"{MADE_BY}\n{svg.replace('<svg ', f'<svg {NAMESPACE} ', 1)}\n"


def text_width(words: str, size: Number = FONT_SIZE) -> float:
    """About how wide `words` are."""
    return sum(1.0 if ord(character) > 0x2E80 else LETTER_WIDTH for character in words) * size


def marker(shape: str, x: Number, y: Number, colour: str, *, is_hollow: bool = False, size: Number = 5) -> str:
    """A marker of a shape that is told from the others without colour."""
    fill, width = ("none", 1.8) if is_hollow else (colour, 1)
    if shape == "circle":
        return tag("circle", cx=x, cy=y, r=size, fill=fill, stroke=colour, stroke_width=width)
    corners = [(x + size * dx, y + size * dy) for dx, dy in OUTLINES[shape]]
    return tag(
        "polygon",
        points=" ".join(f"{number(a)},{number(b)}" for a, b in corners),
        fill=fill,
        stroke=colour,
        stroke_width=width,
    )


def _regular(corners: int, *, inner: Number = 1.0, start: Number = -90) -> tuple[tuple[float, float], ...]:
    """A regular polygon, or a star where every second corner lies at `inner`."""
    places = [(start + 360 * corner / corners, inner if corner % 2 else 1.0) for corner in range(corners)]
    return tuple(
        (1.25 * reach * math.cos(math.radians(turn)), 1.25 * reach * math.sin(math.radians(turn)))
        for turn, reach in places
    )


_ARM = 0.4
_PLUS = tuple(
    (1.2 * x, 1.2 * y)
    for x, y in (
        *((-_ARM, -1), (_ARM, -1), (_ARM, -_ARM), (1, -_ARM), (1, _ARM), (_ARM, _ARM)),
        *((_ARM, 1), (-_ARM, 1), (-_ARM, _ARM), (-1, _ARM), (-1, -_ARM), (-_ARM, -_ARM)),
    )
)
OUTLINES: dict[str, tuple[tuple[float, float], ...]] = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "diamond": ((0, -1.3), (1.1, 0), (0, 1.3), (-1.1, 0)),
    "up": ((0, -1.2), (1.15, 0.9), (-1.15, 0.9)),
    "down": ((0, 1.2), (1.15, -0.9), (-1.15, -0.9)),
    "hexagon": _regular(6),
    "star": tuple((1.15 * x, 1.15 * y) for x, y in _regular(10, inner=0.45)),
    "plus": _PLUS,
    "cross": tuple(((x - y) * math.sqrt(0.5), (x + y) * math.sqrt(0.5)) for x, y in _PLUS),
}
