"""The small SVG writer: axes, markers, and that every chart is XML with its points where they
belong."""

import math
import xml.etree.ElementTree as ElementTree

import pytest

from anydepth.experiments.records import PositionModelRecord, SampleRecord, ScoreModelRecord
from anydepth.report.axes import exit_axis, make_axis, round_step
from anydepth.report.bars import piece_words, positions_svg, tokens_svg
from anydepth.report.beyond import LAYER_DROPS
from anydepth.report.heat import scores_svg
from anydepth.report.scatter import MOST_WHISKERS, ChartPoint, ChartSeries, SeriesStyle, scatter_svg
from anydepth.report.spots import (
    ALIGNED_STYLE,
    BASELINE_STYLE,
    CONFIDENCE_STYLE,
    CONTINUED_STYLE,
    SEQ_BLEU,
    SEQ_C,
    SEQ_LL,
    TOK_C_GEOMETRIC,
    TOK_C_MULTINOMIAL,
    TOK_LL_GEOMETRIC,
    TOK_LL_MULTINOMIAL,
)
from anydepth.report.svg import OUTLINES, number, standalone, tag

STYLE = SeriesStyle("#000000", "circle")


def points_of(svg: str) -> list[ElementTree.Element]:
    return [group for group in ElementTree.fromstring(svg).iter("g") if group.get("class") == "point"]


def title(group: ElementTree.Element) -> str:
    return group.findtext("title") or ""


@pytest.mark.parametrize(
    ("least", "step"), [(0.7, 1), (1.0, 1), (1.2, 2), (3, 5), (7, 10), (0.021, 0.05), (0.2, 0.2), (400, 500)]
)
def test_a_step_is_the_next_round_number(least: float, step: float) -> None:
    assert round_step(least) == pytest.approx(step)


@pytest.mark.parametrize("values", [[1.0, 2.0], [25.01, 25.02], [5.0], [0.0], [-3.0, 1e6], [0.01, 0.5]])
def test_an_axis_holds_its_values_and_has_ticks_that_differ(values: list[float]) -> None:
    axis = make_axis(values, start=300, end=0)
    assert all(0 < axis.place(value) < 300 for value in values)
    words = [axis.words(tick) for tick in axis.ticks]
    assert 2 <= len(words) <= 8 and len(set(words)) == len(words)
    assert all(axis.low <= tick <= axis.high for tick in axis.ticks)


@pytest.mark.parametrize("blocks", [1, 2, 6, 40])
def test_an_axis_of_exits_has_whole_ticks_and_room_for_all(blocks: int) -> None:
    axis = exit_axis(blocks, start=0, end=100)
    assert 0 < axis.place(1) <= axis.place(blocks) < 100
    assert all(tick == int(tick) for tick in axis.ticks) and len(axis.ticks) <= 12
    assert axis.words(axis.ticks[0]) == "1"


def test_a_higher_value_lies_higher_and_further_right() -> None:
    low, high = ChartPoint(1.0, 20.0, "low"), ChartPoint(3.0, 25.0, "high", 24.0, 27.0)
    svg = scatter_svg([ChartSeries("one", (low, high), STYLE)], x_label="x", y_label="y", description="a chart")
    first, second = (list(group.iter("circle"))[-1] for group in points_of(svg))
    assert float(first.get("cx", "")) < float(second.get("cx", ""))
    assert float(first.get("cy", "")) > float(second.get("cy", ""))


def test_a_line_joins_its_points_and_whiskers_span_the_interval() -> None:
    points = (ChartPoint(1.0, 20.0, "a", 19.0, 22.0), ChartPoint(2.0, 21.0, "b"))
    svg = scatter_svg(
        [ChartSeries("one", points, STYLE, is_line=True)], x_label="x", y_label="y", description="a chart"
    )
    root = ElementTree.fromstring(svg)
    assert len(root.findall("polyline")) == 1
    (whisker,) = [line for line in root.iter("line") if line.get("stroke-opacity")]
    circle = list(points_of(svg)[0].iter("circle"))[-1]
    assert float(whisker.get("y2", "")) < float(circle.get("cy", "")) < float(whisker.get("y1", ""))


def test_a_crowded_series_has_no_whiskers_but_all_points() -> None:
    points = tuple(ChartPoint(place, 20.0, f"point {place}", 0.0, 40.0) for place in range(MOST_WHISKERS + 1))
    svg = scatter_svg([ChartSeries("many", points, STYLE)], x_label="x", y_label="y", description="a chart")
    assert "stroke-opacity" not in svg
    assert [title(point) for point in points_of(svg)] == [point.tip for point in points]


def test_a_legend_names_the_series_that_have_points_and_stays_above_them() -> None:
    names = [f"a series with a rather long name {place}" for place in range(7)]
    series = [ChartSeries(name, (ChartPoint(place, 1.0, name),), STYLE) for place, name in enumerate(names)]
    svg = scatter_svg([*series, ChartSeries("empty", (), STYLE)], x_label="x", y_label="y", description="a chart")
    root = ElementTree.fromstring(svg)
    places = {text.text: (float(text.get("x", "")), float(text.get("y", ""))) for text in root.iter("text")}
    assert set(names) <= places.keys() and "empty" not in places
    highest = min(float(circle.get("cy", "")) for point in points_of(svg) for circle in point.iter("circle"))
    assert max(places[name][1] for name in names) < highest
    assert len({places[name] for name in names}) == 7


