"""A report as one HTML page that needs nothing beside itself, from templates/ and assets/."""

from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from anydepth.report.document import Document, Row, Table

SHORT = 44  # characters of code that a table keeps on one line


def page_html(document: Document) -> str:
    """The whole page."""
    pages = Environment(
        loader=PackageLoader("anydepth.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    pages.filters["kind"] = _kind
    pages.filters["spans"] = _spans
    page = pages.get_template("page.html")
    return page.render(document=document, short=SHORT, style=_asset("page.css"), script=_asset("page.js"))


def _asset(name: str) -> str:
    """A file that stands in the page as it is."""
    return (files("anydepth.report") / "assets" / name).read_text(encoding="utf-8")


def _kind(part: object) -> str:
    """The name of a part's class, by which a template finds its macro."""
    return type(part).__name__


def _spans(table: Table) -> list[tuple[Row, int]]:
    """Each row with the number of rows that its first head stands for, 0 where it belongs to the
    one above."""
    return [(row, _span(table.rows, place)) for place, row in enumerate(table.rows)]


def _span(rows: tuple[Row, ...], place: int) -> int:
    if len(rows[place].heads) > 1 and not rows[place].heads[0]:
        return 0
    below = rows[place + 1 :]
    return 1 + next((n for n, row in enumerate(below) if len(row.heads) < 2 or row.heads[0]), len(below))
