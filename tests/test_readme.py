"""README.md: one page that shows what a newcomer needs."""

from markdown_pages import README, commands_of, pictures

MOST_LINES = 200
TEXT = README.read_text(encoding="utf-8")


def test_the_readme_is_one_page() -> None:
    assert len(TEXT.splitlines()) <= MOST_LINES, "move what only some readers need to docs/"


def test_the_readme_shows_every_verb_that_a_newcomer_needs() -> None:
    shown = {command[0] for command in commands_of(README)}
    assert {"prepare", "train", "evaluate", "translate", "tune"} <= shown


def test_the_readme_begins_with_a_picture() -> None:
    (_, path), *others = pictures(TEXT)
    assert path == "docs/demo_clock.png"
    assert TEXT.index(path) < TEXT.index("\n## ")
    assert [path for _, path in others] == ["docs/serve_page.png", "docs/results/race/pictures/race.svg"]


def test_the_readme_tells_its_limits_and_where_to_read_on() -> None:
    headings = [line.removeprefix("## ") for line in TEXT.splitlines() if line.startswith("## ")]
    assert headings[-2:] == ["Limits", "Where to read on"]
