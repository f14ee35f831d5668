"""The templates: every kind of block has its HTML, and what is no kind is an error."""

import re
from importlib.resources import files
from typing import get_args

from report.pages import Page

from anydepth.report.document import (
    Block,
    Cell,
    Code,
    Document,
    FactList,
    Fold,
    Link,
    Listing,
    Mark,
    Row,
    Section,
    Table,
    Text,
)
from anydepth.report.page import SHORT, page_html


def page_with(*blocks: object) -> str:
    return page_html(Document("title", (), (Section("here", "Here", blocks),)))  # type: ignore[arg-type]


def body_of(*blocks: object) -> str:
    return page_with(*blocks).partition("</h2>\n")[2].partition("\n</section>")[0]


def test_every_kind_of_block_has_a_macro() -> None:
    template = (files("anydepth.report") / "templates" / "blocks.html").read_text(encoding="utf-8")
    shown = re.search(r"macro show\(block\) -%}\n{{ {(.*?)}\[", template)
    assert shown and set(re.findall(r'"(\w+)": (\w+)', shown[1])) == {
        (kind.__name__, re.sub(r"(?<=.)(?=[A-Z])", "_", kind.__name__).lower()) for kind in get_args(Block)
    }


def test_the_style_and_the_script_stand_in_the_page_as_they_are() -> None:
    page = page_with()
    for name in ("page.css", "page.js"):
        assert (files("anydepth.report") / "assets" / name).read_text(encoding="utf-8") in page
    Page(page)


def test_prose_has_no_space_but_its_own() -> None:
    prose = ("a <", Code("b"), Code("c" * (SHORT + 1)), Link("d", "here"), ".")
    words = f'a &lt;<code class="short">b</code><code>{"c" * (SHORT + 1)}</code><a href="#here">d</a>.'
    assert body_of(Text(prose)) == f"<p>{words}</p>"
    assert body_of(Text(("a",), "missing"), Text(("b",), "note")) == (
        '<p class="missing-note">a</p>\n<p class="note">b</p>'
    )
    assert body_of(Listing((prose, ("e",)))) == f"<ul><li>{words}</li><li>e</li></ul>"
    assert body_of(FactList((("f", prose),))) == f"<dl><dt>f</dt><dd>{words}</dd></dl>"
    fold = Fold("<g>", (Text(("h",)), Text(("i",))))
    assert body_of(fold) == "<details><summary>&lt;g&gt;</summary>\n<p>h</p>\n<p>i</p>\n</details>"


def test_a_cell_has_its_mark_on_the_side_that_it_says() -> None:
    for leads, words in ((True, "✓ 1.00 ±0.10"), (False, "1.00 ✓ ±0.10")):
        cell = Cell("1.00", "±0.10", Mark("✓", "agree", '"tip"', leads=leads), tip="<all>", is_best=True)
        html = body_of(Table("caption", ("head", "number"), (Row(("r",), (cell,)),), texts=1))
        assert Page(html).table("caption") == [["head", "number"], ["r", words]]
        assert '<span title="&lt;all&gt;"><b>1.00</b></span>' in html
        assert '<span class="mark agree" title="&#34;tip&#34;">✓</span>' in html


def test_a_head_stands_for_the_rows_below_it_that_have_none() -> None:
    rows = tuple(Row(heads, (Cell("1"),)) for heads in (("a", "x"), ("", "y"), ("", "z"), ("b", "x")))
    html = body_of(Table("caption", ("one", "two", "number"), rows, texts=2))
    assert '<th scope="rowgroup" rowspan="3">a</th><th scope="row">x</th><td class="n">1</td>' in html
    assert '<tr><th scope="row">y</th>' in html and '<th scope="row">b</th><th scope="row">x</th>' in html
