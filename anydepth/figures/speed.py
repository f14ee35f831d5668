"""Speed: tokens/s of all contestants of a benchmark, with the spread over its rounds."""

from collections.abc import Sequence
from typing import TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from anydepth.bench.bench_table import policy_labels
from anydepth.bench.cells import Result
from anydepth.errors import UsageError
from anydepth.figures.style import INK, TEXT_WIDTH, drawing
from anydepth.vocabulary.names import FULL

# Okabe and Ito's colours; full depth has stripes and every bar its name, for prints without colour.
SYSTEM_COLOURS = {"ctranslate2": "#888888", "torch": "#E69F00", "onnx": "#56B4E9", "native": "#0072B2"}
OTHER_COLOUR = "#882255"
TIMES = "\u00d7"
FULL_DEPTH_HATCH = "//////"
BAR_HEIGHT = 0.17  # inches
THOUSAND = FuncFormatter(lambda value, _: f"{value / 1000:g}k" if value >= 1000 else f"{value:g}")


def plot_bench(results: Sequence[Result]) -> Figure:
    """Figure with a bar for each contestant's tokens/s end to end; a panel for each
    precision, beam and batch size.

    Lines show the slowest and the fastest round. The factor is the ratio to CTranslate2 where it
    took part. A diamond is decoding alone.
    """
    if not results:
        raise UsageError("a picture of speed needs at least one contestant but there is none; measure some")
    rows = sorted({(result.precision, result.beam) for result in results})
    columns = sorted({result.batch for result in results})
    labels = policy_labels(results)
    contestants = list(dict.fromkeys(map(bar_of, results)))
    with drawing():
        height = 0.75 + len(rows) * (0.42 + BAR_HEIGHT * max(3, len(contestants)))
        figure = Figure(figsize=(TEXT_WIDTH, height), layout="constrained")
        axes = figure.subplots(len(rows), len(columns), squeeze=False)
        for row, (precision, beam) in enumerate(rows):
            present = {bar_of(each) for each in results if each.precision == precision}
            shown = [each for each in contestants if each in present]
            for column, batch in enumerate(columns):
                cell = [each for each in results if (each.precision, each.beam, each.batch) == (precision, beam, batch)]
                axis = axes[row, column]
                _draw_cell(axis, cell, shown)
                axis.set_yticks(
                    range(len(shown)),
                    [bar_name(bar, labels) if column == 0 else "" for bar in shown],
                )
                if row == 0:
                    axis.set_title(f"batch {batch}")
            axes[row, 0].set_ylabel(f"{precision}, beam {beam}")
        beside = (
            f"; {TIMES}: end to end against CTranslate2 at full depth" if any(each.ratio for each in results) else ""
        )
        figure.supxlabel(f"output tokens/s, end to end{beside}")
        figure.legend(handles=_legend(results), loc="outside upper center", ncols=4)
    return figure


Bar: TypeAlias = tuple[str, str, str, str]  # system, model, policy, vocabulary


def bar_of(result: Result) -> Bar:
    """What has a bar of its own."""
    return result.system, result.model, result.policy, result.vocabulary


def bar_name(bar: Bar, labels: dict[tuple[str, str], str]) -> str:
    """What stands beside a bar."""
    system, model, policy, vocabulary = bar
    parts = [system, f"{labels[model, policy]}{f' of {model}' if model else ''}"]
    return ", ".join([*parts, *([] if vocabulary == FULL else [vocabulary])])


def _draw_cell(axis: Axes, results: Sequence[Result], contestants: Sequence[Bar]) -> None:
    for result in results:
        place, rate, ratio = contestants.index(bar_of(result)), result.tokens_per_second, result.ratio
        colour, hatch = (
            SYSTEM_COLOURS.get(result.system, OTHER_COLOUR),
            FULL_DEPTH_HATCH if result.is_full_depth else None,
        )
        axis.barh(place, rate.median, 0.72, color=colour, hatch=hatch, edgecolor="white")
        axis.plot([rate.low, rate.high], [place, place], color=INK, linewidth=1.1, solid_capstyle="butt")
        alone = result.decoding_tokens_per_second
        if alone is not None:
            axis.plot(
                alone.median, place, marker="D", markersize=2.8, color="white", markeredgecolor=INK, markeredgewidth=0.6
            )
        if ratio is not None:
            axis.annotate(
                f"{TIMES}{ratio.median:.2f}",
                (_furthest(result), place),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=6.5,
            )
    axis.set_ylim(len(contestants) - 0.4, -0.6)
    axis.set_xlim(0, 1.3 * max(_furthest(result) for result in results))  # with room for the factors
    axis.xaxis.set_major_locator(MaxNLocator(4))
    axis.xaxis.set_major_formatter(THOUSAND)
    axis.tick_params(axis="y", length=0)
    axis.spines["right"].set_visible(False)
    axis.grid(axis="x")


def _furthest(result: Result) -> float:
    """Where the drawing of a contestant ends."""
    alone = result.decoding_tokens_per_second
    return max(result.tokens_per_second.high, 0.0 if alone is None else alone.median)


def _legend(results: Sequence[Result]) -> list[Patch | Line2D]:
    handles: list[Patch | Line2D] = [
        Patch(facecolor="#BBBBBB", edgecolor="white", hatch=FULL_DEPTH_HATCH, label="full depth")
    ]
    if not all(result.is_full_depth for result in results):
        handles.append(Patch(facecolor="#BBBBBB", edgecolor="white", label="early exits"))
    handles.append(Line2D([], [], color=INK, linewidth=1.1, label="slowest to fastest round"))
    diamond = Line2D(
        [], [], linestyle="", marker="D", markersize=3, color="white", markeredgecolor=INK, label="decoding alone"
    )
    return [*handles, diamond]
