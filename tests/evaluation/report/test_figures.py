"""The figures of a report come from the records: a changed record changes the page, and tables are right by hand."""

from pathlib import Path

import pytest
from evaluation.report.pages import Page, section
from evaluation.report.reports import RUNS, ask_only_for, report
from evaluation.report.studies import change, comparison, write_json, write_study

CHANGES: list[tuple[str, tuple[object, ...], object, str, str]] = [
    ("study.json", ("title",), "another <title>", "", "another &lt;title&gt;"),
    ("study.json", ("data", "fingerprint"), "fedcba9876543210", "figure-9", "fedcba9876543210"),
    ("study.json", ("versions", "revision"), "abcdef0", "cost", "abcdef0"),
    ("study.json", ("machine", "processor"), "Abacus 5", "table-1", "Abacus 5"),
    ("study.json", ("steps", 0, "minutes"), 1234.5, "plan", "1234.5"),
    ("study.json", ("config", "model", "heads"), 77, "plan", "77"),
    (f"{RUNS}/aligned.json", ("measurements", 0, "bleu"), 24.321, "table-1", "24.32"),
    (f"{RUNS}/aligned.json", ("measurements", 0, "low"), 1.0, "table-1", "(1.00 to "),
    (f"{RUNS}/mixed-2.json", ("measurements", 2, "bleu"), 19.14, "table-1", "19.14"),
    (f"{RUNS}/baseline-2.json", ("measurements", 1, "bleu"), 19.14, "figure-3", "19.14"),
    (f"{RUNS}/omega-inverse-n.json", ("measurements", 3, "bleu"), 19.14, "table-2-test", "19.14"),
    (f"{RUNS}/gamma-1.1.json", ("measurements", 0, "bleu"), 19.14, "table-3-valid", "19.14"),
    (f"{RUNS}/tok-c-geometric-l0.1.json", ("measurements", 2, "bleu"), 19.14, "figure-3", "19.14"),
    (f"{RUNS}/tok-ll-geometric-l0.1-s1.json", ("measurements", 0, "average_exit"), 1.93, "figure-4", "1.93"),
    (f"{RUNS}/seq-ll-l1.json", ("measurements", 1, "bleu"), 19.14, "figure-5", "19.14"),
    (f"{RUNS}/seq-ll-l1.json", ("measurements", 1, "mflops_per_token"), 7.771, "figure-5", "7.77"),
    (f"{RUNS}/seq-bleu-l1.json", ("measurements", 0, "bleu"), 19.14, "seq-bleu", "19.14"),
    (f"{RUNS}/rival-shallow.json", ("parameters",), 7_654_321, "rivals", "7,654,321"),
    (f"{RUNS}/rival-distilled-1.json", ("measurements", 1, "tokens_per_second"), 9876.0, "rivals", "9,876"),
    (f"{RUNS}/rival-layerdrop.json", ("measurements", 2, "mflops_per_token"), 7.771, "rivals", "7.77"),
    (f"{RUNS}/aligned.json", ("settings", "training.mode"), "other", "figure-3", "training.mode=other"),
    (f"{RUNS}/aligned.json", ("measurements", 0, "signature"), "nrefs:7", "table-1", "nrefs:7"),
    ("records/trends.json", ("trends", 0, "verdict"), "disagree", "agreement", "2 claims: 0 agree, 1 disagree, 1 within noise, 0 missing."),
    ("records/trends.json", ("trends", 0, "difference"), 0.77, "agreement", "+0.77 BLEU"),
    ("records/trends.json", ("trends", 0, "remark"), "A remark.", "agreement", "A remark."),
    ("records/comparisons.json", ("comparisons", 0, "difference"), 0.987, "table-1", "+0.99"),
    ("records/tokens.json", ("samples", 0, "tokens", 1), "▁hippopotami", "figures-6-7", "hippopotami"),
    ("records/tokens.json", ("samples", 0, "scores", 1), 0.123, "figures-6-7", "0.123"),
    ("records/positions.json", ("models", 2, "start"), [12.5, 87.5], "figure-8", "87.5"),
    ("records/scores.json", ("models", 1, "counts", 0, 9), 98_765, "figure-9", "98,765"),
    ("records/cost.json", ("ratio",), 1.777, "cost", "+77.7%"),
    ("records/cost.json", ("high",), 1.999, "cost", "1.200 to 1.999"),
]


