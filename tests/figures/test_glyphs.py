"""Text of any script: what the fonts have is kept, the rest becomes a square, and lines fit their
width."""

import pytest
from matplotlib.figure import Figure

from anydepth.figures.glyphs import (
    FIRST_FAMILY,
    LONGEST_PIECE,
    display_width,
    drawable,
    font_families,
    piece_label,
    piece_words,
    wrapped,
)

LATIN_ONLY = [FIRST_FAMILY]


@pytest.mark.parametrize("text", ["naïve café", "Привет", "λόγος", "كتاب", "</s>", "<0xE2>", "$x_1$"])
def test_what_the_first_font_has_stays_as_it_is(text: str) -> None:
    assert drawable(text, LATIN_ONLY) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("中文", "\u25a1\u25a1"),
        ("a\ud800b", "a\u25a1b"),
        ("a\nb\tc\x00", "a b c "),
        ("\U000e0061x", "x"),
        ("", ""),
    ],
)
def test_what_no_font_has_becomes_a_square_or_goes_if_it_is_invisible(text: str, shown: str) -> None:
    assert drawable(text, LATIN_ONLY) == shown


def test_a_further_font_lends_the_glyphs_that_the_first_one_lacks() -> None:
    script_g = "\u210a"
    families = [FIRST_FAMILY, "STIXGeneral"]
    assert drawable(script_g, LATIN_ONLY) == "\u25a1"
    assert drawable(script_g, families) == script_g
    figure = Figure()
    figure.text(0.5, 0.5, script_g, family=families)
    figure.draw_without_rendering()  # a missing glyph would be a warning, and so an error


def test_the_font_that_matplotlib_brings_comes_first() -> None:
    assert font_families()[0] == FIRST_FAMILY


def test_a_piece_shows_the_space_before_a_word_and_is_cut_when_long() -> None:
    assert piece_label("\u2581the") == "\u2423the"
    assert piece_label("ing") == "ing"
    assert piece_label("\u2581") == "\u2423"
    assert piece_label("</s>") == "</s>"
    assert piece_label("x" * LONGEST_PIECE) == "x" * LONGEST_PIECE
    assert piece_label("x" * (LONGEST_PIECE + 1)) == "x" * (LONGEST_PIECE - 1) + "…"


def test_wide_characters_count_twice_and_marks_nothing() -> None:
    assert display_width("abc") == 3
    assert display_width("中a") == 3
    assert display_width("e\u0301") == 1


@pytest.mark.parametrize("text", ["", "a", "one two three four", "x" * 40, "one " + "中" * 23 + " two", "ab " * 30])
@pytest.mark.parametrize("width", [5, 8, 100])
def test_wrapping_keeps_every_character_within_the_width(text: str, width: int) -> None:
    lines = wrapped(text, width=width).split("\n")
    assert all(display_width(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_lines_break_at_spaces_where_they_can() -> None:
    assert wrapped("one two three", width=8) == "one two\nthree"
    assert wrapped("one twothreefour", width=8) == "one twot\nhreefour"


def test_the_words_of_a_piece_need_no_font() -> None:
    assert piece_words("\u2581\U0001f984") == "\u2423\U0001f984"
    assert piece_words("\u2581" + "x" * 30).endswith("x…") and len(piece_words("\u2581" + "x" * 30)) == LONGEST_PIECE
