"""docs/architecture.md: its file tree is the tree, its list is the order of imports, and what its
walks and lists name exists."""

import ast
import re
from pathlib import Path

from markdown_pages import DOCS, ROOT, fences
from test_imports import ORDER

TEXT = (DOCS / "architecture.md").read_text(encoding="utf-8")
EXAMPLES = ("room/module.py", "anydepth/room/module.py")  # how the page writes names


def tree_paths(block: str) -> list[str]:
    """The paths in a file tree whose depth is told by indentation; {a,b}.py stands for a.py and
    b.py, text after the name is a note."""
    paths: list[str] = []
    stack: list[tuple[int, str]] = []
    for line in block.splitlines():
        plain = re.sub(r"[│├└─|`]", " ", line)
        if not (match := re.match(r"(\s*)([\w./{},-]+)", plain)):
            continue
        depth, name = len(match[1]), match[2].rstrip(",")
        while stack and stack[-1][0] >= depth:
            stack.pop()
        folder = stack[-1][1] if stack else ""
        paths += [folder + choice for choice in spelled_out(name)]
        if name.endswith("/"):
            stack.append((depth, folder + name))
    return paths


def spelled_out(name: str) -> list[str]:
    """The names that braces stand for."""
    if not (braces := re.search(r"\{([^}]*)\}", name)):
        return [name]
    return [name[: braces.start()] + choice + name[braces.end() :] for choice in braces[1].split(",")]


def package_tree() -> list[str]:
    """The paths of the file tree: the code block that names anydepth/ as a folder on a line of its
    own."""
    trees = [block for kind, block in fences(TEXT) if re.search(r"^\W*anydepth/", block, flags=re.MULTILINE)]
    assert len(trees) == 1, "docs/architecture.md has one file tree, with a line anydepth/"
    return tree_paths(trees[0])


def section(heading: str) -> str:
    """What stands under a heading of the second level."""
    parts = re.split(r"^## (.+)\n", TEXT, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[heading]


def test_the_file_tree_names_what_exists_and_every_module() -> None:
    named = package_tree()
    assert [path for path in named if not (ROOT / path).exists()] == []
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "anydepth").rglob("*.py") if path.name != "__init__.py"}
    assert sorted(modules - set(named)) == []


def test_the_rooms_of_the_tree_stand_in_the_order_of_imports() -> None:
    rooms = [path.split("/")[1] for path in package_tree() if re.fullmatch(r"anydepth/\w+/", path)]
    assert rooms == [room for room in ORDER if (ROOT / "anydepth" / room).is_dir()]


def test_the_page_lists_the_order_of_imports() -> None:
    ((_, block),) = fences(section("The direction of imports"))
    assert tuple(re.findall(r"\w+", block)) == ORDER


def test_a_tree_is_read_with_and_without_lines() -> None:
    drawn = "anydepth/\n├── cli.py      the command line\n└── text/\n    └── {a,b}.py  two\nREADME.md"
    plain = "anydepth/\n  cli.py   the command line\n  text/\n    a.py\n    b.py\nREADME.md"
    paths = ["anydepth/", "anydepth/cli.py", "anydepth/text/", "anydepth/text/a.py", "anydepth/text/b.py", "README.md"]
    assert tree_paths(drawn) == tree_paths(plain) == paths


def named_in(text: str) -> list[tuple[str, str]]:
    """What the page names as `room/module.py: symbol` or as a path, with an empty symbol for a path
    alone; NAME stands for what a reader would add."""
    spans = re.findall(r"`([^`]+)`", " ".join(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL).split()))
    found = [re.fullmatch(r"([\w/]+(?:\.\w+|/))(?:: ([\w.]+))?", span) for span in spans]
    return [
        (match[1], match[2] or "")
        for match in found
        if match and "/" in match[1] and match[1] not in EXAMPLES and "NAME" not in match[1]
    ]


def place_of(path: str) -> Path:
    """Where a path of the page leads: into the package, or for tests into the repository."""
    return ROOT / path if path.startswith("tests/") else ROOT / "anydepth" / path


def symbols_of(module: Path) -> set[str]:
    """The names that a module defines, with the methods of its classes, as in
    "Transformer.step"."""
    names: set[str] = set()
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{inner.name}"
                for inner in node.body
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
            }
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def test_what_the_walks_and_lists_name_exists() -> None:
    named = named_in(TEXT)
    assert len([symbol for _, symbol in named if symbol]) > 40
    missing = [
        f"{path}: {symbol}" if symbol else path
        for path, symbol in named
        if not place_of(path).exists() or (symbol and symbol not in symbols_of(place_of(path)))
    ]
    assert missing == []
