"""A strict look at HTML: every element is closed in order, and tables come back as rows of
words."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "img", "hr", "link", "input"}


@dataclass
class FoundTable:
    caption: str = ""
    rows: list[list[str]] = field(default_factory=list)


class Page(HTMLParser):
    """The page's tables, its text, its ids, and the attributes that could lead elsewhere."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.tables: list[FoundTable] = []
        self.words: list[str] = []
        self.tips: list[str] = []
        self.ids: list[str] = []
        self.references: list[tuple[str, str]] = []
        self.tags: set[str] = set()
        self.feed(html)
        self.close()
        assert self.stack == [], f"left open: {self.stack}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attributes:
            assert name == name.lower() or tag in ("svg", "pattern"), (tag, name)
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href", "action", "data", "srcset", "poster"):
                self.references.append((name, value or ""))
            if name == "title":
                self.tips.append(value or "")
        if tag not in VOID:
            self.stack.append(tag)
        if tag == "table":
            self.tables.append(FoundTable())
        elif tag == "tr":
            self.tables[-1].rows.append([])
        elif tag in ("td", "th"):
            self.tables[-1].rows[-1].append("")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.stack.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.stack and self.stack[-1] == tag, f"</{tag}> closes {self.stack[-3:]}"
        self.stack.pop()

    def handle_data(self, data: str) -> None:
        if "title" in self.stack and "svg" in self.stack:
            self.tips.append(data)
            return
        if "script" in self.stack or "style" in self.stack:
            return
        self.words.append(data)
        if "caption" in self.stack:
            self.tables[-1].caption += data
        elif "td" in self.stack or ("th" in self.stack and "table" in self.stack):
            self.tables[-1].rows[-1][-1] += ("" if data == "" else data) + " "

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def table(self, caption: str) -> list[list[str]]:
        """The rows of the first table whose caption holds these words."""
        found = next(table for table in self.tables if caption in table.caption)
        return [[" ".join(cell.split()) for cell in row] for row in found.rows]


def section(html: str, name: str) -> str:
    """The HTML of one section."""
    start = html.index(f'<section id="{name}"')
    return html[start : html.index("</section>", start) + len("</section>")]


def without_coordinates(html: str) -> str:
    """HTML whose pictures have their words and tips alone; a coordinate can look like any
    number."""
    return re.sub(r"<(svg|g|path|use|circle|rect|text) [^>]*>", r"<\1>", html)
