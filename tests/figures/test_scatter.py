"""Charts of points: every point where it belongs, whiskers as long as intervals, and a legend that
is above."""

import pytest
from figures.pictures import points_of, tips_of, words_of
from matplotlib.collections import LineCollection

from anydepth.figures.scatter import MOST_WHISKERS, ChartPoint, ChartSeries, plot_scatter, scatter_svg
from anydepth.figures.style import MARKER_SIZES, SeriesStyle

STYLE = SeriesStyle("#000000", "o")


def chart_svg(*series: ChartSeries) -> str:
    return scatter_svg(series, x_label="x", y_label="y", name="chart", description="a chart")


@pytest.mark.parametrize("values", [[1.0, 2.0], [25.01, 25.02], [5.0], [0.0], [-3.0, 1e6], [0.01, 0.5]])
def test_axes_hold_their_values_and_have_ticks_that_differ(values: list[float]) -> None:
    points = tuple(ChartPoint(value, value, "") for value in values)
    figure = plot_scatter([ChartSeries("one", points, STYLE)], x_label="x", y_label="y")
    figure.draw_without_rendering()
    (axes,) = figure.axes
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        assert all(low < value < high for value in values)
        seen = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
        words = [label.get_text() for place, label in seen if low <= place <= high]
        assert 2 <= len(words) <= 10 and len(set(words)) == len(words)
        assert axis.get_offset_text().get_text() == ""


@pytest.mark.parametrize("blocks", [1, 2, 6, 40])
def test_an_axis_of_exits_has_whole_ticks_and_room_for_all(blocks: int) -> None:
    series = ChartSeries("one", (ChartPoint(1.0, 2.0, ""),), STYLE)
    figure = plot_scatter([series], x_label="x", y_label="y", exits=blocks)
    low, high = figure.axes[0].get_xlim()
    ticks = figure.axes[0].get_xticks()
    assert low < 1 <= blocks < high
    assert all(tick == int(tick) for tick in ticks) and len(ticks) <= 12 and ticks[0] == 1


def test_a_higher_value_lies_higher_and_further_right() -> None:
    low, high = ChartPoint(1.0, 20.0, "low"), ChartPoint(3.0, 25.0, "high", 24.0, 27.0)
    first, second = (point.find("use") for point in points_of(chart_svg(ChartSeries("one", (low, high), STYLE))))
    assert first is not None and second is not None
    assert float(first.get("x", "")) < float(second.get("x", ""))
    assert float(first.get("y", "")) > float(second.get("y", ""))


@pytest.mark.parametrize("is_line", [True, False])
def test_a_line_joins_its_points_and_whiskers_span_the_interval(is_line: bool) -> None:
    points = (ChartPoint(1.0, 20.0, "a", 19.0, 22.0), ChartPoint(2.0, 21.0, "b"))
    (axis,) = plot_scatter([ChartSeries("one", points, STYLE, is_line=is_line)], x_label="x", y_label="y").axes
    (line,) = axis.get_lines()
    assert line.get_xydata().tolist() == [[1.0, 20.0], [2.0, 21.0]]
    assert line.get_linestyle() == ("-" if is_line else "None")
    (whiskers,) = axis.collections
    assert isinstance(whiskers, LineCollection)
    assert [segment.tolist() for segment in whiskers.get_segments()] == [[[1.0, 19.0], [1.0, 22.0]]]
    assert axis.get_ylim()[0] < 19 < 22 < axis.get_ylim()[1]


def test_a_crowded_series_has_no_whiskers_but_all_points() -> None:
    points = tuple(ChartPoint(float(place), 20.0, f"point {place}", 0.0, 40.0) for place in range(MOST_WHISKERS + 1))
    series = ChartSeries("many", points, STYLE)
    assert len(plot_scatter([series], x_label="x", y_label="y").axes[0].collections) == 0
    assert tips_of(chart_svg(series)) == [point.tip for point in points]


@pytest.mark.parametrize("length", [3, 12, 34])
def test_a_legend_names_the_series_that_have_points_and_stays_above_them(length: int) -> None:
    names = [f"{place} {'long name ' * 4}"[:length] for place in range(7)]
    series = [ChartSeries(name, (ChartPoint(float(place), 1.0, name),), STYLE) for place, name in enumerate(names)]
    figure = plot_scatter([*series, ChartSeries("empty", (), STYLE)], x_label="x", y_label="y")
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == names
    box = legend.get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height
    assert box.y0 >= figure.axes[0].get_window_extent().y1
    assert figure.axes[0].get_window_extent().height > 1.3 * figure.dpi, "a long legend makes the picture higher"


def test_words_in_a_chart_are_escaped() -> None:
    tip = "<b>&\"' "
    series = ChartSeries("<i>", (ChartPoint(1.0, 1.0, tip),), STYLE)
    svg = scatter_svg([series], x_label="a < b", y_label="$&$", name="chart", description="")
    assert tips_of(svg) == [tip]
    assert {"<i>", "a < b", "$&$"} <= set(words_of(svg))


@pytest.mark.parametrize("marker", MARKER_SIZES)
@pytest.mark.parametrize("fill", ["full", "none"])
def test_every_marker_can_be_pointed_at(marker: str, fill: str) -> None:
    style = SeriesStyle("#0072B2", marker, fill="none" if fill == "none" else "full")
    assert tips_of(chart_svg(ChartSeries("one", (ChartPoint(1.0, 2.0, "here"),), style))) == ["here"]
