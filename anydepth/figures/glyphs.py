"""Text that can be drawn: characters of any script, as far as the installed fonts have them."""

import unicodedata
from collections.abc import Sequence
from functools import cache

from matplotlib.font_manager import FontProperties, findfont, get_font, get_font_names

from anydepth.text.tokenizer import WORD_START

# Comes with matplotlib, so that Latin, Greek, Cyrillic and Arabic look the same everywhere
FIRST_FAMILY = "DejaVu Sans"
OTHER_FAMILIES = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "Noto Sans SC",
    "Noto Sans JP",
    "Noto Sans KR",
    "Noto Sans Devanagari",
    "Noto Sans Bengali",
    "Noto Sans Tamil",
    "Noto Sans Thai",
    "WenQuanYi Micro Hei",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "PingFang SC",
    "Arial Unicode MS",
)
NO_GLYPH = "\u25a1"
VISIBLE_SPACE = "\u2423"
LONGEST_PIECE = 18


@cache
def font_families() -> tuple[str, ...]:
    """DejaVu Sans and then those of OTHER_FAMILIES that are installed, in the order in which glyphs
    are looked for."""
    installed = set(get_font_names())
    return (FIRST_FAMILY, *(family for family in OTHER_FAMILIES if family in installed))


def drawable(text: str, families: Sequence[str] | None = None) -> str:
    """`text` with an empty square for each character that none of the fonts has; marks and joiners
    without a glyph are left out.

    Line breaks, tabs and other controls become spaces.
    """
    fonts = [get_font(findfont(FontProperties(family=family))) for family in families or font_families()]
    return "".join(
        _drawable_character(character, any(font.get_char_index(ord(character)) for font in fonts)) for character in text
    )


def _drawable_character(character: str, has_glyph: bool) -> str:
    category = unicodedata.category(character)
    if category == "Cc":
        return " "
    if has_glyph:
        return character
    return "" if category in ("Cf", "Mn") else NO_GLYPH


def piece_words(piece: str) -> str:
    """A SentencePiece piece as a short label: the space before a word is shown as an open box, a
    long piece is cut."""
    shown = piece.replace(WORD_START, VISIBLE_SPACE)
    return shown if len(shown) <= LONGEST_PIECE else shown[: LONGEST_PIECE - 1] + "\u2026"


def piece_label(piece: str) -> str:
    """A piece as a short label of characters that can be drawn."""
    return piece_words(drawable(piece.replace(WORD_START, VISIBLE_SPACE)))


def display_width(text: str) -> int:
    """The width of `text` in Latin characters; Chinese, Japanese, Korean ones and squares count
    twice, combining marks not at all."""
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" or character == NO_GLYPH else 1


def wrapped(text: str, *, width: int) -> str:
    """`text` in lines of at most `width` Latin characters, broken at spaces where possible and
    within a word otherwise."""
    lines, line = [], ""
    for word in text.split():
        joined = f"{line} {word}" if line else word
        if display_width(joined) <= width:
            line = joined
        elif display_width(word) <= width:
            lines.append(line)
            line = word
        else:
            *full, line = _cut(joined, width)
            lines += full
    return "\n".join([*lines, line])


def _cut(text: str, width: int) -> list[str]:
    """`text` in pieces of at most `width`, cut wherever a piece is full."""
    pieces = [""]
    for character in text:
        if display_width(pieces[-1] + character) > width:
            pieces.append("")
        pieces[-1] += character
    return pieces
