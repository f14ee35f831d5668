"""README.md and the pages of docs/: commands parse, links lead somewhere, prose is wrapped, and the
index names every page with its purpose."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from cli.parsing import VERBS, check_arguments
from markdown_pages import (
    DOC_PAGES,
    DOCS,
    GENERATED,
    PAGES,
    README,
    anchors,
    commands_of,
    links,
    missing_targets,
    named_verbs,
    page_name,
    pictures,
    prose_lines,
    purpose,
)

from anydepth.config.shipped import find_settings

MOST_COLUMNS = 100
COMMANDS = [(page, command) for page in PAGES for command in commands_of(page)]
WRITTEN = [page for page in PAGES if page not in GENERATED]
INDEX = DOCS / "README.md"


@pytest.mark.parametrize(
    ("page", "command"), COMMANDS, ids=[f"{page_name(page)}: {' '.join(command)}" for page, command in COMMANDS]
)
def test_a_command_parses_and_its_settings_exist(page: Path, command: list[str]) -> None:
    check_arguments(command)
    if command[0] == "train" and not command[1].startswith("-"):
        assert find_settings(Path(command[1])).is_file()
    for option, value in pairwise(command):
        if option in ("--config", "--exit-config", "--exits-config", "--shape"):
            assert find_settings(Path(value)).is_file()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_a_verb_that_the_prose_names_exists(page: Path) -> None:
    groups = {verb.split()[0] for verb in VERBS if " " in verb}
    for named in named_verbs(page.read_text(encoding="utf-8")):
        words = named.split()
        assert words[0] in VERBS or " ".join(words[:2]) in {*VERBS, *groups}, named


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_link_leads_to_a_file_and_to_a_heading(page: Path) -> None:
    assert missing_targets(page) == []


@pytest.mark.parametrize("page", WRITTEN, ids=page_name)
def test_prose_is_wrapped(page: Path) -> None:
    lines = prose_lines(page.read_text(encoding="utf-8"))
    assert [line for line in lines if len(line) > MOST_COLUMNS] == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_a_picture_says_what_it_shows(page: Path) -> None:
    for text, path in pictures(page.read_text(encoding="utf-8")):
        assert len(text.split()) >= 8, f"{path} has the text {text!r}"


@pytest.mark.parametrize("page", DOC_PAGES, ids=page_name)
def test_a_page_begins_with_its_purpose(page: Path) -> None:
    first = purpose(page.read_text(encoding="utf-8"))
    assert re.fullmatch(r"[A-Z].{30,}\.", first), first


def test_the_index_has_a_line_for_every_page() -> None:
    text = INDEX.read_text(encoding="utf-8")
    listed = re.findall(r"^- \[([^\]]+)\]\(\1\): \S.{20,}", text, flags=re.MULTILINE)
    assert len(listed) == len(set(listed))
    expected = {*DOC_PAGES, *PAGES} - {INDEX, README}
    assert {(DOCS / path).resolve() for path in listed} == {page.resolve() for page in expected}


def test_links_of_every_form_are_found() -> None:
    text = (
        '[a](docs/a.md#part) ![b](<b.png> "B") [web](https://x.org) [here](#part)\n<img src="c.svg">\n[d]: '
        "d.md\n```\n[no](no.md)\n```\n"
    )
    assert links(text) == ["docs/a.md#part", "b.png", "#part", "c.svg", "d.md"]


def test_a_link_to_a_heading_that_is_not_there_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# The page\n\n## What it's for\n\n```\n# no heading\n```\n", encoding="utf-8")
    page = tmp_path / "b.md"
    page.write_text(
        "[1](a.md#what-its-for) [2](a.md#no-heading) [3](c.md) [4](#b) [5](a.md)\n\n## B\n", encoding="utf-8"
    )
    assert missing_targets(page) == ["a.md#no-heading", "c.md"]
    assert anchors("## `a` and B-c\n") == {"a-and-b-c"}


def test_prose_is_what_stands_outside_of_blocks_and_tables() -> None:
    words = "Words,\nand `anydepth plot tokens RUN`."
    text = f"# Title\n\n{words}\n\n```sh\nanydepth demo\n```\n- item\n\n  | a |\n  |---|\n"
    assert [line for line in prose_lines(text) if line] == ["# Title", *words.splitlines(), "- item"]
    assert purpose(text) == " ".join(words.split())
    assert named_verbs(text) == ["plot tokens"]
