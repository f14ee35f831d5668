"""Quality against the clock: BLEU over the measured time of all contestants of a benchmark."""

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anydepth.bench.cells import Result
from anydepth.bench.contestants import CTRANSLATE2
from anydepth.errors import UsageError
from anydepth.figures.scatter import LINE_WIDTH, draw_series, finish_axes
from anydepth.figures.style import TEXT_WIDTH, SeriesStyle, drawing, family_style
from anydepth.vocabulary.names import FULL

RIVAL_STYLE = SeriesStyle("#D55E00", "s")  # other models, by the same engine
CTRANSLATE2_STYLE = SeriesStyle("#888888", "X")
SINGLE_STYLES = (RIVAL_STYLE, CTRANSLATE2_STYLE)  # of models that have one point each
SELECTED = ", selected words"
PANEL_HEIGHT = 2.2  # inches
LEGEND_ROW = 0.17
LEGEND_COLUMNS = 3


def plot_race(results: Sequence[Result]) -> Figure:
    """Figure of BLEU against milliseconds per sentence, a panel for each precision, beam and batch.

    The measured run's fixed exits are joined by a line, and so are the points of each family of
    policies, in the order of their time; every other model has its name beside it. Points are medians
    of the rounds, and horizontal lines go from the fastest to the slowest.
    """
    scored = [result for result in results if result.bleu is not None]
    if not scored:
        raise UsageError("a curve of BLEU against time needs translations of real text; give RUN and --test PREFIX")
    rows = sorted({(result.precision, result.beam) for result in scored})
    columns = sorted({result.batch for result in scored})
    own = scored_model(scored)
    names = list(dict.fromkeys(series_of(result, own) for result in scored))
    with drawing():
        legend_rows = -(-len(names) // LEGEND_COLUMNS)
        height = 0.3 + PANEL_HEIGHT * len(rows) + LEGEND_ROW * legend_rows
        figure = Figure(figsize=(TEXT_WIDTH, height), layout="constrained")
        axes = figure.subplots(len(rows), len(columns), squeeze=False)
        for row, (precision, beam) in enumerate(rows):
            for column, batch in enumerate(columns):
                cell = [each for each in scored if (each.precision, each.beam, each.batch) == (precision, beam, batch)]
                axis = axes[row, column]
                _draw_panel(axis, cell, own, names)
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


def series_of(result: Result, own: str) -> str:
    """The name of the series that a result belongs to."""
    words = "" if result.vocabulary == FULL else SELECTED
    if result.system == CTRANSLATE2:
        return f"CTranslate2{words}"
    if result.model != own:
        return f"other models{words}"
    family = result.policy.partition(":")[0]
    return f"{'fixed exits' if family == 'fixed' else family}{words}"


def _style(name: str, names: Sequence[str]) -> SeriesStyle:
    """What is not filled chooses among all words where others choose among selected ones."""
    style = _family_style(name.removesuffix(SELECTED))
    is_pale = not name.endswith(SELECTED) and any(each.endswith(SELECTED) for each in names)
    return replace(style, fill="none") if is_pale else style


def _family_style(family: str) -> SeriesStyle:
    if family == "CTranslate2":
        return CTRANSLATE2_STYLE
    if family == "other models":
        return RIVAL_STYLE
    return family_style("fixed" if family == "fixed exits" else family)


def _draw_panel(axis: Axes, results: Sequence[Result], own: str, names: Sequence[str]) -> None:
    for name in names:
        points = sorted((each for each in results if series_of(each, own) == name), key=milliseconds)
        if not points:
            continue
        style, is_joined = _style(name, names), _family_style(name.removesuffix(SELECTED)) not in SINGLE_STYLES
        times, scores = [milliseconds(each) for each in points], [each.bleu or 0.0 for each in points]
        spans = [[1000 / each.sentences_per_second.high, 1000 / each.sentences_per_second.low] for each in points]
        for (low, high), score in zip(spans, scores, strict=True):
            axis.plot([low, high], [score, score], color=style.colour, linewidth=0.7, alpha=0.6)
        draw_series(axis, times, scores, style, line_width=LINE_WIDTH if is_joined else 0.0, label=name)
        for point, x, y in zip(points, times, scores, strict=True):
            if point.model != own:
                axis.annotate(point.model, (x, y), xytext=(3, -7), textcoords="offset points", fontsize=5.5)
    finish_axes(axis)


def milliseconds(result: Result) -> float:
    """Per sentence, the median of the rounds."""
    return 1000 / result.sentences_per_second.median
