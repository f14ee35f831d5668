"""Translations on a terminal: words with their exits, colours in the order of depth, and a legend
that adds up."""

import re

import pytest
from rich.console import Console

from anydepth.inference.show import RAMP, exit_legend, exit_style, shown_exits
from anydepth.inference.translator import Translation


def translation(*pieces_and_exits: tuple[str, int]) -> Translation:
    return Translation(tokens=[piece for piece, _ in pieces_and_exits], exits=[left for _, left in pieces_and_exits])


SENTENCE = translation(("▁the", 1), ("▁ca", 2), ("t", 1), ("▁sle", 3), ("eps", 3), ("</s>", 4))


def colours(style_of: int, blocks: int) -> tuple[str, tuple[int, int, int]]:
    """The name of the text's colour and the background."""
    style = exit_style(style_of, blocks)
    assert style.color is not None and style.bgcolor is not None and style.bgcolor.triplet is not None
    return str(style.color.name), tuple(style.bgcolor.triplet)


def brightness(colour: tuple[int, int, int]) -> float:
    return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]


def test_every_word_is_followed_by_the_exits_of_its_pieces_once_where_they_agree() -> None:
    assert shown_exits(SENTENCE, blocks=4).plain == "the₁ cat₂,₁ sleeps₃ </s>₄"


def test_a_word_has_the_colour_of_its_deepest_piece() -> None:
    text = shown_exits(SENTENCE, blocks=4)
    shown = {text.plain[span.start : span.end]: span.style for span in text.spans}
    assert shown == {
        "the₁": exit_style(1, 4),
        "cat₂,₁": exit_style(2, 4),
        "sleeps₃": exit_style(3, 4),
        "</s>₄": exit_style(4, 4),
    }


def test_exits_of_two_figures_are_written_with_both() -> None:
    assert shown_exits(translation(("▁deep", 12)), blocks=12).plain == "deep₁₂"


def test_an_empty_translation_is_an_empty_line() -> None:
    assert shown_exits(Translation(), blocks=3).plain == ""


def test_a_translation_stays_one_line_whatever_its_words_hold() -> None:
    odd = translation(("▁a", 1), ("<0x0A>", 2), ("b", 1), ("<0x0D>", 1), ("▁[red]c[/red]", 2))
    assert shown_exits(odd, blocks=3).plain == "a b ₁,₂,₁,₁ [red]c[/red]₂"


@pytest.mark.parametrize("blocks", [1, 2, 3, 6, 13])
def test_deeper_is_darker_and_the_ends_of_the_ramp_are_the_first_and_the_last_exit(blocks: int) -> None:
    backgrounds = [colours(n, blocks)[1] for n in range(1, blocks + 1)]
    assert backgrounds[0] == RAMP[0]
    assert backgrounds[-1] == (RAMP[-1] if blocks > 1 else RAMP[0])
    bright = [brightness(colour) for colour in backgrounds]
    assert bright == sorted(bright, reverse=True) and len(set(bright)) == blocks
    for n, colour in enumerate(backgrounds, 1):
        ink = {"black": 0, "white": 255}[colours(n, blocks)[0]]
        assert abs(ink - brightness(colour)) > 110, "a word can be read on its colour"


def test_the_legend_tells_the_share_of_every_exit_and_the_average_over_tokens() -> None:
    legend = exit_legend([SENTENCE, translation(("</s>", 1)), Translation()], blocks=4).plain
    assert re.findall(r"(\d)  +(\d+)%", legend) == [("1", "43"), ("2", "14"), ("3", "29"), ("4", "14")]
    assert legend.endswith(f"average {15 / 7:.2f} of 4")


def test_the_legend_of_nothing_is_all_zero() -> None:
    legend = exit_legend([Translation()], blocks=2).plain
    assert legend.count(" 0%") == 2 and legend.endswith("average 0.00 of 2")


def test_colours_reach_a_terminal_and_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = shown_exits(SENTENCE, blocks=4)
    for is_terminal in (True, False):
        console = Console(force_terminal=is_terminal, width=10, highlight=False, soft_wrap=True)
        with console.capture() as captured:
            console.print(text)
        assert re.sub(r"\x1b\[[0-9;]*m", "", captured.get()) == f"{text.plain}\n", "however narrow, it is one line"
        assert ("\x1b[" in captured.get()) == is_terminal
