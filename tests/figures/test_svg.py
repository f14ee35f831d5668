"""Pictures of a page: XML without a trace of the machine, with ids and a look of their own, whose
shapes tell what they are told to."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
from figures.pictures import points_of, tips_of, words_of
from matplotlib.figure import Figure

from anydepth.figures import style
from anydepth.figures.style import drawing
from anydepth.figures.svg import figure_svg, standalone, tell, xml_words


def small_figure(title: str = "a title") -> Figure:
    with drawing():
        figure = Figure(figsize=(2, 1.5))
        axis = figure.subplots()
        axis.bar([1, 2], [3, 4], hatch="//")
        axis.plot([1, 2, 3], [1, 4, 2], marker="o")
        axis.set_title(title)
    return figure


def small_svg(name: str = "small", description: str = "a picture") -> str:
    return figure_svg(small_figure(), name=name, description=description)


def test_the_same_figure_has_the_same_bytes_without_time_version_or_address() -> None:
    svg = small_svg()
    assert svg == small_svg()
    assert not re.search(r"matplotlib|metadata|http|DejaVu|\d{4}-\d\d-\d\d", svg)


def test_other_fonts_of_the_machine_leave_the_bytes_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    svg = small_svg()
    monkeypatch.setattr(style, "font_families", lambda: ("DejaVu Sans", "DejaVu Serif", "DejaVu Sans Mono"))
    assert small_svg() == svg


def test_pictures_of_one_page_share_no_id_and_refer_to_their_own() -> None:
    for name in ("one", "two"):
        svg = small_svg(name)
        ids = re.findall(r'\bid="(.*?)"', svg)
        assert len(ids) == len(set(ids)) >= 3 and all(each.startswith(f"{name}-") for each in ids)
        assert set(re.findall(r'href="#(.*?)"|url\(#(.*?)\)', svg)) and set(ids) == {
            found for pair in re.findall(r'href="#(.*?)"|url\(#(.*?)\)', svg) for found in pair if found
        }


def test_a_picture_has_no_style_sheet_that_would_reach_the_page() -> None:
    assert "<style" not in small_svg()


def test_words_stay_words_and_the_description_is_escaped() -> None:
    svg = figure_svg(small_figure('<b> & "c"'), name="small", description='"<x>" & y')
    root = ElementTree.fromstring(svg)
    assert '<b> & "c"' in words_of(svg)
    assert (root.get("role"), root.get("aria-label"), root.findtext("desc")) == ("group", '"<x>" & y', '"<x>" & y')


def test_a_glyph_that_no_font_has_here_is_left_to_the_readers_fonts() -> None:
    assert "\u1f60 子供 \U0001f984" in words_of(
        figure_svg(small_figure("\u1f60 子供 \U0001f984"), name="small", description="")
    )


def test_each_marker_and_each_bar_tells_its_tip() -> None:
    figure = small_figure()
    (line,), (bars,) = figure.axes[0].get_lines(), figure.axes[0].containers
    tell(line, ["<first>\nline", "", "third & last"])
    tell(bars[1], ["the second bar"])
    svg = figure_svg(figure, name="small", description="")
    assert tips_of(svg) == ["the second bar", "<first>\nline", "", "third & last"]
    bar, *markers = points_of(svg)
    assert [shape.tag for shape in bar] == ["title", "path"]
    places = [float(marker.find("use").get("x", "")) for marker in markers]  # type: ignore[union-attr]
    assert places == sorted(places) and len(set(places)) == 3


def test_the_line_between_markers_does_not_stand_before_what_lies_below_it() -> None:
    figure = small_figure()
    tell(figure.axes[0].get_lines()[0], ["a", "b", "c"])
    root = ElementTree.fromstring(figure_svg(figure, name="small", description=""))
    listening = [group for group in root.iter() if group.get("pointer-events") == "all"]
    assert root.get("pointer-events") == "none"
    assert [child.get("class") for group in listening for child in group] == ["point"] * 3


@pytest.mark.parametrize("tips", [["one"], ["one", "two", "three", "four"]])
def test_as_many_tips_as_shapes_are_needed(tips: list[str]) -> None:
    figure = small_figure()
    tell(figure.axes[0].get_lines()[0], tips)
    with pytest.raises(ValueError, match="zip"):
        figure_svg(figure, name="small", description="")


def test_what_xml_does_not_know_is_a_space() -> None:
    assert xml_words("a\x00b\tc\ud800\uffff\U0001f984\n") == "a b\tc  \U0001f984\n"


def test_coordinates_are_short() -> None:
    assert re.findall(r"\d\.\d{3,}", small_svg()) == []
    assert "-0 " not in small_svg()


def test_a_file_of_its_own_names_the_namespace_once() -> None:
    svg = standalone(small_svg())
    assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
    assert svg.count("xmlns") == 1