@pytest.mark.parametrize(("name", "keys", "value", "where", "words"), CHANGES, ids=lambda part: part if isinstance(part, str) else "")
def test_a_changed_record_changes_the_page(small: Path, name: str, keys: tuple[object, ...], value: object, where: str, words: str) -> None:
    def shown(html: str) -> str:
        return section(html, where) if where else html

    ask_only_for(small, where)
    before, text_before = report(small)
    change(small / name, *keys, to=value)
    after, text_after = report(small)
    assert words not in shown(before)
    assert words in shown(after)
    assert text_before != text_after or where == "table-1"  # what only hovering tells is not in the Markdown


def test_a_moved_point_moves_in_the_picture(small: Path) -> None:
    report(small)
    before = {path.name: path.read_text(encoding="utf-8") for path in (small / "pictures").iterdir()}
    change(small / RUNS / "seq-ll-l1.json", "measurements", 1, "average_exit", to=1.9)
    report(small)
    changed = {path.name for path in (small / "pictures").iterdir() if path.read_text(encoding="utf-8") != before[path.name]}
    assert {"figure-3b.svg", "figure-5a.svg", "seq-bleu-exits.svg"} <= changed
    assert not changed & {"figure-3a.svg", "figure-4a.svg", "figure-8-1.svg", "figure-9-1.svg", "figure-6-7-1.svg"}


def test_table_1_has_the_paper_s_figures_below_ours(page: str) -> None:
    rows = Page(section(page, "table-1")).table("BLEU on valid")
    assert rows[0] == ["training", "figures", "uniform", *(f"n = {n}" for n in range(1, 7)), "average"]
    labels = ["Baseline", "Aligned (ω = 1)", "Mixed, M = 1", "Mixed, M = 3", "Mixed, M = 6"]
    assert [row[0] for row in rows[1::2]] == labels
    assert rows[2] == ["paper", "\u2013", "34.2", "35.3", "35.6", "35.7", "35.6", "35.9", "35.4"]
    assert rows[10] == ["paper", "35.3", "34.2", "35.4", "35.8", "35.9", "35.8", "35.9", "35.5"]
    assert rows[3][2] == "26.05 ±0.88"
    assert rows[3][9] == "26.21"  # an average has no stored interval


