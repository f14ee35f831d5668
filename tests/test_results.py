"""docs/results/README.md: its commands parse, its links lead somewhere, and its verdicts are those of the records beside it."""

import json
from pathlib import Path

import pytest
from cli.parsing import anydepth_commands, check_arguments
from test_readme import fences, links

RESULTS = Path(__file__).parents[1] / "docs" / "results"
TEXT = (RESULTS / "README.md").read_text(encoding="utf-8")
COLUMNS = {"Multi30k": "multi30k", "built-in corpus": "demo"}
WORDS = {"agree": "agrees", "disagree": "disagrees", "within noise": "within noise"}
COMMANDS = [command for kind, block in fences(TEXT) if kind == "sh" for command in anydepth_commands(block)]


def table(first: str) -> list[list[str]]:
    """The rows of the table whose first heading is `first`, the headings among them."""
    lines = TEXT.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return [rows[0], *rows[2:]]


def recorded_verdicts(study: str) -> list[str]:
    """The verdicts of a study with their differences and intervals, as the table tells them."""
    trends = json.loads((RESULTS / study / "records" / "trends.json").read_text(encoding="utf-8"))["trends"]
    return [f"{WORDS[each['verdict']]} {each['difference']:+.2f} [{each['low']:+.2f}, {each['high']:+.2f}]" for each in trends]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_parses(command: list[str]) -> None:
    check_arguments(command)


def test_every_path_that_is_linked_to_exists() -> None:
    assert [target for target in links(TEXT) if not (RESULTS / target).exists()] == []


@pytest.mark.parametrize("column", COLUMNS)
def test_the_verdicts_told_are_those_of_the_records(column: str) -> None:
    headings, *rows = table("finding of the paper")
    told = [row[headings.index(column)] for row in rows]
    assert told == recorded_verdicts(COLUMNS[column])


def test_the_results_are_small_enough_to_be_kept() -> None:
    assert sum(file.stat().st_size for file in RESULTS.rglob("*") if file.is_file()) < 5_000_000
