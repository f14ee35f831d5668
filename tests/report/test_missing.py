"""What is missing is said, with the command that makes it; what was not asked for is not shown."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from report.pages import Page, section
from report.reports import RUNS, SECTIONS, ask_only_for, page_of, report
from report.studies import COMMAND, EXPERIMENTS, change, read_json, write_json, write_study


def remove_runs(pattern: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        found = sorted((folder / "records" / "runs").glob(pattern))
        assert found
        for path in found:
            path.unlink()

    return remove


def remove(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "records" / name).unlink()


MISSING: list[tuple[Callable[[Path], None], str, str]] = [
    (remove_runs("mixed-2.json"), "table-1", "run mixed-2 (wholly or in part, on valid)"),
    (remove_runs("baseline-1.json"), "table-2-test", "run baseline-1 (wholly or in part, on test)"),
    (remove_runs("omega-n.json"), "table-2-valid", "run omega-n (wholly or in part, on valid)"),
    (remove_runs("gamma-0.7.json"), "table-3-test", "run gamma-0.7 (wholly or in part, on test)"),
    (remove_runs("tok-c-multinomial*.json"), "figure-3", "run Tok-C multinomial on test"),
    (remove_runs("seq-c*.json"), "figure-3", "run Seq-C on test"),
    (remove_runs("baseline-1.json"), "figure-3", "run baseline-1 on test"),
    (remove_runs("aligned.json"), "figure-3", "runs aligned (fixed exits), aligned (tuned confidence) on test"),
    (remove_runs("tok-ll-geometric*.json"), "figure-4", "needs Tok-LL geometric runs that differ in λ alone"),
    (remove_runs("tok-ll-geometric*-s*.json"), "figure-4", "needs Tok-LL geometric runs that differ in \u03c3 alone"),
    (remove_runs("seq-ll*.json"), "figure-5", "run Seq-LL on test"),
    (remove("tokens.json"), "figures-6-7", "records/tokens.json"),
    (remove("positions.json"), "figure-8", "records/positions.json"),
    (remove("scores.json"), "figure-9", "records/scores.json"),
    (remove("cost.json"), "cost", "records/cost.json"),
    (remove_runs("rival-shallow.json"), "rivals", "run rival-shallow on test"),
    (remove_runs("rival-layerdrop-0.2.json"), "rivals", "run rival-layerdrop-0.2 (fixed exits) on test"),
    (remove_runs("rival-layerdrop-0.5.json"), "rivals", "run rival-layerdrop-0.5 (fixed exits) on test"),
    *(
        (remove_runs("aligned-continued.json"), where, "run aligned-continued (fixed exits) on test")
        for where in ("figure-3", "figure-5", "rivals", "seq-bleu")
    ),
    (remove_runs("rival-distilled-1.json"), "rivals", "run rival-distilled on test"),
    (remove_runs("seq-bleu*.json"), "seq-bleu", "run Seq-BLEU on test"),
    (remove("trends.json"), "agreement", "records/trends.json"),
    (remove("comparisons.json"), "table-1", "records/comparisons.json"),
]


@pytest.mark.parametrize(
    ("remove", "where", "words"), MISSING, ids=[f"{where}: {words}" for _, where, words in MISSING]
)
def test_a_missing_record_shows_as_missing_with_the_command_that_makes_it(
    small: Path, remove: Callable[[Path], None], where: str, words: str
) -> None:
    ask_only_for(small, where)
    remove(small)
    html, markdown = report(small)
    notes = re.findall(r'<p class="missing-note">(.*?)</p>', section(html, where))
    told = [Page(note).text for note in notes]
    assert any(note.startswith("Missing: ") and words in note and f"{COMMAND} makes it." in note for note in told), told
    assert f"`{COMMAND}` makes it." in markdown
    for svg in re.findall(r"<svg .*?</svg>", html, flags=re.S):
        assert 'class="point"' in svg


def test_a_missing_measurement_is_a_missing_cell_and_its_neighbours_stay(small: Path) -> None:
    path = small / RUNS / "mixed-1.json"
    run = read_json(path)
    write_json(
        path,
        run | {"measurements": [m for m in run["measurements"] if (m["split"], m["policy"]) != ("valid", "fixed:1")]},
    )
    ask_only_for(small, "table-1")
    html, markdown = report(small)
    row = Page(section(html, "table-1")).table("BLEU on valid")[5]
    assert row[0] == "Mixed, M = 1" and row[3] == "missing" and row[5] == "missing"  # the exit and the average
    assert row[2].startswith("24.95") and row[4].startswith("24.95")
    assert "run mixed-1 (wholly or in part, on valid)" in markdown


def without(path: Path, split: str, *fields: str) -> None:
    """Takes some figures out of a run's measurements on a split."""
    run = read_json(path)
    for m in run["measurements"]:
        if m["split"] == split:
            for field in fields:
                del m[field]
    write_json(path, run)


