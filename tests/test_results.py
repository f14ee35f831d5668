"""docs/results: its commands parse, its links lead somewhere, its verdicts are those of the records
beside it, and the records make its pages and pictures again."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli.parsing import anydepth_commands, check_arguments
from markdown_pages import fences, missing_targets
from report.drawing import drawing_once

from anydepth.experiments.trends import TRENDS
from anydepth.experiments.verdicts import verdict_of
from anydepth.report.markdown import markdown_text
from anydepth.report.report import make_document, write_report
from anydepth.report.study_records import read_study

RESULTS = Path(__file__).parents[1] / "docs" / "results"
TEXT = (RESULTS / "README.md").read_text(encoding="utf-8")
COLUMNS = {"Multi30k": "multi30k", "built-in corpus": "demo"}
STUDIES = (*COLUMNS.values(), "race")
WORDS = {"agree": "agrees", "disagree": "disagrees"}  # the others stand as they are
SHORT_PAGE = RESULTS.parent / "results.md"
# The rows of its shorter table, and the findings that each of them tells.
SHORT_ROWS = {
    "aligned beats mixed training, at fixed and at uniform exits": (
        "aligned-beats-mixed-fixed",
        "aligned-beats-mixed-uniform",
    ),
    "aligned at half depth matches the deepest baseline": ("half-depth-matches-baseline",),
    "... matches the best baseline": ("half-depth-matches-best-baseline",),
    "geometric-like halting beats multinomial": ("geometric-beats-multinomial",),
    "geometric-like: C beats LL": ("geometric-c-beats-ll",),
    "sequences: LL beats C": ("sequence-ll-beats-c",),
    "higher lambda, lower exits; wider sigma, higher exits; low exits with high scores": (
        *("lambda-lowers-exits", "sigma-raises-exits", "low-exits-high-scores"),
    ),
    "deeper at the start of sentences": ("deeper-at-the-start",),
}
COMMANDS = [command for kind, block in fences(TEXT) if kind == "sh" for command in anydepth_commands(block)]


def table(first: str, text: str = TEXT) -> list[list[str]]:
    """The rows of the table whose first heading is `first`, the headings among them."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return [rows[0], *rows[2:]]


def trends_of(study: str) -> list[dict[str, Any]]:
    """The verdicts of a study as they are recorded."""
    found: list[dict[str, Any]] = json.loads((RESULTS / study / "records" / "trends.json").read_text(encoding="utf-8"))[
        "trends"
    ]
    return found


def told_verdict(trend: dict[str, Any]) -> str:
    """A verdict with its difference and interval, where it has them, as the table tells it."""
    word = WORDS.get(trend["verdict"], trend["verdict"])
    difference = "" if trend["difference"] is None else f" {trend['difference']:+.2f}"
    interval = "" if trend["low"] is None else f" [{trend['low']:+.2f}, {trend['high']:+.2f}]"
    return f"{word}{difference}{interval}"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_parses(command: list[str]) -> None:
    check_arguments(command)


def test_every_path_that_is_linked_to_exists() -> None:
    assert missing_targets(RESULTS / "README.md") == []


@pytest.mark.parametrize("column", COLUMNS)
def test_the_verdicts_told_are_those_of_the_records(column: str) -> None:
    headings, *rows = table("finding of the paper")
    told = [row[headings.index(column)] for row in rows]
    assert told == [told_verdict(trend) for trend in trends_of(COLUMNS[column])]


@pytest.mark.parametrize("column", COLUMNS)
def test_the_shorter_table_tells_the_verdicts_of_the_records(column: str) -> None:
    headings, *rows = table("finding of the paper", SHORT_PAGE.read_text(encoding="utf-8"))
    assert [row[0] for row in rows] == list(SHORT_ROWS)
    found = {trend["name"]: WORDS.get(trend["verdict"], trend["verdict"]) for trend in trends_of(COLUMNS[column])}
    for row in rows:
        assert {found[name] for name in SHORT_ROWS[row[0]]} == {row[headings.index(column)]}, row[0]


@pytest.mark.parametrize("study", COLUMNS.values())
def test_the_records_judge_each_finding_by_its_stored_interval(study: str) -> None:
    matches = {trend.name: trend.is_match for trend in TRENDS}
    for trend in trends_of(study):
        if trend["verdict"] in ("missing", "not comparable"):
            assert trend["low"] is None and trend["high"] is None and trend["remark"]
        else:
            assert trend["verdict"] == verdict_of(trend["low"], trend["high"], is_match=matches[trend["name"]]), trend[
                "name"
            ]
            assert trend["low"] <= trend["difference"] <= trend["high"]


