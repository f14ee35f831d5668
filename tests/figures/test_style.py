"""The look: colours that stay apart without colour vision, and files that are whole, repeatable or
refused."""

import re
from itertools import pairwise
from pathlib import Path

import matplotlib
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from anydepth.errors import AnydepthError, UsageError
from anydepth.figures.style import (
    FAMILY_STYLES,
    INK,
    OTHER_STYLE,
    drawing,
    exit_colours,
    family_style,
    luminance,
    save_figure,
    text_colour,
)


def small_figure() -> Figure:
    figure = Figure(figsize=(1.5, 1))
    figure.subplots().bar([1, 2], [3, 4], hatch="//")
    return figure


@pytest.mark.parametrize("blocks", [1, 2, 6, 12, 24])
def test_deeper_exits_are_darker(blocks: int) -> None:
    brightness = [luminance(colour) for colour in exit_colours(blocks)]
    assert len(brightness) == blocks
    assert all(shallow > deep for shallow, deep in pairwise(brightness))
    assert max(brightness) < 0.7, "the lightest bar must stand out from white paper"


def test_no_two_families_share_a_colour_or_a_marker() -> None:
    styles = [*FAMILY_STYLES.values(), OTHER_STYLE]
    assert len({style.colour for style in styles}) == len({style.marker for style in styles}) == len(styles)
    assert all(luminance(to_rgb(style.colour)) < 0.5 for style in styles)


def test_an_unknown_family_has_a_style_of_its_own() -> None:
    assert family_style("forced") == OTHER_STYLE
    assert family_style("geometric") == FAMILY_STYLES["geometric"]


def test_luminance_weighs_green_most_and_runs_from_black_to_white() -> None:
    assert luminance((0.0, 0.0, 0.0)) == 0
    assert luminance((1.0, 1.0, 1.0, 0.5)) == pytest.approx(1)
    assert luminance((0.0, 0.0, 1.0)) < luminance((1.0, 0.0, 0.0)) < luminance((0.0, 1.0, 0.0))


@pytest.mark.parametrize("grey", [step / 20 for step in range(21)])
def test_text_has_at_least_the_contrast_that_accessibility_asks_for(grey: float) -> None:
    text, background = luminance(to_rgb(text_colour((grey, grey, grey)))), luminance((grey, grey, grey))
    lighter, darker = max(text, background) + 0.05, min(text, background) + 0.05
    assert lighter / darker >= 3.9


def test_text_is_white_on_black_and_ink_on_white() -> None:
    assert text_colour((0.0, 0.0, 0.0)) == "white"
    assert text_colour((1.0, 1.0, 1.0)) == INK


@pytest.mark.parametrize(
    ("suffix", "start"),
    [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")],
    ids=["png", "svg", "pdf", "PNG"],
)
def test_the_suffix_decides_the_format_and_the_bytes_are_the_same_each_time(
    tmp_path: Path, suffix: str, start: bytes
) -> None:
    for name in ("one", "two"):
        save_figure(small_figure(), tmp_path / f"{name}{suffix}")
    first, second = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "two"))
    assert first == second
    assert first.startswith(start)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"one{suffix}", f"two{suffix}"], (
        "nothing temporary stays"
    )


def test_a_png_has_200_pixels_an_inch(tmp_path: Path) -> None:
    save_figure(small_figure(), tmp_path / "small.png")
    header = (tmp_path / "small.png").read_bytes()[16:24]
    assert (int.from_bytes(header[:4]), int.from_bytes(header[4:])) == (300, 200)


@pytest.mark.parametrize(
    ("name", "ending"), [("figure.jpg", r"\.jpg"), ("figure", "no suffix"), ("figure.svgz", r"\.svgz")]
)
def test_another_suffix_is_refused(tmp_path: Path, name: str, ending: str) -> None:
    with pytest.raises(UsageError, match=rf"as \.png, \.svg or \.pdf, but .*{name} ends in {ending}; rename it"):
        save_figure(small_figure(), tmp_path / name)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    where = tmp_path / "nowhere"
    with pytest.raises(UsageError, match=rf"there is no folder {re.escape(str(where))}; create it"):
        save_figure(small_figure(), where / "figure.svg")


def test_a_failed_save_keeps_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "figure.svg").mkdir()
    with pytest.raises(AnydepthError, match="cannot write"):
        save_figure(small_figure(), tmp_path / "figure.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["figure.svg"]


def test_the_users_own_settings_neither_reach_a_figure_nor_are_changed() -> None:
    with matplotlib.rc_context({"font.size": 31, "axes.facecolor": "red"}):
        before = dict(matplotlib.rcParams)
        with drawing():
            assert matplotlib.rcParams["font.size"] < 10
            assert matplotlib.rcParams["axes.facecolor"] == "white"
        assert dict(matplotlib.rcParams) == before
