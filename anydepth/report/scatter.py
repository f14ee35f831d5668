"""Charts of points and lines: BLEU against cost, and the average exit against a setting."""

from collections.abc import Sequence
from dataclasses import dataclass

from anydepth.figures.style import INK
from anydepth.report.axes import Axis, exit_axis, make_axis
from anydepth.report.svg import SMALL, Number, label, line, marker, number, picture, tag, text_width, tipped

WIDTH = 440.0  # narrow, so that the words stay readable on a telephone and in three columns
PLOT_HEIGHT = 250.0
LEFT, RIGHT, BELOW = 58.0, 12.0, 50.0
LEGEND_ROW = 21.0
TOUCHABLE = 10.0  # the radius around a point that answers to a finger
MOST_WHISKERS = 12  # in a series; more would hide the points


@dataclass(frozen=True)
class SeriesStyle:
    """How a series looks; shape and filling tell it from others in print."""

    colour: str
    shape: str
    is_hollow: bool = False
    dashes: str | None = None


@dataclass(frozen=True)
class ChartPoint:
    """A point, its interval where it has one, and what it tells."""

    x: Number
    y: Number
    tip: str
    low: Number | None = None
    high: Number | None = None


@dataclass(frozen=True)
class ChartSeries:
    """Points of one name, joined by a line or not."""

    name: str
    points: tuple[ChartPoint, ...]
    style: SeriesStyle
    is_line: bool = False


def scatter_svg(
    series: Sequence[ChartSeries], *, x_label: str, y_label: str, description: str, exits: int | None = None
) -> str:
    """The chart as SVG; `exits` gives the horizontal axis whole exits 1..N."""
    shown = [each for each in series if each.points]
    legend, legend_height = _legend(shown)
    top = legend_height + 8
    bottom = top + PLOT_HEIGHT
    points = [point for each in shown for point in each.points]
    heights = [value for each in shown for value in _heights(each)]
    y_axis = make_axis(heights, start=bottom, end=top)
    if exits is not None:
        x_axis = exit_axis(exits, start=LEFT, end=WIDTH - RIGHT)
    else:
        x_axis = make_axis([point.x for point in points], start=LEFT, end=WIDTH - RIGHT)
    parts = [legend, _frame(x_axis, y_axis, x_label, y_label)]
    parts += [_whiskers(each, x_axis, y_axis) for each in shown if len(each.points) <= MOST_WHISKERS]
    parts += [_path(each, x_axis, y_axis) for each in shown if each.is_line and len(each.points) > 1]
    parts += [_marked(point, each.style, x_axis, y_axis) for each in shown for point in each.points]
    return picture(WIDTH, bottom + BELOW, description, *parts)


def _heights(series: ChartSeries) -> list[Number]:
    """The values that the vertical axis must hold."""
    bounds = [bound for point in series.points for bound in (point.low, point.high) if bound is not None]
    return [point.y for point in series.points] + (bounds if len(series.points) <= MOST_WHISKERS else [])


def _legend(series: Sequence[ChartSeries]) -> tuple[str, float]:
    """The names above the chart, in as many rows as they need."""
    parts, x, row = [], LEFT, 0
    for each in series:
        width = 30 + text_width(each.name) + 14
        if x > LEFT and x + width > WIDTH:
            x, row = LEFT, row + 1
        y = 14 + row * LEGEND_ROW
        if each.is_line:
            parts.append(
                tag(
                    "line",
                    x1=x,
                    y1=y,
                    x2=x + 24,
                    y2=y,
                    stroke=each.style.colour,
                    stroke_width=1.8,
                    stroke_dasharray=each.style.dashes,
                )
            )
        parts.append(marker(each.style.shape, x + 12, y, each.style.colour, is_hollow=each.style.is_hollow))
        parts.append(label(each.name, x + 30, y + 4.5))
        x += width
    return tag("g", *parts), (row + 1) * LEGEND_ROW + 4


def _frame(x_axis: Axis, y_axis: Axis, x_label: str, y_label: str) -> str:
    left, right, top, bottom = x_axis.start, x_axis.end, y_axis.end, y_axis.start
    parts = []
    for tick in y_axis.ticks:
        y = y_axis.place(tick)
        parts += [line(left, y, right, y), label(y_axis.words(tick), left - 8, y + 4, anchor="end", size=SMALL)]
    for tick in x_axis.ticks:
        x = x_axis.place(tick)
        parts += [line(x, top, x, bottom), label(x_axis.words(tick), x, bottom + 18, anchor="middle", size=SMALL)]
    parts += [line(left, bottom, right, bottom, colour=INK), line(left, top, left, bottom, colour=INK)]
    parts.append(label(x_label, (left + right) / 2, bottom + 40, anchor="middle"))
    parts.append(label(y_label, 16, (top + bottom) / 2, anchor="middle", turn=-90))
    return tag("g", *parts)


def _whiskers(series: ChartSeries, x_axis: Axis, y_axis: Axis) -> str:
    parts = []
    for point in series.points:
        if point.low is not None and point.high is not None:
            x = x_axis.place(point.x)
            parts.append(
                line(
                    x,
                    y_axis.place(point.low),
                    x,
                    y_axis.place(point.high),
                    colour=series.style.colour,
                    width=1.5,
                    opacity=".35",
                )
            )
    return tag("g", *parts) if parts else ""


def _path(series: ChartSeries, x_axis: Axis, y_axis: Axis) -> str:
    corners = " ".join(f"{number(x_axis.place(point.x))},{number(y_axis.place(point.y))}" for point in series.points)
    return tag(
        "polyline",
        points=corners,
        fill="none",
        stroke=series.style.colour,
        stroke_width=1.8,
        stroke_dasharray=series.style.dashes,
    )


def _marked(point: ChartPoint, style: SeriesStyle, x_axis: Axis, y_axis: Axis) -> str:
    x, y = x_axis.place(point.x), y_axis.place(point.y)
    reach = tag("circle", cx=x, cy=y, r=TOUCHABLE, fill_opacity="0")
    return tipped(point.tip, reach, marker(style.shape, x, y, style.colour, is_hollow=style.is_hollow))
