"""The size of things: short functions and files, and one name for one class."""

import ast
from collections import Counter
from pathlib import Path

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


def test_no_function_is_long() -> None:
    found = {}
    for module in MODULES:
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found[f"{name_of(module)}:{node.lineno} {node.name}"] = (node.end_lineno or 0) - node.lineno + 1
    assert len(found) > len(MODULES)
    assert {name: lines for name, lines in found.items() if lines > MOST_FUNCTION_LINES} == {}


def test_no_file_is_long() -> None:
    found = {name_of(source): len(source.read_text(encoding="utf-8").splitlines()) for source in SOURCES}
    assert {name: lines for name, lines in found.items() if lines > MOST_FILE_LINES} == {}
