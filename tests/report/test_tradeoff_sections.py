"""The figures of a report come from the records: a changed record changes the page, and tables are
right by hand."""

import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from report.pages import Page, section, without_coordinates
from report.reports import RUNS, ask_only_for, page_of, report, written_report
from report.studies import change, comparison, read_json, write_json, write_study

from anydepth.figures.style import MARKER_SIZES
from anydepth.report.beyond import LAYER_DROPS
from anydepth.report.spots import (
    ALIGNED_STYLE,
    BASELINE_STYLE,
    CONFIDENCE_STYLE,
    CONTINUED_STYLE,
    SEQ_BLEU,
    SEQ_C,
    SEQ_LL,
    TOK_C_GEOMETRIC,
    TOK_C_MULTINOMIAL,
    TOK_LL_GEOMETRIC,
    TOK_LL_MULTINOMIAL,
)

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
    (f"{RUNS}/rival-distilled-1.json", ("measurements", 1, "bleu"), 23.456, "rivals", "23.46"),
    (f"{RUNS}/rival-layerdrop-0.2.json", ("measurements", 2, "mflops_per_token"), 7.771, "rivals", "7.77"),
    (f"{RUNS}/rival-layerdrop-0.5.json", ("measurements", 2, "mflops_per_token"), 7.771, "rivals", "7.77"),
    (f"{RUNS}/aligned-continued.json", ("measurements", 3, "bleu"), 24.321, "figure-3", "24.32"),
    (f"{RUNS}/aligned-continued.json", ("measurements", 3, "bleu"), 24.321, "figure-5", "24.32"),
    (f"{RUNS}/aligned-continued.json", ("measurements", 3, "bleu"), 24.321, "rivals", "24.32"),
    (f"{RUNS}/aligned-continued.json", ("measurements", 3, "bleu"), 24.321, "seq-bleu", "24.32"),
    (
        "study.json",
        ("exit_updates",),
        1234,
        "figure-3",
        "Halting runs had 1,234 updates more than the aligned and baseline runs; ",
    ),
    (
        "study.json",
        ("exit_updates",),
        1234,
        "figure-5",
        "Halting runs had 1,234 updates more than the aligned and baseline runs; ",
    ),
    (
        "study.json",
        ("exit_updates",),
        None,
        "rivals",
        "Halting runs had updates beyond those of the aligned and baseline runs; ",
    ),
    (f"{RUNS}/aligned.json", ("revision",), "abcdef0", "table-1", "revisions abcdef0, c869c8e0123"),
    (f"{RUNS}/aligned.json", ("revision",), None, "figure-3", "revisions c869c8e0123, unknown"),
    (f"{RUNS}/aligned.json", ("measurements", 0, "tokenized_bleu"), 29.87, "table-1", "29.87"),
    (f"{RUNS}/aligned.json", ("measurements", 6, "valid_bleu"), 29.87, "rivals", "29.87"),
    ("records/positions.json", ("models", 1, "average_exit"), 2.408, "figure-8", "AE 2.41"),
    ("records/scores.json", ("models", 1, "average_exit"), 2.408, "figure-9", "AE 2.41"),
    (f"{RUNS}/aligned.json", ("settings", "training.mode"), "other", "figure-3", "training.mode=other"),
    (f"{RUNS}/aligned.json", ("measurements", 0, "signature"), "nrefs:7", "table-1", "nrefs:7"),
    (
        "records/trends.json",
        ("trends", 0, "verdict"),
        "disagree",
        "agreement",
        "2 claims: 0 agree, 1 disagree, 1 within noise, 0 not comparable, 0 missing.",
    ),
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


@pytest.fixture(scope="module")
def unchanged(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[str, str]]:
    """The report of an unchanged study by the section that it was narrowed to, each made once."""

    @cache
    def made(where: str) -> tuple[str, str]:
        folder = shutil.copytree(
            pristine, tmp_path_factory.mktemp("unchanged") / "study", copy_function=shutil.copyfile
        )
        ask_only_for(folder, where)
        return report(folder)

    return made


