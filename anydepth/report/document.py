"""What a report says, before it is HTML or Markdown: sections of tables, pictures and sentences."""

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True)
class Code:
    """Words that a reader can type."""

    text: str


@dataclass(frozen=True)
class Quoted:
    """Somebody's words, of any script and direction."""

    text: str


@dataclass(frozen=True)
class Link:
    """Words that lead to a section of the same document."""

    text: str
    section: str


NOTHING = "\u2013"  # a cell without a value
Prose: TypeAlias = tuple[str | Code | Quoted | Link, ...]
Kind: TypeAlias = Literal["agree", "disagree", "noise", "tie", "unknown", "missing", "paper", "plain"]


@dataclass(frozen=True)
class Mark:
    """A sign that says the same in black and white as in colour; `tip` says why. It follows the
    value unless it `leads`."""

    symbol: str
    kind: Kind
    tip: str
    leads: bool = False


@dataclass(frozen=True)
class Cell:
    """One value of a table: its text, its spread such as "±0.45", its mark, what hovering tells,
    and whether it is its column's best."""

    text: str | Code | Quoted
    spread: str = ""
    mark: Mark | None = None
    tip: str = ""
    kind: Kind = "plain"
    is_best: bool = False


@dataclass(frozen=True)
class Row:
    """One row; an empty first head means that the head above it goes on."""

    heads: tuple[str, ...]
    cells: tuple[Cell, ...]
    kind: Kind = "plain"


@dataclass(frozen=True)
class Table:
    """A table; the first columns are the rows' heads. All columns but the first `texts` hold
    numbers, and none where it is None."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    texts: int | None = None


@dataclass(frozen=True)
class Picture:
    """An SVG picture, which is a file `name`.svg beside the Markdown and part of the page, with its
    values as a table."""

    name: str
    title: str
    svg: str
    alt: str
    values: Table | None = None
    is_wide: bool = False


@dataclass(frozen=True)
class Gallery:
    """Pictures side by side where there is room."""

    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    prose: Prose
    kind: Literal["plain", "lead", "note", "alert", "missing", "count"] = "plain"


@dataclass(frozen=True)
class Listing:
    """Sentences one below the other."""

    items: tuple[Prose, ...]


@dataclass(frozen=True)
class FactList:
    """Names and what they stand for."""

    items: tuple[tuple[str, Prose], ...]


@dataclass(frozen=True)
class Fold:
    """What stands behind a heading that one opens."""

    summary: str
    blocks: "tuple[Block, ...]"


Block: TypeAlias = Table | Picture | Gallery | Text | Listing | FactList | Fold


@dataclass(frozen=True)
class Section:
    """A part with a heading, which `name` leads to."""

    name: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Document:
    """The whole report."""

    title: str
    opening: tuple[Block, ...]
    sections: tuple[Section, ...]


def pictures(blocks: tuple[Block, ...]) -> list[Picture]:
    """All pictures among `blocks`, in their order."""
    found: list[Picture] = []
    for block in blocks:
        if isinstance(block, Picture):
            found.append(block)
        elif isinstance(block, Gallery):
            found += block.pictures
        elif isinstance(block, Fold):
            found += pictures(block.blocks)
    return found
