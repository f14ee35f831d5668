"""PAPER_MAP.md: every row leads to a symbol that exists, and whose docstring names the place in the
paper."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEADINGS = ("paper", "file", "symbol")


@dataclass(frozen=True)
class Row:
    """One row of the map: a place in the paper, such as "Eqs. 4 and 5", and the symbol that
    computes it."""

    place: str
    file: str
    symbol: str


def map_rows(text: str) -> list[Row]:
    """The rows of the first table; a row that is not `| place | file | symbol | note |` is an
    error, and so is a map without rows."""
    table = [line for line in text.split("\n## ")[0].splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")] for line in table]
    if len(cells) < 3:
        raise ValueError("the map has no rows")
    if tuple(cells[0][:3]) != HEADINGS or not all(re.fullmatch(r":?-+:?", cell) for cell in cells[1]):
        raise ValueError(f"the map begins with {table[0]!r} but its columns must be {', '.join(HEADINGS)} and a note")
    for line, row in zip(table, cells, strict=True):
        if len(row) != 4 or not all(row):
            raise ValueError(f"{line!r} must have four cells with text: place, file, symbol, note")
    return [Row(row[0], row[1].strip("`"), row[2].strip("`")) for row in cells[2:]]


def places_in(text: str) -> set[str]:
    """The equations, algorithms, sections, appendices, tables and figures that `text` names, as "eq
    4", "section 2.1", "appendix A".

    Lists and ranges are written out: "Eqs. (1)-(3)" names eq 1, eq 2 and eq 3.
    """
    found = set()
    number = r"\(?(\d+(?:\.\d+)*|[A-Z])\)?(?![A-Za-z])"
    kinds = r"\b(eq|algorithm|section|appendi|table|figure)(?:s|x|ce|ces|xes)?\b\.?"
    for match in re.finditer(rf"(?i:{kinds})\s+({number}(?:\s*(?:,|and|or|to|-|\u2013)\s*{number})*)", text):
        kind = {"appendi": "appendix"}.get(match[1].lower(), match[1].lower())
        words = re.findall(r"\d+(?:\.\d+)*|\b[A-Z]\b|-|\u2013|\bto\b", match[2])
        for position, word in enumerate(words):
            if word in ("-", "\u2013", "to"):
                first, last = words[position - 1], words[position + 1]
                found |= {f"{kind} {n}" for n in range(int(first), int(last) + 1)}
            else:
                found.add(f"{kind} {word}")
    return found


def docstring(file: Path, symbol: str) -> str:
    """The docstring of a function, a class or a Class.method in `file`; LookupError if it is not
    there."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | None = None
    for name in symbol.split("."):
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        node = next((child for child in body if isinstance(child, kinds) and child.name == name), None)
        if node is None:
            raise LookupError(f"{file} has no {symbol}")
        body = node.body
    assert node is not None
    return ast.get_docstring(node) or ""


ROWS = map_rows((ROOT / "PAPER_MAP.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.place}-{row.symbol}")
def test_a_row_leads_to_a_symbol_whose_docstring_names_the_place(row: Row) -> None:
    assert (ROOT / row.file).is_file()
    wanted = places_in(row.place)
    assert wanted, f"{row.place!r} names no equation, algorithm, section, appendix, table or figure"
    assert wanted <= places_in(docstring(ROOT / row.file, row.symbol))


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("as in Eq. 4.", {"eq 4"}),
        ("Eq. (4)", {"eq 4"}),
        ("Eqs. 4 and 5", {"eq 4", "eq 5"}),
        ("Eqs. (14)-(16)", {"eq 14", "eq 15", "eq 16"}),
        ("Eqs. 1-3, section 2.1", {"eq 1", "eq 2", "eq 3", "section 2.1"}),
        ("(section 2.2.1 of the paper)", {"section 2.2.1"}),
        ("Section 4 and Appendix A", {"section 4", "appendix A"}),
        ("appendices A and B; Algorithm 1", {"appendix A", "appendix B", "algorithm 1"}),
        ("a section of it, 4 equations, appendix A's", {"appendix A"}),
        ("(-LL^n / |y|, Eq. 4), without", {"eq 4"}),
    ],
)
def test_places_are_read_in_every_form(text: str, places: set[str]) -> None:
    assert places_in(text) == places


def test_an_equation_is_not_found_in_a_longer_number() -> None:
    assert "eq 4" not in places_in("Eq. 14")
    assert "section 2" not in places_in("section 2.1")


HEAD = "| paper | file | symbol | note |\n|---|---|---|---|\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no table here", "no rows"),
        (HEAD, "no rows"),
        (HEAD + "| Eq. 4 | a.py | f |\n", "four cells"),
        (HEAD + "| Eq. 4 | a.py | | note |\n", "four cells"),
        ("| file | paper | symbol | note |\n|---|---|---|---|\n| a | b | c | d |\n", "columns must be"),
        (
            "| paper | file | symbol | note |\n| Eq. 4 | a.py | f | note |\n| Eq. 5 | a.py | g | note |\n",
            "columns must be",
        ),
    ],
)
def test_a_malformed_map_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        map_rows(text)


def test_a_symbol_that_is_not_there_is_an_error() -> None:
    for symbol in ("nothing", "TrainingObjective.nothing", "aligned_rows"):
        with pytest.raises(LookupError, match=symbol):
            docstring(ROOT / "anydepth/training/objective.py", symbol)
