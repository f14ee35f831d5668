"""Markdown as tests read it: the pages of the project, their code blocks, commands, links, headings
and prose."""

import re
from pathlib import Path

from cli.parsing import anydepth_commands

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
SHELLS = ("sh", "bash", "shell", "console")
GENERATED = {DOCS / "settings.md"}  # by `anydepth configs --reference`
DOC_PAGES = [*sorted(DOCS.glob("*.md")), DOCS / "results" / "README.md"]
PAGES = [README, ROOT / "PAPER_MAP.md", ROOT / "CHANGELOG.md", *DOC_PAGES]


def page_name(page: Path) -> str:
    """A page as the name of a test tells it."""
    return page.relative_to(ROOT).as_posix()


def fences(text: str) -> list[tuple[str, str]]:
    """The code blocks: the word after the opening mark, and the text."""
    return re.findall(r"^```([^\n`]*)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def without_fences(text: str) -> str:
    """The text with an empty line in the place of each code block."""
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


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


def commands_of(page: Path) -> list[list[str]]:
    """The arguments of every `anydepth` command in the shell blocks of a page."""
    blocks = [(kind.strip(), block) for kind, block in fences(page.read_text(encoding="utf-8"))]
    return [
        command for kind, block in blocks if kind in SHELLS for command in anydepth_commands(shell_text(kind, block))
    ]


def named_verbs(text: str) -> list[str]:
    """The words after `anydepth` in inline code up to the first with other signs or a capital, as
    in "plot tokens"."""
    spans = re.findall(r"`anydepth\s+((?:[a-z][a-z0-9_-]*(?:\s+|(?=`)))+)", without_fences(text))
    return [" ".join(span.split()) for span in spans]


def links(text: str) -> list[str]:
    """The targets of links and pictures, Markdown's and HTML's, that are paths; a part of a page
    stands behind `#`."""
    prose = without_fences(text)
    targets = re.findall(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)", prose) + re.findall(
        r"""(?:src|href|srcset)=["']([^"']+)["']""", prose
    )
    targets += re.findall(r"^\[[^\]]+\]:\s*(\S+)", prose, flags=re.MULTILINE)
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def missing_targets(page: Path) -> list[str]:
    """The links of a page that lead to no file, or to no heading of a page."""
    missing = []
    for target in links(page.read_text(encoding="utf-8")):
        path, _, part = target.partition("#")
        file = page.parent / path if path else page
        if not file.exists() or (part and part not in anchors(file.read_text(encoding="utf-8"))):
            missing.append(target)
    return missing


def anchors(text: str) -> set[str]:
    """What the headings of a page are called in links: small letters, hyphens for spaces, no other
    signs."""
    headings = re.findall(r"^#+ (.+)$", without_fences(text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def pictures(text: str) -> list[tuple[str, str]]:
    """The text and the path of every picture."""
    return re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", without_fences(text))


def prose_lines(text: str) -> list[str]:
    """The lines outside of code blocks and tables."""
    return [line for line in without_fences(text).splitlines() if not line.lstrip().startswith("|")]


def purpose(text: str) -> str:
    """The first paragraph behind the title, as one line."""
    title, _, rest = text.partition("\n\n")
    assert re.fullmatch(r"# .+", title), f"a page begins with its title, not with {title[:50]!r}"
    return " ".join(rest.partition("\n\n")[0].split())