@pytest.mark.parametrize(
    ("name", "keys", "value", "where", "words"), CHANGES, ids=lambda part: part if isinstance(part, str) else ""
)
def test_a_changed_record_changes_the_page(
    unchanged: Callable[[str], tuple[str, str]],
    small: Path,
    name: str,
    keys: tuple[object, ...],
    value: object,
    where: str,
    words: str,
) -> None:
    def shown(html: str) -> str:
        return without_coordinates(section(html, where) if where else html)

    ask_only_for(small, where)
    before, text_before = unchanged(where)
    change(small / name, *keys, to=value)
    after, text_after = report(small)
    assert words not in shown(before)
    assert words in shown(after)
    assert text_before != text_after or where == "table-1"  # what only hovering tells is not in the Markdown


def test_a_moved_point_moves_in_the_picture(small: Path) -> None:
    change(small / "study.json", "experiments", to=["figure3", "figure4", "figure5", "figures6-9", "seq-bleu"])
    written_report(small)
    before = {path.name: path.read_text(encoding="utf-8") for path in (small / "pictures").iterdir()}
    change(small / RUNS / "seq-ll-l1.json", "measurements", 1, "average_exit", to=1.9)
    written_report(small)
    changed = {
        path.name for path in (small / "pictures").iterdir() if path.read_text(encoding="utf-8") != before[path.name]
    }
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


def test_a_caption_tells_whose_bleu_is_which(page: str, small: Path) -> None:
    signature = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.4.0"
    for name, split in (("table-1", "valid"), ("table-2-test", "test"), ("table-3-valid", "valid")):
        caption = Page(section(page, name)).tables[0].caption
        assert caption == (
            f"BLEU on {split}. Ours is sacreBLEU 13a on detokenized text ({signature}); "
            "below it the paper's is tokenized BLEU, on IWSLT'14 German to English."
        )
    ask_only_for(small, "table-1")
    for path in (small / RUNS).iterdir():
        run = read_json(path)
        write_json(path, run | {"measurements": [m | {"signature": None} for m in run["measurements"]]})
    assert "Ours is sacreBLEU on detokenized text (no signature stored);" in page_of(small)


def test_our_tokenized_bleu_stands_in_the_fold_beside_the_paper_s(page: str, small: Path) -> None:
    """Tokenized BLEU is 2 higher than BLEU in these records."""
    rows = Page(section(page, "table-1")).table("Tokenized BLEU on valid")
    assert rows[3][:3] == ["Aligned (ω = 1)", "ours", "28.05"] and rows[3][9] == "28.21"
    assert rows[1][2] == "\u2013" and rows[4] == [
        "paper",
        "35.5",
        "34.1",
        "35.5",
        "35.8",
        "36.1",
        "36.1",
        "36.2",
        "35.6",
    ]
    path = small / RUNS / "aligned.json"
    run = read_json(path)
    del run["measurements"][0]["tokenized_bleu"]
    write_json(path, run)
    ask_only_for(small, "table-1")
    rows = Page(section(page_of(small), "table-1")).table("Tokenized BLEU on valid")
    # the exit, and the average over it
    assert rows[3] == [
        "Aligned (ω = 1)",
        "ours",
        "28.05",
        "\u2013",
        "28.05",
        "\u2013",
    ]


def bold_of(html: str) -> dict[tuple[str, str], list[bool]]:
    """Which figures of table 1 are bold, by the row's name and whose it is."""
    body = html[html.index("<tbody>", html.index('<section id="table-1"')) :].partition("</tbody>")[0]
    found, name = {}, ""
    for row in body.split("</tr>")[:-1]:
        heads = re.findall("<th .*?>(.*?)</th>", row)
        name = heads[0] if len(heads) == 2 else name
        found[name, heads[-1]] = ["<b>" in cell for cell in re.findall("<td.*?</td>", row)]
    return found


