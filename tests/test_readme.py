"""README.md and docs/architecture.md: commands parse, links lead somewhere, and the file tree is the
tree."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from cli.parsing import anydepth_commands, check_arguments

from anydepth.config.shipped import find_settings

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
SHELLS = ("sh", "bash", "shell", "console")


def fences(text: str) -> list[tuple[str, str]]:
    """The code blocks: the word after the opening mark, and the text."""
    return re.findall(r"^```([^\n`]*)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def shell_text(kind: str, block: str) -> str:
    """The commands of a shell block; in a console block they stand behind `$ `, and the rest is
    output."""
    if kind != "console":
        return block
    lines, goes_on = [], False
    for line in block.splitlines():
        if line.startswith("$ ") or goes_on:
            lines.append(line.removeprefix("$ "))
            goes_on = line.endswith("\\")
    return "\n".join(lines)


def readme_commands() -> list[list[str]]:
    """The arguments of every `anydepth` command in the README."""
    blocks = [(kind.strip(), block) for kind, block in fences(README.read_text(encoding="utf-8"))]
    return [
        command for kind, block in blocks if kind in SHELLS for command in anydepth_commands(shell_text(kind, block))
    ]


def links(text: str) -> list[str]:
    """The targets of links and pictures, Markdown's and HTML's, that are paths."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)", prose) + re.findall(
        r"""(?:src|href|srcset)=["']([^"']+)["']""", prose
    )
    targets += re.findall(r"^\[[^\]]+\]:\s*(\S+)", prose, flags=re.MULTILINE)
    return [target.partition("#")[0] for target in targets if not re.match(r"[a-z]+:|#", target)]


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
    """The paths of the file tree of docs/architecture.md: the code block that names anydepth/ as a
    folder on a line of its own."""
    trees = [
        block
        for kind, block in fences(ARCHITECTURE.read_text(encoding="utf-8"))
        if re.search(r"^\W*anydepth/", block, flags=re.MULTILINE)
    ]
    assert len(trees) == 1, "docs/architecture.md has one file tree, with a line anydepth/"
    return tree_paths(trees[0])


@pytest.mark.parametrize("command", readme_commands(), ids=" ".join)
def test_a_command_of_the_readme_parses(command: list[str]) -> None:
    check_arguments(command)
    if command[0] == "train" and not command[1].startswith("-"):
        assert find_settings(Path(command[1])).is_file()
    for option, value in pairwise(command):
        if option in ("--config", "--exit-config", "--exits-config", "--shape"):
            assert find_settings(Path(value)).is_file()


def test_the_readme_shows_every_verb_that_a_newcomer_needs() -> None:
    shown = {command[0] for command in readme_commands()}
    assert {"prepare", "train", "translate", "evaluate"} <= shown


def test_every_path_that_the_readme_links_to_exists() -> None:
    missing = [target for target in links(README.read_text(encoding="utf-8")) if not (ROOT / target).exists()]
    assert missing == []


def test_the_file_tree_names_what_exists_and_every_module() -> None:
    named = package_tree()
    assert [path for path in named if not (ROOT / path).exists()] == []
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "anydepth").rglob("*.py") if path.name != "__init__.py"}
    assert sorted(modules - set(named)) == []


def test_a_tree_is_read_with_and_without_lines() -> None:
    drawn = "anydepth/\n├── cli.py      the command line\n└── text/\n    └── {a,b}.py  two\nREADME.md"
    plain = "anydepth/\n  cli.py   the command line\n  text/\n    a.py\n    b.py\nREADME.md"
    paths = ["anydepth/", "anydepth/cli.py", "anydepth/text/", "anydepth/text/a.py", "anydepth/text/b.py", "README.md"]
    assert tree_paths(drawn) == tree_paths(plain) == paths


def test_links_of_every_form_are_found() -> None:
    text = (
        '[a](docs/a.md#part) ![b](<b.png> "B") [web](https://x.org) [here](#part)\n<img src="c.svg">\n[d]: '
        "d.md\n```\n[no](no.md)\n```\n"
    )
    assert links(text) == ["docs/a.md", "b.png", "c.svg", "d.md"]
