"""A report as one HTML page that needs nothing beside itself."""

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
    Row,
    Section,
    Table,
    Text,
)
from anydepth.report.page_style import CSS, SCRIPT

SHORT = 44  # characters of code that a table keeps on one line
HOW_TO_READ = (
    "Point at a figure with a mark or at a point of a chart to read all of it, touch it, or step through "
    "a chart with the arrow keys."
)
TEXT_CLASSES = {
    "plain": "",
    "lead": "lead",
    "note": "note",
    "alert": "alert",
    "missing": "missing-note",
    "count": "count",
}


def page_html(document: Document) -> str:
    """The whole page."""
    contents = "".join(
        f'<li><a href="#{section.name}">{escape(section.title)}</a></li>' for section in document.sections
    )
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>anydepth report: {escape(document.title)}</title>",
            f"<style>{CSS}</style>",
            "</head>",
            "<body>",
            f"<header><h1><bdi>{escape(document.title)}</bdi></h1>",
            *map(_block, document.opening),
            f'<p class="note screen">{HOW_TO_READ}</p>\n</header>\n<nav '
            f'aria-label="Contents"><ul>{contents}</ul></nav>',
            "<main>",
            *map(_section, document.sections),
            "</main>",
            f"<script>{SCRIPT}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _section(section: Section) -> str:
    body = "\n".join(map(_block, section.blocks))
    heading = f'<h2 id="{section.name}-title">{escape(section.title)}</h2>'
    return f'<section id="{section.name}" aria-labelledby="{section.name}-title">\n{heading}\n{body}\n</section>'


def _block(block: Block) -> str:
    match block:
        case Text():
            kind = TEXT_CLASSES[block.kind]
            return f"<p{_class(kind)}>{_prose(block.prose)}</p>"
        case Listing():
            return f"<ul>{''.join(f'<li>{_prose(item)}</li>' for item in block.items)}</ul>"
        case FactList():
            return (
                f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{_prose(prose)}</dd>' for name, prose in block.items)}</dl>"
            )
        case Table():
            return _table(block)
        case Picture():
            return _picture(block)
        case Gallery():
            return f'<div class="gallery">{"".join(map(_picture, block.pictures))}</div>'
        case Fold():
            inner = "\n".join(map(_block, block.blocks))
            return f"<details><summary>{escape(block.summary)}</summary>\n{inner}\n</details>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _prose(prose: Prose) -> str:
    return "".join(map(_words, prose))


def _words(part: str | Code | Quoted | Link) -> str:
    match part:
        case Code():
            return f"<code{_class('short' if len(part.text) <= SHORT else '')}>{escape(part.text)}</code>"
        case Quoted():
            return f'<bdi dir="auto">{escape(part.text)}</bdi>'
        case Link():
            return f'<a href="#{part.section}">{escape(part.text)}</a>'
    return escape(part)


def _picture(picture: Picture) -> str:
    kind = "chart wide" if picture.is_wide else "chart"
    values = _block(Fold("Values", (picture.values,))) if picture.values else ""
    caption = f"<figcaption>{escape(picture.title)}</figcaption>"
    return f'<figure id="{picture.name}">{caption}<div class="{kind}">{picture.svg}</div>{values}</figure>'


def _table(table: Table) -> str:
    if table.texts is None:
        return _words_table(table)
    texts = table.texts
    head = "".join(
        f'<th scope="col"{_class("n" if place >= texts else "")}>{escape(name)}</th>'
        for place, name in enumerate(table.columns)
    )
    body = "\n".join(_row(row, _span(table.rows, place), texts) for place, row in enumerate(table.rows))
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.caption)}"><table>'
        f"<caption><span>{escape(table.caption)}</span></caption><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def _words_table(table: Table) -> str:
    """A table of sentences, whose rows become cards on a narrow page; roles keep it a table for
    those who hear it."""
    head = "".join(f'<th scope="col" role="columnheader">{escape(name)}</th>' for name in table.columns)
    rows = []
    for row in table.rows:
        cells = "".join(
            f'<td role="cell" data-column="{escape(name)}"{_class(_told_kind(cell))}>{_cell_words(cell)}</td>'
            for name, cell in zip(table.columns[1:], row.cells, strict=True)
        )
        rows.append(f'<tr role="row"><th scope="row" role="rowheader">{escape(row.heads[0])}</th>{cells}</tr>')
    body = "\n".join(rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.caption)}"><table '
        'class="words" role="table">'
        f'<caption><span>{escape(table.caption)}</span></caption><thead role="rowgroup"><tr '
        f'role="row">{head}</tr></thead>\n'
        f'<tbody role="rowgroup">\n{body}\n</tbody></table></div>'
    )


def _span(rows: tuple[Row, ...], place: int) -> int:
    """How many rows the first head of a row stands for; 0 where it belongs to the one above."""
    if len(rows[place].heads) > 1 and not rows[place].heads[0]:
        return 0
    below = rows[place + 1 :]
    return 1 + next((n for n, row in enumerate(below) if len(row.heads) < 2 or row.heads[0]), len(below))


def _row(row: Row, span: int, texts: int) -> str:
    scope = 'rowgroup" rowspan="' + str(span) if span > 1 else "row"
    first = f'<th scope="{scope}">{escape(row.heads[0])}</th>' if span else ""
    others = "".join(f'<th scope="row">{escape(head)}</th>' for head in row.heads[1:])
    cells = "".join(_cell(cell, is_figure=place >= texts) for place, cell in enumerate(row.cells, start=len(row.heads)))
    kind = "paper" if row.kind == "paper" else ""
    return f"<tr{_class(kind)}>{first}{others}{cells}</tr>"


def _cell(cell: Cell, *, is_figure: bool) -> str:
    kind = " ".join(name for name in ("n" if is_figure else "", _told_kind(cell)) if name)
    return f"<td{_class(kind)}>{_cell_words(cell)}</td>"


def _told_kind(cell: Cell) -> str:
    return cell.kind if cell.kind in ("missing", "paper") else ""


def _cell_words(cell: Cell) -> str:
    tip = f' title="{escape(cell.tip)}"' if cell.tip else ""
    words = f"<b>{_words(cell.text)}</b>" if cell.is_best else _words(cell.text)
    words = f"<span{tip}>{words}</span>" if tip else words
    spread = f'<span class="spread">{escape(cell.spread)}</span>' if cell.spread else ""
    if cell.mark is None:
        return f"{words}{spread}"
    mark = f'<span class="mark {cell.mark.kind}" title="{escape(cell.mark.tip)}">{cell.mark.symbol}</span>'
    return f"{mark}{words}{spread}" if cell.mark.leads else f"{words}{mark}{spread}"