@pytest.mark.parametrize("study", COLUMNS.values())
def test_the_records_have_the_findings_that_a_study_examines_now(study: str) -> None:
    experiments = read_study(RESULTS / study).plan.experiments
    examined = [(trend.name, trend.claim, trend.paper) for trend in TRENDS if trend.experiment in experiments]
    assert [(trend["name"], trend["claim"], trend["paper"]) for trend in trends_of(study)] == examined


def test_the_results_are_small_enough_to_be_kept() -> None:
    assert sum(file.stat().st_size for file in RESULTS.rglob("*") if file.is_file()) < 6_500_000


def made_files(folder: Path) -> dict[str, bytes]:
    """What `anydepth report` leaves in a folder."""
    files = [folder / "report.html", folder / "report.md", *(folder / "pictures").iterdir()]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


@pytest.mark.parametrize("study", STUDIES)
def test_the_pages_and_pictures_are_made_again_from_what_is_committed(study: str, tmp_path: Path) -> None:
    told: list[str] = []
    write_report(RESULTS / study, to=tmp_path, say=told.append)
    made, committed = made_files(tmp_path), made_files(RESULTS / study)
    assert sorted(made) == sorted(committed)
    assert [name for name in committed if made[name] != committed[name]] == []
    assert "missing" not in told[0]


@pytest.mark.parametrize("study", STUDIES)
def test_every_run_of_the_plan_has_a_record(study: str) -> None:
    found = read_study(RESULTS / study)
    trained = {step.name.removeprefix("train ") for step in found.plan.steps if step.name.startswith("train ")}
    assert set(found.runs) == trained


def add_to(record: Any, keys: tuple[str | int, ...], more: float) -> None:
    for key in keys[:-1]:
        record = record[key]
    record[keys[-1]] += more


@pytest.mark.parametrize(
    ("file", "keys", "more"),
    [
        ("runs/aligned.json", ("measurements", 0, "bleu"), 0.01),
        ("runs/gamma-0.7.json", ("measurements", 3, "high"), 0.02),
        ("runs/seq-c-l0.3.json", ("measurements", 1, "average_exit"), 0.01),
        ("runs/tok-c-geometric-l0.3.json", ("measurements", 2, "mflops_per_token"), 0.01),
        ("runs/rival-shallow.json", ("parameters",), 1),
        ("comparisons.json", ("comparisons", 0, "low"), 0.01),
        ("trends.json", ("trends", 4, "difference"), 0.01),
        ("positions.json", ("models", 0, "average_exit"), 0.01),
        ("race.json", ("gains", 0, "difference"), 0.01),
        ("race/fp32-beam-1.json", ("contestants", 2, "laps", 1, "milliseconds", 2), 0.1),
    ],
)
def test_a_record_that_is_changed_makes_another_page(
    file: str, keys: tuple[str | int, ...], more: float, tmp_path: Path
) -> None:
    study = "race" if file.startswith("race") else "demo"
    shutil.copytree(RESULTS / study, tmp_path / study, ignore=shutil.ignore_patterns("report.html", "pictures"))
    path = tmp_path / study / "records" / file
    record = json.loads(path.read_text(encoding="utf-8"))
    add_to(record, keys, more)
    path.write_text(json.dumps(record), encoding="utf-8")
    with drawing_once():
        document = make_document(read_study(tmp_path / study))
    assert markdown_text(document) != (RESULTS / study / "report.md").read_text(encoding="utf-8")


def test_no_file_below_docs_is_ignored_by_git() -> None:
    files = [str(file) for file in RESULTS.parent.rglob("*") if file.is_file()]
    git = ["git", "-C", str(RESULTS), "-c", "core.excludesFile="]
    try:
        subprocess.run([*git, "rev-parse", "--is-inside-work-tree"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no checkout")
    asked = subprocess.run(
        [*git, "check-ignore", "--no-index", "--stdin"], input="\n".join(files), capture_output=True, text=True
    )
    assert (asked.stdout, asked.returncode) == ("", 1), asked.stderr  # 1: none is ignored
