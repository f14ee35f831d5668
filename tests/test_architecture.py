"""docs/architecture.md: its file tree is the tree, and its list is the order of imports."""

import re

from markdown_pages import DOCS, ROOT, fences
from test_imports import ORDER

TEXT = (DOCS / "architecture.md").read_text(encoding="utf-8")


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
