"""Quality against depth: BLEU over the average exit and over the FLOPs."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from anydepth.errors import UsageError
from anydepth.figures.curves import CurvePoint, CurveSeries, CurveSetting
from anydepth.figures.glyphs import display_width, drawable
from anydepth.figures.scatter import LINE_WIDTH, draw_series, finish_axes
from anydepth.figures.style import COLUMN_WIDTH, INK, TEXT_WIDTH, SeriesStyle, drawing, family_style

FULL_DEPTH = "full depth"
CHARACTERS_AN_INCH = 16
HANDLE_WIDTH = 6  # in characters, with the space between columns
MOST_COLUMNS = 5
LONGEST_NAME = 54


def plot_tradeoff(series: Sequence[CurveSeries]) -> Figure:
    """Figure of BLEU against the average exit and, where a point has FLOPs, against their share of
    full depth. Figures 3 and 5.

    Fixed exits are a line; the points of another family are joined by a thin one in order of cost.
    The legend names run, data and beam only where they differ.
    """
    if not any(each.points for each in series):
        raise UsageError("a trade-off needs at least one measured policy but there is none; give a stored evaluation")
    has_flops = any(point.flops_share is not None for each in series for point in each.points)
    labels = setting_labels([each.setting for each in series])
    names = [_named(each.family, labels[each.setting]) for each in series]
    names += [_named(FULL_DEPTH, labels[setting]) for setting, _ in _full_depths(series)]
    widest = max(display_width(name) for name in names) + HANDLE_WIDTH
    width = TEXT_WIDTH if has_flops or widest > COLUMN_WIDTH * CHARACTERS_AN_INCH else COLUMN_WIDTH
    columns = max(1, min(int(width * CHARACTERS_AN_INCH / widest), len(names), MOST_COLUMNS))
    with drawing():
        figure = Figure(figsize=(width, 2.5 + 0.14 * math.ceil(len(names) / columns)), layout="constrained")
        axes = figure.subplots(1, 2 if has_flops else 1, sharey=True, squeeze=False)[0]
        _draw_depths(axes[0], series, labels)
        if has_flops:
            _draw_flops(axes[1], series, labels)
        figure.legend(axes[0].get_lines(), names, loc="outside lower center", ncols=columns)
    return figure


def setting_labels(settings: Sequence[CurveSetting]) -> dict[CurveSetting, str]:
    """What sets each setting apart from the others, as in "base, beam 5": nothing if there is one
    alone."""
    runs = _short_names(setting.run for setting in settings)
    data = _short_names(setting.data for setting in settings)
    beams = {setting.beam for setting in settings}
    labels = {}
    for setting in settings:
        beam = f"beam {setting.beam or 'unknown'}" if len(beams) > 1 else ""
        labels[setting] = drawable(", ".join(part for part in (runs[setting.run], data[setting.data], beam) if part))
    return labels


def _short_names(paths: Iterable[str]) -> dict[str, str]:
    """The end of each path, as many parts as it takes to tell them apart: none if they are all the
    same."""
    different = dict.fromkeys(paths, "")
    if len(different) == 1:
        return different
    for depth in range(1, max(len(Path(path).parts) for path in different) + 1):
        short = {path: str(Path(*Path(path).parts[-depth:])) for path in different}
        if len(set(short.values())) == len(short):
            return short
    return {path: path for path in different}


def _draw_depths(axis: Axes, series: Sequence[CurveSeries], labels: dict[CurveSetting, str]) -> None:
    for each in series:
        costs = {point: point.average_exit for point in each.points}
        _draw_series(axis, each, costs, labels)
    _draw_full_depth(axis, series, labels)
    axis.set_xlabel("average exit (AE)")
    axis.set_ylabel("BLEU")
    finish_axes(axis)


def _draw_flops(axis: Axes, series: Sequence[CurveSeries], labels: dict[CurveSetting, str]) -> None:
    for each in series:
        costs = {point: point.flops_share for point in each.points if point.flops_share is not None}
        _draw_series(axis, each, costs, labels)
    _draw_full_depth(axis, series, labels)
    axis.set_xlabel("FLOPs, share of full depth")
    axis.xaxis.set_major_formatter(PercentFormatter(xmax=1))
    finish_axes(axis)


def _draw_series(
    axis: Axes, series: CurveSeries, costs: dict[CurvePoint, float], labels: dict[CurveSetting, str]
) -> None:
    """Draws the points that have a cost, in its order."""
    points = sorted(costs, key=lambda point: costs[point])
    draw_series(
        axis,
        [costs[point] for point in points],
        [point.bleu for point in points],
        _style(series, labels),
        line_width=LINE_WIDTH if series.is_line else 0.6,
        label=_named(series.family, labels[series.setting]),
    )


def _draw_full_depth(axis: Axes, series: Sequence[CurveSeries], labels: dict[CurveSetting, str]) -> None:
    """Draws a level line at each setting's BLEU at full depth, where known."""
    for setting, bleu in _full_depths(series):
        axis.axhline(bleu, color=INK, linewidth=0.5, linestyle=(0, (6, 3)), label=_named(FULL_DEPTH, labels[setting]))


def _full_depths(series: Sequence[CurveSeries]) -> list[tuple[CurveSetting, float]]:
    """The settings whose BLEU at full depth is known, with that number."""
    return list(
        dict.fromkeys((each.setting, each.full_depth_bleu) for each in series if each.full_depth_bleu is not None)
    )


def _style(series: CurveSeries, labels: dict[CurveSetting, str]) -> SeriesStyle:
    """Colour and marker tell the family, the markers' fill and the lines' dashes the first, second,
    ... setting."""
    style = family_style(series.family)
    variants = (
        style,
        replace(style, fill="none", dashes="--"),
        replace(style, fill="left", dashes=":"),
        replace(style, fill="top", dashes="-."),
    )
    return variants[list(labels).index(series.setting) % len(variants)]


def _named(family: str, label: str) -> str:
    name = drawable(f"{family} ({label})" if label else family)
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME // 2]}…{name[-LONGEST_NAME // 2 + 1 :]}"