def test_a_mark_is_that_of_the_sign(tmp_path: Path) -> None:
    """The paper on valid: mixed M = 1 at n = 1 is 1.2 below aligned; M = 6 at n = 1 is 0.1 above; omega = sqrt(n) at n = 3 is equal."""
    folder = write_study(tmp_path)
    comparisons = [
        comparison("mixed-1", "aligned", "valid", "fixed:1", -0.5, reach=0.2),
        comparison("mixed-1", "aligned", "valid", "fixed:2", 0.5, reach=0.2),
        comparison("mixed-1", "aligned", "valid", "fixed:3", -0.5, reach=0.6),
        comparison("mixed-6", "aligned", "valid", "fixed:1", 0.5, reach=0.2),
        comparison("mixed-6", "aligned", "valid", "uniform", -0.5, reach=0.2),
        comparison("mixed-6", "aligned", "valid", "average", 0.5, reach=0.2),
        comparison("omega-sqrt-n", "aligned", "valid", "fixed:3", 0.5, reach=0.2),
        comparison("baseline-1", "aligned", "valid", "fixed:1", 0.5, reach=0.2),
        comparison("baseline-2", "aligned", "valid", "fixed:2", 0.5, reach=0.2),
        comparison("baseline", "aligned", "valid", "average", -0.5, reach=0.2),
    ]
    write_json(folder / "records" / "comparisons.json", {"format": 1, "comparisons": comparisons})
    change(folder / "study.json", "experiments", to=["table1", "table2"])
    html, markdown = report(folder)
    rows = {
        row[0]: [cell.split()[1] if len(cell.split()) > 1 else "" for cell in row[2:]]
        for row in Page(section(html, "table-1")).table("BLEU on valid")[1::2]
    }
    assert rows["Mixed, M = 1"] == ["?", "✓", "✗", "≈", "?", "?", "?", "?"]
    assert rows["Mixed, M = 6"] == ["✓", "✓", "?", "?", "?", "?", "?", "✗"]
    assert rows["Baseline"] == ["", "✓", "✗", "?", "?", "?", "?", "✓"]
    assert all(cell in ("±0.88", "") for cell in rows["Aligned (ω = 1)"])
    second = {row[0]: row[2:] for row in Page(section(html, "table-2-valid")).table("BLEU on valid")[1::2]}
    assert second["ω = √n"][3].split()[1] == "="
    assert "Of 31 signs: 5 agree, 3 disagree, 1 within noise, 22 without a stored comparison." in markdown
    assert "disagree: our difference +0.50 (+0.30 to +0.70; paired bootstrap over sentences), the paper&#x27;s -1.2" in html


def test_a_shallow_study_leaves_out_the_columns_that_it_lacks_and_says_so(small: Path) -> None:
    html, _ = report(small)
    rows = Page(section(html, "table-1")).table("BLEU on valid")
    assert rows[0] == ["training", "figures", "uniform", "n = 1", "n = 2", "average"]
    assert rows[4] == ["paper", "35.5", "34.1", "35.5", "35.6"]
    assert [row[0] for row in rows[1::2]] == ["Baseline", "Aligned (ω = 1)", "Mixed, M = 1", "Mixed, M = 2 (paper: 6)"]
    assert "its columns beyond n = 2 are left out" in Page(section(html, "table-1")).text
    assert 'class="missing-note"' not in html


def test_a_deep_study_has_columns_that_the_paper_lacks(tmp_path: Path) -> None:
    folder = write_study(tmp_path, blocks=8)
    ask_only_for(folder, "table-2")
    html, _ = report(folder)
    rows = Page(section(html, "table-2-test")).table("BLEU on test")
    assert rows[0][-3:] == ["n = 7", "n = 8", "average"]
    assert rows[4] == ["paper", "34.4", "33.2", "34.4", "34.8", "34.9", "35.0", "34.9", "\u2013", "\u2013", "34.5"]
    assert "it has no deeper columns" in html


def test_seeds_are_averaged_and_their_interval_is_named(tmp_path: Path) -> None:
    """The second seed's figures are 0.2 higher: the mean is 0.1 higher and the range is 0.1 on both sides."""
    folder = write_study(tmp_path, seeds=(1, 2))
    ask_only_for(folder, "table-1")
    html, _ = report(folder)
    shown = Page(section(html, "table-1"))
    row = shown.table("BLEU on valid")[3]
    assert row[2] == "26.15 ±0.10" and row[9] == "26.31 ±0.10"
    assert "range of 2 seeds" in shown.text
    assert "26.15 (26.05 to 26.25; range of 2 seeds)" in shown.tips


def test_a_seed_that_is_not_there_is_told(tmp_path: Path) -> None:
    folder = write_study(tmp_path, seeds=(1, 2))
    ask_only_for(folder, "table-1")
    (folder / RUNS / "mixed-3.2.json").unlink()
    text = Page(section(report(folder)[0], "table-1")).text
    assert "Not all of the 2 seeds are there for: Mixed, M = 3." in text
