"""The whole report from a synthetic study: what it shows, what it says is missing, and that it is one safe page."""

import re
import shutil
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest
from evaluation.report.pages import Page, section
from evaluation.report.studies import COMMAND, EXPERIMENTS, change, comparison, read_json, write_json, write_study

from anydepth.errors import UsageError
from anydepth.evaluation.report.report import write_report

SECTIONS = [
    *("agreement", "table-1", "table-2-valid", "table-2-test", "table-3-valid", "table-3-test"),
    *("figure-3", "figure-4", "figure-5", "figures-6-7", "figure-8", "figure-9", "cost", "rivals", "seq-bleu", "plan"),
]
PICTURES = {
    *("figure-3a", "figure-3b", "figure-3c", "figure-4a", "figure-4b", "figure-5a", "figure-5b", "figure-6-7-1", "figure-6-7-2"),
    *(f"figure-{figure}-{place}" for figure in (8, 9) for place in (1, 2, 3)),
    *("rivals-flops", "rivals-speed", "seq-bleu-exits"),
}


def quiet(words: str) -> None:
    pass


def report(folder: Path) -> tuple[str, str]:
    """The page and the Markdown of a study."""
    write_report(folder, to=None, say=quiet)
    return (folder / "report.html").read_text(encoding="utf-8"), (folder / "report.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of six blocks with its report; not to be changed."""
    folder = write_study(tmp_path_factory.mktemp("finished"))
    report(folder)
    return folder


@pytest.fixture(scope="module")
def page(finished: Path) -> str:
    return (finished / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two blocks; not to be changed."""
    return write_study(tmp_path_factory.mktemp("pristine") / "study", blocks=2)


@pytest.fixture
def small(pristine: Path, tmp_path: Path) -> Path:
    return shutil.copytree(pristine, tmp_path / "study")


def ask_only_for(folder: Path, name: str) -> None:
    """Narrows a study to the experiment of one section, which is faster; the agreement and the plan are always shown."""
    short = name.removesuffix("-valid").removesuffix("-test").replace("table-", "table").replace("figure-", "figure")
    others = {"figures-6-7": "figures6-9", "figure8": "figures6-9", "figure9": "figures6-9"}
    wanted = (others | {"agreement": "table1", "plan": "cost", "": "cost"}).get(short, short)
    assert wanted in EXPERIMENTS
    change(folder / "study.json", "experiments", to=[wanted])


def test_a_finished_study_shows_every_section_and_picture_and_misses_nothing(finished: Path, page: str) -> None:
    shown = Page(page)
    assert [name for name in shown.ids if f"{name}-title" in shown.ids] == SECTIONS
    assert {path.stem for path in (finished / "pictures").iterdir()} == PICTURES
    assert set(shown.ids) >= PICTURES
    assert 'class="missing-note"' not in page and "not finished" not in page
    assert len(page.encode()) + (finished / "report.md").stat().st_size < 1_500_000


def test_the_page_is_well_formed_and_every_name_is_used_once(page: str) -> None:
    shown = Page(page)
    assert len(shown.ids) == len(set(shown.ids))
    assert '<html lang="en">' in page
    assert {reference for _, reference in shown.references} == {f"#{name}" for name in SECTIONS}


def test_the_page_needs_nothing_beside_itself(page: str) -> None:
    shown = Page(page)
    assert not shown.tags & {"link", "img", "iframe", "object", "embed", "source", "video", "audio", "base"}
    assert (
        "http:" not in page
        and "https:" not in page
        and "@import" not in page
        and "//" not in re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    )
    assert set(re.findall(r"url\((.*?)\)", page)) == {f"#hatch-figure-8-{place}" for place in (1, 2, 3)}
    assert not re.search(r"fetch\(|XMLHttpRequest|WebSocket|import\(", page)


def test_every_picture_file_is_xml_and_none_is_empty(finished: Path, page: str) -> None:
    for path in sorted((finished / "pictures").iterdir()):
        root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
        assert root.tag.endswith("svg") and root.get("aria-label")
        points = [group for group in root.iter() if group.get("class") == "point"]
        assert len(points) >= 2, path.name
        assert f'id="{path.stem}"' in page


def test_every_chart_and_table_has_words_for_those_who_do_not_see_it(page: str) -> None:
    shown = Page(page)
    assert page.count("<svg ") == len(PICTURES) == page.count('role="group" aria-label=')
    assert all(table.caption for table in shown.tables)
    assert '<th scope="col"' in page and '<th scope="row"' in page and 'scope="rowgroup"' in page


@pytest.mark.parametrize("blocks", [1, 2])
def test_the_same_records_make_the_same_bytes(tmp_path: Path, blocks: int) -> None:
    folders = [write_study(tmp_path / name, blocks=blocks) for name in ("one", "two")]
    first = report(folders[0])
    assert first == report(folders[1])
    Page(first[0])
    for path in sorted((folders[0] / "pictures").iterdir()):
        assert path.read_bytes() == (folders[1] / "pictures" / path.name).read_bytes()


def test_only_study_json_and_records_are_read(small: Path, tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    shutil.copy(small / "study.json", tmp_path / "alone")
    shutil.copytree(small / "records", tmp_path / "alone" / "records")
    (small / "runs").mkdir()
    (small / "runs" / "aligned.json").write_text("not JSON")
    assert report(tmp_path / "alone") == report(small)


def test_another_place_gets_the_report_and_the_study_stays_as_it_was(small: Path, tmp_path: Path) -> None:
    before = sorted(path.relative_to(small) for path in small.rglob("*"))
    said: list[str] = []
    write_report(small, to=tmp_path / "deep" / "place", say=said.append)
    assert sorted(path.relative_to(small) for path in small.rglob("*")) == before
    assert {path.name for path in (tmp_path / "deep" / "place").iterdir()} == {"report.html", "report.md", "pictures"}
    assert said == [
        f"wrote {tmp_path / 'deep' / 'place' / 'report.html'}, {tmp_path / 'deep' / 'place' / 'report.md'} and {len(PICTURES)} pictures"
    ]


def test_a_place_that_cannot_be_written_is_refused(small: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=re.escape(f"cannot write to {tmp_path / 'file'}: ")):
        write_report(small, to=tmp_path / "file", say=quiet)


def test_a_picture_that_is_no_longer_made_goes_and_a_stranger_stays(small: Path) -> None:
    report(small)
    stranger = small / "pictures" / "mine.svg"
    stranger.write_text("<svg/>")
    (small / "records" / "tokens.json").unlink()
    report(small)
    names = {path.stem for path in (small / "pictures").iterdir()}
    assert names == (PICTURES - {"figure-6-7-1", "figure-6-7-2"}) | {"mine"}


# --- the figures come from the records ---------------------------------------------------------------------------------------------

RUNS = "records/runs"
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


# --- the tables ---------------------------------------------------------------------------------------------------------------------


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


# --- what is missing ----------------------------------------------------------------------------------------------------------------


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
    (remove_runs("rival-distilled-1.json"), "rivals", "run rival-distilled on test"),
    (remove_runs("seq-bleu*.json"), "seq-bleu", "run Seq-BLEU on test"),
    (remove("trends.json"), "agreement", "records/trends.json"),
    (remove("comparisons.json"), "table-1", "records/comparisons.json"),
]


@pytest.mark.parametrize(("remove", "where", "words"), MISSING, ids=[f"{where}: {words}" for _, where, words in MISSING])
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
    write_json(path, run | {"measurements": [m for m in run["measurements"] if (m["split"], m["policy"]) != ("valid", "fixed:1")]})
    html, markdown = report(small)
    row = Page(section(html, "table-1")).table("BLEU on valid")[5]
    assert row[0] == "Mixed, M = 1" and row[3] == "missing" and row[5] == "missing"  # the exit and the average
    assert row[2].startswith("24.95") and row[4].startswith("24.95")
    assert "run mixed-1 (wholly or in part, on valid)" in markdown


def test_a_study_without_any_record_is_a_page_of_missing_notes(small: Path) -> None:
    shutil.rmtree(small / "records")
    html, _ = report(small)
    Page(html)
    assert "<svg" not in html
    # Rows of the paper are there to be filled; only the plan has nothing to miss.
    assert [name for name in SECTIONS if 'class="missing-note"' not in section(html, name)] == ["plan"]


def test_untuned_geometric_runs_are_drawn_as_they_were_trained(small: Path) -> None:
    for path in (small / RUNS).glob("tok-*-geometric*.json"):
        run = read_json(path)
        write_json(path, run | {"measurements": [m for m in run["measurements"] if m["kind"] != "tuned"]})
    html = section(report(small)[0], "figure-3")
    assert ">Tok-C geometric</text>" in html and "(tuned)</text>" not in html


def test_what_was_not_asked_for_is_not_shown(small: Path) -> None:
    change(small / "study.json", "experiments", to=["table2", "cost"])
    html, _ = report(small)
    assert re.findall(r'<section id="(.*?)"', html) == ["agreement", "table-2-valid", "table-2-test", "cost", "plan"]
    assert "claims: records/trends.json has none for these experiments." in html
    change(small / "study.json", "experiments", to=["all"])
    assert re.findall(r'<section id="(.*?)"', report(small)[0]) == SECTIONS


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_an_experiment_alone_misses_nothing_that_it_does_not_need(small: Path, experiment: str) -> None:
    change(small / "study.json", "experiments", to=[experiment])
    html, _ = report(small)
    wanted = [name for name in SECTIONS if name not in ("agreement", "plan")]
    for name in wanted:
        if f'<section id="{name}"' in html:
            assert 'class="missing-note"' not in section(html, name)


def test_rivals_alone_do_not_ask_for_halting_runs_or_depths_in_between(tmp_path: Path) -> None:
    folder = write_study(tmp_path)
    change(folder / "study.json", "experiments", to=["rivals"])
    for path in (folder / RUNS).iterdir():
        if path.stem.startswith(("tok-", "seq-", "baseline-4", "baseline-5")):
            path.unlink()
    assert 'class="missing-note"' not in section(report(folder)[0], "rivals")


def test_failed_and_waiting_steps_are_told_at_the_top(small: Path) -> None:
    change(small / "study.json", "steps", 0, "state", to="failed")
    change(small / "study.json", "steps", 0, "reason", to="the loss is <NaN>")
    change(small / "study.json", "steps", 1, "state", to="waiting")
    change(small / "study.json", "steps", 2, "state", to="blocked")
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
    assert "<summary>The unfinished steps</summary>" in report(small)[0]


# --- text of any kind ---------------------------------------------------------------------------------------------------------------

NASTY = "</script><script>alert('x')</script> & \"quoted\" | `tick` *star* _under_ [link](x) \u202eright\nto left <img src=x>"


def test_text_is_escaped_wherever_it_comes_from(small: Path) -> None:
    change(small / "study.json", "title", to=NASTY)
    change(small / "study.json", "command", to=NASTY)
    change(small / "study.json", "machine", "processor", to=NASTY)
    change(small / "study.json", "steps", 0, "reason", to=NASTY)
    change(small / "records/trends.json", "trends", 0, "claim", to=NASTY)
    change(small / "records/trends.json", "trends", 0, "basis", to=NASTY)
    change(small / "records/trends.json", "trends", 0, "remark", to=NASTY)
    change(small / "records/tokens.json", "samples", 0, "source", to=NASTY)
    change(small / "records/tokens.json", "samples", 0, "tokens", 0, to=NASTY)
    change(small / "records/positions.json", "models", 0, "policy", to=NASTY)
    change(small / RUNS / "aligned.json", "settings", to={NASTY: NASTY})
    (small / "records/cost.json").unlink()
    html, markdown = report(small)
    shown = Page(html)
    assert html.count("<script>") == 1 and "img" not in shown.tags
    assert " ".join(NASTY.split()) in shown.text
    for path in (small / "pictures").iterdir():
        ElementTree.fromstring(path.read_text(encoding="utf-8"))
    outside_code = re.sub(r"(`+).*?\1", "", markdown)
    assert "<script" not in outside_code and "<img" not in outside_code


def test_every_row_of_a_markdown_table_has_as_many_cells_as_its_head(small: Path) -> None:
    change(small / "records/trends.json", "trends", 0, "claim", to=NASTY)
    change(small / RUNS / "aligned.json", "settings", to={"a|b": "c|`d`"})
    for block in re.findall(r"(?:^\|.*\n)+", report(small)[1], flags=re.M):
        lines = block.splitlines()
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in lines}
        assert len(counts) == 1 and len(lines) >= 3, lines[0]


def test_sentences_of_any_script_stand_in_both_files(page: str, finished: Path) -> None:
    markdown = (finished / "report.md").read_text(encoding="utf-8")
    for words in ("子供たちが雪の中で遊んでいる。", "أطفال يلعبون في الثلج"):
        assert f'<bdi dir="auto">{words}</bdi>' in page
        assert words in markdown
    assert "Drei &lt;Kinder&gt; &amp; &quot;ein&quot; Schnee" in page
    assert r"Drei &lt;Kinder&gt; &amp; &quot;ein&quot; Schnee spielen \| neben \*einem\* gefrorenen See." in markdown.replace('"', "&quot;")


def test_markdown_shows_every_picture_and_all_of_its_links_lead_somewhere(finished: Path) -> None:
    markdown = (finished / "report.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[.*?\]\((pictures/.*?)\)", markdown)
    assert {Path(path).stem for path in shown} == PICTURES
    assert all((finished / path).is_file() for path in shown)
    assert set(re.findall(r"\]\(#(.*?)\)", markdown)) == set(re.findall(r'<a id="(.*?)">', markdown)) == set(SECTIONS)


def test_points_tell_series_policy_and_figures(page: str) -> None:
    tips = Page(section(page, "figure-3")).tips
    told = next(tip for tip in tips if tip.startswith("Confidence (aligned)"))
    assert "policy confidence:0.5,0.5,0.5,0.5,0.5\n" in told
    assert re.search(r"\nBLEU \d+\.\d\d \(\d+\.\d\d to \d+\.\d\d; 95% bootstrap over sentences\)\naverage exit 1\.83\n", told)


def test_the_paper_s_stated_points_stand_beside_the_figures(page: str) -> None:
    third = Page(section(page, "figure-3"))
    rows = {row[0]: row[1:] for row in third.table("Points that the paper states (IWSLT'14")}
    assert rows["Tok-C geometric, best comparable"] == ["1.97", "34.99"]
    assert rows["Aligned, its best exit"] == ["5", "34.95"]
    assert "table 2 has 34.6" in third.text
    fifth = Page(section(page, "figure-5")).table("Points that the paper states (WMT'14")
    assert ["1.42", "34.73"] in rows.values() and [row[1:] for row in fifth[1:]] == [["2.40", "43.4"], ["3.25", "43.6"], ["2.5", "43.4"]]
    assert "another data set and another scale" in third.text
    assert "about 1%" in Page(section(page, "cost")).text


def test_figure_3_leaves_wider_kernels_to_figure_4(page: str) -> None:
    assert "tok-ll-geometric-l0.1-s1" not in section(page, "figure-3")
    assert "tok-ll-geometric-l0.1-s1" in section(page, "figure-4")


def test_every_section_has_its_recipe(page: str) -> None:
    for name in SECTIONS[:-1]:
        shown = Page(section(page, name)).text
        for words in ("0123456789abcdef", "c869c8e0123", "Some Processor 3000", COMMAND):
            assert words in shown, (name, words)
    assert "nrefs:1|case:mixed" in section(page, "figure-5") and "beam 5" in section(page, "rivals")