def test_depths_whose_bleu_was_not_kept_are_drawn_where_depth_is_all_that_counts(small: Path) -> None:
    ask_only_for(small, "figure-4")
    whole = section(page_of(small), "figure-4")
    for path in (small / RUNS).glob("tok-ll-geometric*.json"):
        without(path, "valid", "bleu", "low", "high")
    assert re.findall(r"<svg .*?</svg>", section(page_of(small), "figure-4"), flags=re.S) == re.findall(
        r"<svg .*?</svg>", whole, flags=re.S
    )


def test_bleu_whose_depth_was_not_kept_stands_in_the_tables_and_on_no_axis_of_depth(small: Path) -> None:
    for path in (small / RUNS).glob("baseline-*.json"):
        without(path, "test", "average_exit")
    ask_only_for(small, "figure-5")
    html = section(page_of(small), "figure-5")
    by_exit, by_flops = re.findall(r"<svg .*?</svg>", html, flags=re.S)
    assert "Baseline (baseline-1)" in by_flops and "Baseline (baseline-1)" not in by_exit
    change(small / "study.json", "experiments", to=["table2"])
    assert "missing" not in Page(section(page_of(small), "table-2-test")).table("BLEU on test")[1]


@pytest.mark.parametrize(
    ("variant", "where"),
    [("aligned", "figure-3"), ("aligned-continued", "figure-5"), ("rival-layerdrop-0.5", "rivals")],
)
def test_a_line_that_lacks_an_exit_is_told(small: Path, variant: str, where: str) -> None:
    path = small / RUNS / f"{variant}.json"
    run = read_json(path)
    write_json(
        path,
        run | {"measurements": [m for m in run["measurements"] if (m["split"], m["policy"]) != ("test", "fixed:2")]},
    )
    ask_only_for(small, where)
    assert f"run {variant} (1 of its fixed exits) on test" in section(page_of(small), where)


def test_a_study_without_any_record_is_a_page_of_missing_notes(small: Path) -> None:
    shutil.rmtree(small / "records")
    html = page_of(small)
    Page(html)
    assert "<svg" not in html
    # Rows of the paper are there to be filled; only the plan has nothing to miss.
    assert [name for name in SECTIONS if 'class="missing-note"' not in section(html, name)] == ["plan"]


def test_untuned_geometric_runs_are_drawn_as_they_were_trained(small: Path) -> None:
    for path in (small / RUNS).glob("tok-*-geometric*.json"):
        run = read_json(path)
        write_json(path, run | {"measurements": [m for m in run["measurements"] if m["kind"] != "tuned"]})
    ask_only_for(small, "figure-3")
    html = section(page_of(small), "figure-3")
    assert ">Tok-C geometric</text>" in html and "(tuned)</text>" not in html


def test_what_was_not_asked_for_is_not_shown(small: Path) -> None:
    change(small / "study.json", "experiments", to=["table2", "cost"])
    html = page_of(small)
    assert re.findall(r'<section id="(.*?)"', html) == ["agreement", "table-2-valid", "table-2-test", "cost", "plan"]
    assert "claims: records/trends.json has none for these experiments." in html
    change(small / "study.json", "experiments", to=["all"])
    assert re.findall(r'<section id="(.*?)"', page_of(small)) == SECTIONS


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_an_experiment_alone_misses_nothing_that_it_does_not_need(small: Path, experiment: str) -> None:
    change(small / "study.json", "experiments", to=[experiment])
    html = page_of(small)
    shown = [name for name in SECTIONS if name not in ("agreement", "plan") and f'<section id="{name}"' in html]
    assert shown
    for name in shown:
        assert 'class="missing-note"' not in section(html, name)


def test_rivals_alone_do_not_ask_for_halting_runs_or_depths_in_between(tmp_path: Path) -> None:
    folder = write_study(tmp_path)
    change(folder / "study.json", "experiments", to=["rivals"])
    for path in (folder / RUNS).iterdir():
        if path.stem.startswith(("tok-", "seq-", "baseline-4", "baseline-5")):
            path.unlink()
    assert 'class="missing-note"' not in section(page_of(folder), "rivals")


def test_failed_and_waiting_steps_are_told_at_the_top(small: Path) -> None:
    change(small / "study.json", "steps", 0, "state", to="failed")
    change(small / "study.json", "steps", 0, "reason", to="the loss is <NaN>")
    change(small / "study.json", "steps", 1, "state", to="waiting")
    change(small / "study.json", "steps", 2, "state", to="blocked")
    ask_only_for(small, "plan")
    html, markdown = report(small)
    top = html[: html.index("<nav")]
    count = len(read_json(small / "study.json")["steps"])
    assert f"The study is not finished. Of {count} steps: 1 failed, 1 blocked, 1 waiting." in top
    assert "train aligned: failed, the loss is &lt;NaN&gt;" in top
    assert f"> The study is not finished. Of {count} steps" in markdown
    assert f"{count - 3} of {count} steps are done" in section(html, "plan")


def test_many_unfinished_steps_are_folded(small: Path) -> None:
    plan = read_json(small / "study.json")
    write_json(small / "study.json", plan | {"steps": [step | {"state": "waiting"} for step in plan["steps"]]})
    ask_only_for(small, "plan")
    assert "<summary>The unfinished steps</summary>" in page_of(small)
