"""Translations on a terminal: every word in the colour of the exit that it took."""

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text

from anydepth.inference.translator import Translation, word_exits

# From light to dark, so that the order of depth survives any kind of colour vision and a grey
# print.
RAMP = ((253, 231, 37), (94, 201, 98), (33, 145, 140), (59, 82, 139), (68, 1, 84))
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def exit_style(n: int, blocks: int) -> Style:
    """The colours of exit n of `blocks`: its place on the ramp as background, and black or white on
    it."""
    place = (len(RAMP) - 1) * (n - 1) / max(blocks - 1, 1)
    below = min(int(place), len(RAMP) - 2)
    red, green, blue = (round(a + (place - below) * (b - a)) for a, b in zip(RAMP[below], RAMP[below + 1], strict=True))
    is_light = 0.299 * red + 0.587 * green + 0.114 * blue > 140
    return Style(color="black" if is_light else "white", bgcolor=f"rgb({red},{green},{blue})")


def shown_exits(translation: Translation, *, blocks: int) -> Text:
    """The words, each followed by the exits of its pieces in small figures and coloured by the
    deepest of them."""
    text = Text()
    for word, exits in word_exits(translation.tokens, translation.exits):
        figures = ",".join(str(left) for left in (exits if len(set(exits)) > 1 else exits[:1])).translate(SUBSCRIPTS)
        if text:
            text.append(" ")
        text.append(" ".join(f"{word}{figures}".splitlines()), style=exit_style(max(exits), blocks))
    return text


def exit_legend(translations: Sequence[Translation], *, blocks: int) -> Text:
    """The colour of each exit with its share of the tokens, and the average exit."""
    exits = [left for translation in translations for left in translation.exits]
    text = Text("exits ")
    for n in range(1, blocks + 1):
        share = 100 * exits.count(n) / max(len(exits), 1)
        text.append(f" {n} ", style=exit_style(n, blocks)).append(f" {share:.0f}%  ")
    return text.append(f"average {sum(exits) / max(len(exits), 1):.2f} of {blocks}")