def test_the_best_of_ours_and_of_the_paper_s_is_bold_in_each_column(page: str, finished: Path) -> None:
    """The paper's best: aligned at uniform and from n = 2 on, baseline and M = 6 at n = 1, aligned
    and M = 6 at n = 3."""
    bold = bold_of(page)
    assert bold["Aligned (ω = 1)", "paper"] == [True, False, True, True, True, True, True, True]
    assert bold["Baseline", "paper"] == [False, True, False, False, False, False, False, False]
    assert bold["Mixed, M = 6", "paper"] == [False, True, False, True, False, False, False, False]
    assert bold["Aligned (ω = 1)", "ours"] == [True] * 8
    others = [
        name
        for name in bold
        if name[0] in ("Mixed, M = 1", "Mixed, M = 3") or name in (("Baseline", "ours"), ("Mixed, M = 6", "ours"))
    ]
    assert len(others) == 6 and not any(any(bold[name]) for name in others)
    markdown = (finished / "report.md").read_text(encoding="utf-8")
    assert "| **26.05** ±0.88 |" in markdown and "| paper | **35.5** | 34.1 |" in markdown


def test_a_mark_is_that_of_the_sign(tmp_path: Path) -> None:
    """The paper on valid: mixed M = 1 at n = 1 is 1.2 below aligned; M = 6 at n = 1 is 0.1 above;
    omega = sqrt(n) at n = 3 is equal."""
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
    assert (
        "disagree: our difference +0.50 (+0.30 to +0.70; paired bootstrap over sentences), the paper&#39;s -1.2" in html
    )


def test_a_shallow_study_leaves_out_the_columns_that_it_lacks_and_says_so(small: Path) -> None:
    ask_only_for(small, "table-1")
    html = page_of(small)
    rows = Page(section(html, "table-1")).table("BLEU on valid")
    assert rows[0] == ["training", "figures", "uniform", "n = 1", "n = 2", "average"]
    assert rows[4] == ["paper", "35.5", "34.1", "35.5", "35.6"]
    assert [row[0] for row in rows[1::2]] == ["Baseline", "Aligned (ω = 1)", "Mixed, M = 1", "Mixed, M = 2 (paper: 6)"]
    assert "its columns beyond n = 2 are left out" in Page(section(html, "table-1")).text


def test_a_deep_study_has_columns_that_the_paper_lacks(tmp_path: Path) -> None:
    folder = write_study(tmp_path, blocks=8)
    ask_only_for(folder, "table-2")
    html = page_of(folder)
    rows = Page(section(html, "table-2-test")).table("BLEU on test")
    assert rows[0][-3:] == ["n = 7", "n = 8", "average"]
    assert rows[4] == ["paper", "34.4", "33.2", "34.4", "34.8", "34.9", "35.0", "34.9", "\u2013", "\u2013", "34.5"]
    assert "it has no deeper columns" in html


@pytest.fixture
def two_seeds(pristine_seeds: Path, tmp_path: Path) -> Path:
    return shutil.copytree(pristine_seeds, tmp_path / "study", copy_function=shutil.copyfile)


def test_seeds_are_averaged_and_their_interval_is_named(two_seeds: Path) -> None:
    """The second seed's figures are 0.2 higher: the mean is 0.1 higher and the range is 0.1 on both
    sides."""
    folder = two_seeds
    ask_only_for(folder, "table-1")
    html = page_of(folder)
    shown = Page(section(html, "table-1"))
    row = shown.table("BLEU on valid")[3]
    assert row[2] == "26.15 ±0.10" and row[9] == "26.31 ±0.10"
    assert "range of 2 seeds" in shown.text
    assert "26.15 (26.05 to 26.25; range of 2 seeds)" in shown.tips


def test_a_seed_that_is_not_there_is_told(two_seeds: Path) -> None:
    folder = two_seeds
    ask_only_for(folder, "table-1")
    (folder / RUNS / "mixed-3.2.json").unlink()
    text = Page(section(page_of(folder), "table-1")).text
    assert "Not all of the 2 seeds are there for: Mixed, M = 3." in text


def test_no_two_series_look_alike_in_black_and_white() -> None:
    mechanisms = [TOK_C_GEOMETRIC, TOK_LL_GEOMETRIC, TOK_C_MULTINOMIAL, TOK_LL_MULTINOMIAL, SEQ_LL, SEQ_C, SEQ_BLEU]
    models = [BASELINE_STYLE, ALIGNED_STYLE, CONTINUED_STYLE, CONFIDENCE_STYLE, *LAYER_DROPS.values()]
    styles = [*models, *(mechanism.style for mechanism in mechanisms)]
    assert len({(style.marker, style.fill) for style in styles}) == len(styles)
    assert {style.marker for style in styles} <= set(MARKER_SIZES)
