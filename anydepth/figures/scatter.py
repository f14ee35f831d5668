"""Points and lines: BLEU against cost, and the average exit against a setting."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from anydepth.figures.style import COLUMN_WIDTH, MARKER_SIZES, SeriesStyle, drawing
from anydepth.figures.svg import figure_svg, tell

LINE_WIDTH = 1.4
MOST_WHISKERS = 12  # in a series; more would hide the points
MOST_COLUMNS = 3
MOST_STEPS = 6  # of the horizontal axis
PLOT_HEIGHT = 2.3  # inches, without the legend
MOST_EXIT_TICKS = 12


@dataclass(frozen=True)
class ChartPoint:
    """A point, its interval where it has one, and what it tells."""

    x: float
    y: float
    tip: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class ChartSeries:
    """Points of one name, joined by a line or not."""

    name: str
    points: tuple[ChartPoint, ...]
    style: SeriesStyle
    is_line: bool = False


def plot_scatter(series: Sequence[ChartSeries], *, x_label: str, y_label: str, exits: int | None = None) -> Figure:
    """Figure of the series that have points, with whiskers for intervals; `exits` gives the
    horizontal axis whole exits 1..N."""
    shown = [each for each in series if each.points]
    with drawing():
        figure = Figure(figsize=(COLUMN_WIDTH, PLOT_HEIGHT), layout="constrained")
        axis = figure.subplots()
        lines = [_draw(axis, each) for each in shown]
        axis.set_xlabel(x_label)
        axis.set_ylabel(y_label)
        finish_axes(axis)
        axis.xaxis.set_major_locator(MaxNLocator(MOST_STEPS, steps=[1, 2, 5, 10]))
        axis.ticklabel_format(useOffset=False, style="plain")
        if exits is not None:
            axis.set_xlim(0.8, exits + 0.2)
            axis.set_xticks(range(1, exits + 1, math.ceil(exits / MOST_EXIT_TICKS)))
        _add_legend(figure, lines)
    return figure


def scatter_svg(
    series: Sequence[ChartSeries],
    *,
    x_label: str,
    y_label: str,
    name: str,
    description: str,
    exits: int | None = None,
) -> str:
    """The chart as SVG, whose points tell their tips."""
    figure = plot_scatter(series, x_label=x_label, y_label=y_label, exits=exits)
    shown = [each for each in series if each.points]
    for line, each in zip(figure.axes[0].get_lines(), shown, strict=True):
        tell(line, [point.tip for point in each.points])
    return figure_svg(figure, name=name, description=description)


def draw_series(
    axis: Axes, xs: Sequence[float], ys: Sequence[float], style: SeriesStyle, *, line_width: float, label: str
) -> Line2D:
    """Draws a marker for each point, and the line that joins them where it has a width."""
    (line,) = axis.plot(
        xs,
        ys,
        color=style.colour,
        linestyle=style.dashes if line_width else "",
        linewidth=line_width,
        marker=style.marker,
        markersize=MARKER_SIZES[style.marker],
        fillstyle=style.fill,
        markerfacecoloralt="white",
        markeredgewidth=0.8,
        label=label,
    )
    return line


def finish_axes(axis: Axes) -> None:
    """Gives axes of points a grid and a margin."""
    axis.spines["right"].set_visible(False)
    axis.grid()
    axis.margins(0.06)


def _draw(axis: Axes, series: ChartSeries) -> Line2D:
    points = series.points
    whiskers = [(each.x, each.low, each.high) for each in points if each.low is not None and each.high is not None]
    if whiskers and len(points) <= MOST_WHISKERS:
        xs, lows, highs = zip(*whiskers, strict=True)
        axis.vlines(xs, lows, highs, color=series.style.colour, linewidth=0.9, alpha=0.35)
    return draw_series(
        axis,
        [point.x for point in points],
        [point.y for point in points],
        series.style,
        line_width=LINE_WIDTH if series.is_line else 0.0,
        label=series.name,
    )


def _add_legend(figure: Figure, lines: Sequence[Line2D]) -> None:
    """Puts the names above the chart, in as many columns as fit, and makes room for them."""
    width, height = figure.get_size_inches()
    for columns in range(min(MOST_COLUMNS, len(lines)), 0, -1):
        legend = figure.legend(handles=lines, loc="outside upper center", ncols=columns, columnspacing=1.2)
        box = legend.get_window_extent()
        if box.width <= figure.bbox.width or columns == 1:
            figure.set_size_inches(width, height + box.height / figure.dpi)
            return
        legend.remove()
