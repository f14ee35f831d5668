"""The size of things: short functions and files, and one name for one class."""

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "anydepth"
MODULES = sorted(PACKAGE.rglob("*.py"))
AROUND = [file for folder in ("benchmarks", "soak", "tests") for file in (ROOT / folder).rglob("*.py")]
SOURCES = sorted([*MODULES, *PACKAGE.rglob("*.cpp"), *PACKAGE.rglob("*.h"), *AROUND])
MOST_FUNCTION_LINES = 60
MOST_FILE_LINES = 400


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_no_two_classes_share_a_name() -> None:
    trees = [ast.parse(module.read_text(encoding="utf-8")) for module in MODULES]
    names = Counter(node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_no_function_is_long(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lines = {function.name: (function.end_lineno or 0) - function.lineno + 1 for function in functions}
    assert {name: count for name, count in lines.items() if count > MOST_FUNCTION_LINES} == {}


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_no_file_is_long(source: Path) -> None:
    assert len(source.read_text(encoding="utf-8").splitlines()) <= MOST_FILE_LINES