def test_words_in_a_chart_are_escaped() -> None:
    tip = "<b>&\"' "
    svg = scatter_svg(
        [ChartSeries("<i>", (ChartPoint(1, 1, tip),), STYLE)], x_label="a < b", y_label="&", description='"<x>"'
    )
    assert title(points_of(svg)[0]) == tip
    assert ElementTree.fromstring(svg).get("aria-label") == '"<x>"'


def test_no_two_series_look_alike_in_black_and_white() -> None:
    mechanisms = [TOK_C_GEOMETRIC, TOK_LL_GEOMETRIC, TOK_C_MULTINOMIAL, TOK_LL_MULTINOMIAL, SEQ_LL, SEQ_C, SEQ_BLEU]
    models = [BASELINE_STYLE, ALIGNED_STYLE, CONTINUED_STYLE, CONFIDENCE_STYLE, *LAYER_DROPS.values()]
    styles = [*models, *(mechanism.style for mechanism in mechanisms)]
    assert len({(style.shape, style.is_hollow) for style in styles}) == len(styles)
    assert {style.shape for style in styles} <= {"circle", *OUTLINES}


def test_a_bar_is_as_high_as_its_exit_and_its_probability() -> None:
    sample = SampleRecord(source="s", reference="r", tokens=["▁a", "<&>"], exits=[1, 4], scores=[0.5, 0.25])
    first, second = points_of(tokens_svg(sample, blocks=4, description="bars"))
    heights = [[float(rectangle.get("height", "")) for rectangle in group.findall("rect")] for group in (first, second)]
    assert heights == [[25.0, 50.0], [100.0, 25.0]]
    assert title(first) == "␣a\nexit 1 of 4\nprobability 0.500"
    assert second.findtext("text") == "<&>"


def test_a_long_sentence_goes_on_in_further_rows_within_the_picture() -> None:
    tokens = [f"▁wort{place}" for place in range(50)]
    sample = SampleRecord(source="s", reference="r", tokens=tokens, exits=[2] * 50, scores=[1.0] * 50)
    svg = tokens_svg(sample, blocks=2, description="bars")
    root = ElementTree.fromstring(svg)
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    bars = [rectangle for group in points_of(svg) for rectangle in group.findall("rect")]
    assert len(bars) == 100 and len({rectangle.get("y") for rectangle in bars}) == 3
    assert all(
        float(bar.get("x", "")) + float(bar.get("width", "")) < width and float(bar.get("y", "")) < height
        for bar in bars
    )


def test_a_piece_shows_its_space_and_is_cut_where_it_is_long() -> None:
    assert piece_words("▁word") == "␣word"
    assert piece_words("▁" + "x" * 30).endswith("x…") and len(piece_words("▁" + "x" * 30)) == 18


def test_positions_show_every_share_of_both_ends() -> None:
    model = PositionModelRecord(
        run="r", policy="p", average_exit=1.5, blocks=3, start=[10.0, 20.0, 70.0], end=[60.0, 40.0, 0.0]
    )
    svg = positions_svg(model, name="one", description="positions")
    tips = [title(point) for point in points_of(svg)]
    assert tips[0] == "start (rpos < 0.1)\nexit 1\n10.0% of these tokens"
    assert tips[-1] == "end (rpos > 0.9)\nexit 3\n0.0% of these tokens"
    heights = [float(point.findall("rect")[0].get("height", "")) for point in points_of(svg)]
    assert heights[2] / heights[0] == pytest.approx(7, rel=0.02) and heights[5] == 0
    assert "mean exit 2.60" in svg and "mean exit 1.40" in svg


def test_a_histogram_has_a_cell_for_each_exit_and_bin_with_its_percentage() -> None:
    model = ScoreModelRecord(
        run="r", policy="p", average_exit=1.5, blocks=2, bins=4, counts=[[0, 0, 10, 60], [5, 5, 20, 0]]
    )
    cells = points_of(scores_svg(model, description="scores"))
    assert len(cells) == 8
    told = {title(cell): cell.findtext("text") for cell in cells}
    assert told["exit 1\nprobability 0.75 to 1\n60 tokens, 60.00%"] == "60"
    assert told["exit 2\nprobability 0 to 0.25\n5 tokens, 5.00%"] == "5.0"
    assert told["exit 1\nprobability 0 to 0.25\n0 tokens, 0.00%"] is None


def test_a_picture_with_one_filled_cell_has_a_colour() -> None:
    model = ScoreModelRecord(run="r", policy="p", average_exit=1.0, blocks=1, bins=1, counts=[[3]])
    assert "#ffffff" not in scores_svg(model, description="scores").partition('class="point"')[2].lower()


def test_a_file_of_its_own_names_the_namespace_once() -> None:
    svg = standalone(tag("svg", tag("g"), viewBox="0 0 1 1"))
    assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"


@pytest.mark.parametrize(
    ("value", "words"), [(1.0, "1"), (-0.01, "0"), (-3.16, "-3.2"), (12345.6, "12345.6"), (math.pi, "3.1")]
)
def test_a_coordinate_is_short(value: float, words: str) -> None:
    assert number(value) == words
