"""A report as Markdown, with its pictures as files beside it."""

import re
from html import escape

from anydepth.report.document import (
    Block,
    Cell,
    Code,
    Document,
    FactList,
    Fold,
    Gallery,
    Link,
    Listing,
    Picture,
    Prose,
    Quoted,
    Section,
    Table,
    Text,
)

SPACES = re.compile(r"\s+")
SPECIAL = re.compile(r"([\\`*_\[\]|~$#])")


def markdown_text(document: Document) -> str:
    """The whole file."""
    contents = Listing(tuple((Link(section.title, section.name),) for section in document.sections))
    parts = [
        f"# {_plain(document.title)}",
        *map(_block, document.opening),
        "Contents:",
        _block(contents),
        *map(_section, document.sections),
    ]
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> str:
    return "\n\n".join([f'<a id="{section.name}"></a>\n\n## {_plain(section.title)}', *map(_block, section.blocks)])


def _block(block: Block) -> str:
    match block:
        case Text():
            words = _prose(block.prose)
            return (
                f"**{words}**"
                if block.kind == "count"
                else f"> {words}"
                if block.kind in ("alert", "missing")
                else words
            )
        case Listing():
            return "\n".join(f"- {_prose(item)}" for item in block.items)
        case FactList():
            return "\n".join(f"- {_plain(name)}: {_prose(prose)}" for name, prose in block.items)
        case Table():
            return _table(block)
        case Picture():
            return _picture(block)
        case Gallery():
            return "\n\n".join(map(_picture, block.pictures))
        case Fold():
            inner = "\n\n".join(map(_block, block.blocks))
            return f"<details><summary>{escape(block.summary)}</summary>\n\n{inner}\n\n</details>"


def _plain(words: str) -> str:
    """Text that means itself, on one line."""
    return SPECIAL.sub(r"\\\1", escape(SPACES.sub(" ", words), quote=False))


def _code(words: str) -> str:
    """Words in a code span, fenced by more backticks than they hold in a row; a bar would end a
    table's cell."""
    line = " ".join(words.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    room = " " if line[:1] == "`" or line[-1:] == "`" else ""
    return f"{fence}{room}{line}{room}{fence}".replace("|", "\\|") if line else ""


def _prose(prose: Prose) -> str:
    return "".join(map(_words, prose))


def _words(part: str | Code | Quoted | Link) -> str:
    match part:
        case Code():
            return _code(part.text)
        case Quoted():
            return _plain(part.text)
        case Link():
            return f"[{_plain(part.text)}](#{part.section})"
    return _plain(part)


def _picture(picture: Picture) -> str:
    values = f"\n\n{_block(Fold('Values', (picture.values,)))}" if picture.values else ""
    return f"**{_plain(picture.title)}**\n\n![{_plain(picture.alt)}](pictures/{picture.name}.svg){values}"


def _table(table: Table) -> str:
    texts = len(table.columns) if table.texts is None else table.texts
    lines = [
        f"*{_plain(table.caption)}*",
        "",
        _line([_plain(column) for column in table.columns]),
        _line([*["---"] * texts, *["---:"] * (len(table.columns) - texts)]),
    ]
    lines += [_line([*map(_plain, row.heads), *map(_cell, row.cells)]) for row in table.rows]
    return "\n".join(lines)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cell or ' ' for cell in cells)} |"


def _cell(cell: Cell) -> str:
    words = f"**{_words(cell.text)}**" if cell.is_best else _words(cell.text)
    spread = _plain(cell.spread if cell.spread.startswith("±") or not cell.spread else f"({cell.spread})")
    symbol = cell.mark.symbol if cell.mark else ""
    parts = (symbol, words, spread) if cell.mark and cell.mark.leads else (words, spread, symbol)
    return " ".join(part for part in parts if part)
