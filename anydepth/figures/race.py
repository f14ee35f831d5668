"""Quality against the clock: BLEU over the measured time of all contestants of a race."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anydepth.bench.cells import Result
from anydepth.bench.contestants import CTRANSLATE2
from anydepth.clock.rounds import Spread
from anydepth.errors import UsageError
from anydepth.figures.scatter import LINE_WIDTH, draw_series, finish_axes
from anydepth.figures.style import TEXT_WIDTH, SeriesStyle, drawing, family_style
from anydepth.figures.svg import figure_svg, tell
from anydepth.vocabulary.names import FULL

RIVAL_STYLE = SeriesStyle("#D55E00", "s")  # other models, by the same engine
CTRANSLATE2_STYLE = SeriesStyle("#888888", "X")
SINGLE_STYLES = (RIVAL_STYLE, CTRANSLATE2_STYLE)  # of models that have one point each
FIXED_EXITS, OTHER_MODELS, BY_CTRANSLATE2 = "fixed exits", "other models", "CTranslate2"
SELECTED = ", selected words"
PANEL_HEIGHT = 2.2  # inches
LEGEND_ROW = 0.17
LEGEND_COLUMNS = 3


@dataclass(frozen=True)
class RacedPoint:
    """A contestant in one panel: a precision, a beam and a batch size.

    Points of one series and one `line` are joined, where the series is that of a model with several;
    `label` stands beside the point, and `tip` is what it tells under the pointer.
    """

    panel: tuple[str, int, int]
    series: str
    milliseconds: Spread  # per sentence
    bleu: float
    line: str = ""
    label: str = ""
    tip: str = ""


def plot_race(results: Sequence[Result]) -> Figure:
    """Figure of the contestants of a benchmark. The measured run's fixed exits are joined by a line,
    and so are the points of each family of policies; every other model has its name beside it."""
    scored = [result for result in results if result.bleu is not None]
    if not scored:
        raise UsageError("a curve of BLEU against time needs translations of real text; give RUN and --test PREFIX")
    own = scored_model(scored)
    return plot_points([bench_point(result, own) for result in scored])


def race_svg(points: Sequence[RacedPoint], *, name: str, description: str) -> str:
    """The figure of the points as SVG, in which they tell their tips."""
    return figure_svg(plot_points(points), name=name, description=description)


def plot_points(points: Sequence[RacedPoint]) -> Figure:
    """Figure of BLEU against milliseconds per sentence, a panel for each precision, beam and batch.

    Points are medians of the rounds, joined in the order of their time, and horizontal lines go from
    the fastest to the slowest.
    """
    rows = sorted({point.panel[:2] for point in points})
    columns = sorted({point.panel[2] for point in points})
    names = list(dict.fromkeys(point.series for point in points))
    with drawing():
        legend_rows = -(-len(names) // LEGEND_COLUMNS)
        height = 0.3 + PANEL_HEIGHT * len(rows) + LEGEND_ROW * legend_rows
        figure = Figure(figsize=(TEXT_WIDTH, height), layout="constrained")
        axes = figure.subplots(len(rows), len(columns), squeeze=False)
        for row, (precision, beam) in enumerate(rows):
            for column, batch in enumerate(columns):
                axis = axes[row, column]
                _draw_panel(axis, [point for point in points if point.panel == (precision, beam, batch)], names)
                axis.set_title(f"{precision}, beam {beam}, batch {batch}")
            axes[row, 0].set_ylabel("BLEU")
        for axis in axes[-1]:
            axis.set_xlabel("milliseconds per sentence, end to end")
        handles = {
            line.get_label(): line for axis in axes.flat for line in axis.get_lines() if line.get_label() in names
        }
        figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=LEGEND_COLUMNS)
    return figure


def scored_model(results: Sequence[Result]) -> str:
    """The run that is measured, whose policies are not full depth alone: the first of our own."""
    return next((result.model for result in results if result.system != CTRANSLATE2), results[0].model)


def bench_point(result: Result, own: str) -> RacedPoint:
    """A result of a benchmark of the run `own` on its panel."""
    assert result.bleu is not None
    rate = result.sentences_per_second
    return RacedPoint(
        (result.precision, result.beam, result.batch),
        series_name(result.system, result.policy, result.vocabulary, is_own=result.model == own),
        Spread(1000 / rate.median, 1000 / rate.high, 1000 / rate.low),
        result.bleu,
        label="" if result.model == own else result.model,
    )


def series_name(system: str, policy: str, vocabulary: str, *, is_own: bool) -> str:
    """The name of the series that a contestant belongs to; `is_own` where it is the model with
    exits."""
    words = "" if vocabulary == FULL else SELECTED
    if system == CTRANSLATE2:
        return f"{BY_CTRANSLATE2}{words}"
    if not is_own:
        return f"{OTHER_MODELS}{words}"
    family = policy.partition(":")[0]
    return f"{FIXED_EXITS if family == 'fixed' else family}{words}"


def _style(name: str, names: Sequence[str]) -> SeriesStyle:
    """What is not filled chooses among all words where others choose among selected ones."""
    style = _family_style(name.removesuffix(SELECTED))
    is_pale = not name.endswith(SELECTED) and any(each.endswith(SELECTED) for each in names)
    return replace(style, fill="none") if is_pale else style


def _family_style(family: str) -> SeriesStyle:
    if family == BY_CTRANSLATE2:
        return CTRANSLATE2_STYLE
    if family == OTHER_MODELS:
        return RIVAL_STYLE
    return family_style("fixed" if family == FIXED_EXITS else family)


def _draw_panel(axis: Axes, panel: Sequence[RacedPoint], names: Sequence[str]) -> None:
    lines = dict.fromkeys((name, point.line) for name in names for point in panel if point.series == name)
    for name, line in lines:
        style, is_joined = _style(name, names), _family_style(name.removesuffix(SELECTED)) not in SINGLE_STYLES
        own = [point for point in panel if (point.series, point.line) == (name, line)]
        own.sort(key=lambda point: point.milliseconds.median)
        for point in own:
            span = [point.milliseconds.low, point.milliseconds.high]
            axis.plot(span, [point.bleu, point.bleu], color=style.colour, linewidth=0.7, alpha=0.6)
        xs, ys = [point.milliseconds.median for point in own], [point.bleu for point in own]
        drawn = draw_series(axis, xs, ys, style, line_width=LINE_WIDTH if is_joined else 0.0, label=name)
        if all(point.tip for point in own):
            tell(drawn, [point.tip for point in own])
        for point, x, y in zip(own, xs, ys, strict=True):
            if point.label:
                axis.annotate(point.label, (x, y), xytext=(3, -7), textcoords="offset points", fontsize=5.5)
    finish_axes(axis)
