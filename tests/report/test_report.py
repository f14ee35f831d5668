"""The whole report from a synthetic study: one safe page, its Markdown twin and its pictures."""

import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from report.pages import Page, section
from report.reports import PICTURES, RUNS, SECTIONS, page_of, quiet, report, written_report
from report.studies import COMMAND, change, read_json, write_json, write_study

from anydepth.errors import UsageError
from anydepth.figures.svg import standalone
from anydepth.report.document import pictures
from anydepth.report.markdown import markdown_text
from anydepth.report.page import page_html
from anydepth.report.report import make_document, write_report
from anydepth.report.study_records import read_study


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
    within = {reference.removeprefix("#") for _, reference in shown.references}
    assert within <= set(shown.ids) and {name for name in within if name.rpartition("-")[0] not in PICTURES} == set(
        SECTIONS
    )


def test_the_page_needs_nothing_beside_itself(page: str) -> None:
    shown = Page(page)
    assert not shown.tags & {"link", "img", "iframe", "object", "embed", "source", "video", "audio", "base"}
    assert (
        "http:" not in page
        and "https:" not in page
        and "@import" not in page
        and "//" not in re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    )
    assert {target[:1] for target in re.findall(r"url\((.*?)\)", page)} == {"#"}
    assert {target[1:] for target in re.findall(r"url\((.*?)\)", page)} <= set(shown.ids)
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
def test_the_same_records_make_the_same_words_and_pictures(tmp_path: Path, blocks: int) -> None:
    first, second = (make_document(read_study(write_study(tmp_path / name, blocks=blocks))) for name in ("one", "two"))
    assert first == second
    html = page_html(first)
    Page(html)
    assert html == page_html(second)


def test_what_is_written_is_the_document(finished: Path, page: str) -> None:
    document = make_document(read_study(finished))
    assert (page, (finished / "report.md").read_text(encoding="utf-8")) == (
        page_html(document),
        markdown_text(document),
    )
    drawn = {
        f"{picture.name}.svg": picture.svg for section in document.sections for picture in pictures(section.blocks)
    }
    written = {path.name: path.read_text(encoding="utf-8") for path in (finished / "pictures").iterdir()}
    assert written == {name: standalone(svg) for name, svg in drawn.items()}


def test_only_study_json_and_records_are_read(small: Path, tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    shutil.copy(small / "study.json", tmp_path / "alone")
    shutil.copytree(small / "records", tmp_path / "alone" / "records")
    (small / "runs").mkdir()
    (small / "runs" / "aligned.json").write_text("not JSON")
    assert report(tmp_path / "alone") == report(small)


def test_another_place_gets_the_report_and_the_study_stays_as_it_was(small: Path, tmp_path: Path) -> None:
    change(small / "study.json", "experiments", to=["figure4"])
    before = sorted(path.relative_to(small) for path in small.rglob("*"))
    said: list[str] = []
    write_report(small, to=tmp_path / "deep" / "place", say=said.append)
    assert sorted(path.relative_to(small) for path in small.rglob("*")) == before
    assert {path.name for path in (tmp_path / "deep" / "place").iterdir()} == {"report.html", "report.md", "pictures"}
    assert said == [
        f"wrote {tmp_path / 'deep' / 'place' / 'report.html'}, {tmp_path / 'deep' / 'place' / 'report.md'} "
        "and 2 pictures"
    ]


def test_a_place_that_cannot_be_written_is_refused(small: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    change(small / "study.json", "experiments", to=["cost"])
    with pytest.raises(UsageError, match=re.escape(f"cannot write to {tmp_path / 'file'}: ")):
        write_report(small, to=tmp_path / "file", say=quiet)


def test_a_picture_that_is_no_longer_made_goes_and_a_stranger_stays(small: Path) -> None:
    change(small / "study.json", "experiments", to=["figures6-9"])
    written_report(small)
    stranger = small / "pictures" / "mine.svg"
    stranger.write_text("<svg/>")
    (small / "records" / "tokens.json").unlink()
    written_report(small)
    names = {path.stem for path in (small / "pictures").iterdir()}
    assert names == {f"figure-{figure}-{place}" for figure in (8, 9) for place in (1, 2, 3)} | {"mine"}


NASTY = (
    "</script><script>alert('x')</script> & \"quoted\" | `tick` *star* _under_ [link](x) \u202eright\nto "
    "left <img src=x>"
)


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
    html, markdown = written_report(small)
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
    assert "Drei &lt;Kinder&gt; &amp; &#34;ein&#34; Schnee" in page
    assert (
        r"Drei &lt;Kinder&gt; &amp; &quot;ein&quot; Schnee spielen \| neben \*einem\* gefrorenen See."
        in markdown.replace('"', "&quot;")
    )


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
    assert re.search(
        r"\nBLEU \d+\.\d\d \(\d+\.\d\d to \d+\.\d\d; 95% bootstrap over sentences\)\naverage exit 1\.83\n", told
    )


def test_the_paper_s_stated_points_stand_beside_the_figures(page: str) -> None:
    third = Page(section(page, "figure-3"))
    rows = {row[0]: row[1:] for row in third.table("Points that the paper states (IWSLT'14")}
    assert rows["Tok-C geometric, best comparable"] == ["1.97", "34.99"]
    assert rows["Aligned, its best exit"] == ["5", "34.95"]
    assert "table 2 has 34.6" in third.text
    fifth = Page(section(page, "figure-5")).table("Points that the paper states (WMT'14")
    assert ["1.42", "34.73"] in rows.values() and [row[1:] for row in fifth[1:]] == [
        ["2.40", "43.4"],
        ["3.25", "43.6"],
        ["2.5", "43.4"],
    ]
    assert "another data set and another scale" in third.text
    assert "about 1%" in Page(section(page, "cost")).text


def test_figure_3_leaves_wider_kernels_to_figure_4(page: str) -> None:
    assert "tok-ll-geometric-l0.1-s1" not in section(page, "figure-3")
    assert "tok-ll-geometric-l0.1-s1" in section(page, "figure-4")


def confidence_rows(small: Path, figures: list[tuple[float, float, float | None]]) -> tuple[list[tuple[str, str]], str]:
    """(BLEU, MFLOPs) of the confidence points that the rivals show and the section's words, from
    (MFLOPs, BLEU on test, BLEU on valid)."""
    path = small / RUNS / "aligned.json"
    run = read_json(path)
    tuned = [m for m in run["measurements"] if m["kind"] == "tuned"]
    for measured, (mflops, test, valid) in zip(tuned, figures, strict=True):
        measured |= {"mflops_per_token": mflops, "bleu": test, "low": test, "high": test, "valid_bleu": valid}
    write_json(path, run)
    change(small / "study.json", "experiments", to=["rivals"])
    shown = Page(section(page_of(small), "rivals"))
    return [(row[3], row[6]) for row in shown.table("All systems on test") if row[0] == "Confidence"], shown.text


def test_rivals_show_only_tuned_points_that_no_other_of_their_series_beats_on_valid(small: Path) -> None:
    """Points of (MFLOPs, BLEU on valid): (1, 20) and (3, 22) stay; (2, 19) is beaten by the first
    and (4, 22) by the second.

    On test it is the other way round, and does not matter.
    """
    rows, words = confidence_rows(small, [(4.0, 31.0, 22.0), (1.0, 25.0, 20.0), (3.0, 24.0, 22.0), (2.0, 32.0, 19.0)])
    assert rows == [("25.00 ±0.00", "1.00"), ("24.00 ±0.00", "3.00")]
    assert (
        "Of Confidence and Tok-C geometric (tuned) and Tok-LL geometric (tuned) only those tuned points are "
        "shown that no other" in words
    )
    assert "equals or beats in BLEU on valid at no more MFLOPs" in words and "all points are shown" not in words


def test_rivals_show_every_tuned_point_where_no_bleu_on_valid_is_stored(small: Path) -> None:
    rows, words = confidence_rows(small, [(4.0, 31.0, 22.0), (1.0, 25.0, 20.0), (3.0, 24.0, 22.0), (2.0, 32.0, None)])
    assert [mflops for _, mflops in rows] == ["4.00", "1.00", "3.00", "2.00"]
    assert "Of Confidence all points are shown: no BLEU on valid is stored to choose by." in words
    assert "Of Tok-C geometric (tuned) and Tok-LL geometric (tuned) only those tuned points are shown" in words


def test_speed_is_left_to_bench(page: str, finished: Path) -> None:
    markdown = (finished / "report.md").read_text(encoding="utf-8")
    for words in (page, markdown):
        assert "tokens/s" not in words and "tokens a second" not in words and "against speed" not in words
    assert "Speed is for anydepth bench , which runs alone." in Page(section(page, "rivals")).text
    assert "Speed is for `anydepth bench`, which runs alone." in markdown


def test_the_control_is_a_line_beside_aligned_in_every_picture_of_halting_runs(page: str) -> None:
    for name in ("figure-3a", "figure-3b", "figure-3c", "figure-5a", "figure-5b", "rivals-flops", "seq-bleu-exits"):
        picture = page[page.index(f'<figure id="{name}"') :].partition("</figure>")[0]
        assert ">Aligned</text>" in picture and ">Aligned, continued</text>" in picture
        assert picture.count("<title>Aligned, continued (aligned-continued)") == 6
    for name in ("figure-3", "figure-5", "rivals", "seq-bleu"):
        told = (
            "Halting runs had 400 updates more than the aligned and baseline runs; Aligned, continued shows what "
            "those updates alone give"
        )
        assert f"{told} (the paper has no such control)." in Page(section(page, name)).text


def test_each_rate_of_layerdrop_is_a_line(page: str) -> None:
    rows = [row for row in Page(section(page, "rivals")).table("All systems on test") if row[0].startswith("LayerDrop")]
    assert [(row[0], row[1], row[2]) for row in rows] == [
        (f"LayerDrop {rate}, cut at n", f"rival-layerdrop-{rate}", f"fixed:{n}")
        for rate in ("0.2", "0.5")
        for n in range(1, 7)
    ]
    assert rows[0][3].startswith("23.21") and rows[6][3].startswith("22.91")
    assert ">LayerDrop 0.2, cut at n</text>" in page and ">LayerDrop 0.5, cut at n</text>" in page


@pytest.mark.parametrize(("figure", "name"), [("figure-8", "positions"), ("figure-9", "scores")])
def test_panels_are_depths_of_one_run_and_not_models(page: str, small: Path, figure: str, name: str) -> None:
    shown = section(page, figure)
    assert re.findall("<figcaption>(.*?)</figcaption>", shown) == ["AE 1.30", "AE 1.60", "AE 1.90"]
    told = (
        "The 3 panels are operating points (depths) of one run, tok-ll-geometric-l0.1 . The paper shows "
        "three models instead."
    )
    assert told in Page(shown).text and "Model 1" not in page
    change(small / "study.json", "experiments", to=["figures6-9"])
    change(small / f"records/{name}.json", "models", 2, "run", to="seq-ll-l1")
    other = section(page_of(small), figure)
    titles = ["AE 1.30 (tok-ll-geometric-l0.1)", "AE 1.60 (tok-ll-geometric-l0.1)", "AE 1.90 (seq-ll-l1)"]
    assert re.findall("<figcaption>(.*?)</figcaption>", other) == titles
    assert (
        "Each panel is a run with a policy: tok-ll-geometric-l0.1, seq-ll-l1. The paper shows three models instead."
        in Page(other).text
    )


def test_a_long_remark_has_its_column_s_name_for_the_narrow_view(page: str) -> None:
    shown = section(page, "agreement")
    assert '<td role="cell" data-column="remark">The models are small' in shown
    assert "mean of 3 seeds (1, 2, 3); the interval covers" in Page(shown).text
    columns = ["verdict", "paper", "ours", "difference (95% interval)", "remark"]
    assert re.findall('data-column="(.*?)"', shown) == columns * 6
    assert "content: attr(data-column)" in page and page.count('role="rowheader"') == 6


def test_every_section_has_its_recipe(page: str) -> None:
    for name in SECTIONS[:-1]:
        shown = Page(section(page, name)).text
        for words in ("0123456789abcdef", "c869c8e0123", "Some Processor 3000", COMMAND):
            assert words in shown, (name, words)
    assert "nrefs:1|case:mixed" in section(page, "figure-5") and "beam 5" in section(page, "rivals")


def recipe_of(html: str) -> tuple[dict[str, str], list[list[str]]]:
    """The facts of table 1's recipe, and its table of runs."""
    shown = section(html, "table-1")
    facts = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", shown.partition("<summary>Recipe")[2]))
    return facts, Page(shown).table("The runs behind it")


def test_a_recipe_tells_once_what_all_runs_share_and_by_run_what_differs(small: Path) -> None:
    change(small / "study.json", "experiments", to=["table1"])
    facts, rows = recipe_of(page_of(small))
    assert (facts["revision"], facts["threads"], facts["training seed"]) == ("c869c8e0123", "1", "1")
    assert not {"revision", "threads", "training seed"} & set(rows[0])
    change(small / RUNS / "mixed-1.json", "revision", to="abcdef0")
    change(small / RUNS / "mixed-2.json", "threads", to=3)
    change(small / RUNS / "aligned.json", "training_seed", to=77)
    facts, rows = recipe_of(page_of(small))
    assert (facts["revision"], facts["threads"], facts["training seed"]) == ("see the runs",) * 3
    assert rows[0][4:8] == ["revision", "threads", "training seed", "seed"]
    told = {row[0]: tuple(row[4:7]) for row in rows[1:]}
    assert told["aligned"] == ("c869c8e0123", "1", "77")
    assert (told["mixed-1"], told["mixed-2"]) == (("abcdef0", "1", "1"), ("c869c8e0123", "3", "1"))


def test_runs_without_a_stored_revision_have_that_of_the_study_and_unknown_of_their_own(small: Path) -> None:
    change(small / "study.json", "experiments", to=["table1"])
    change(small / "study.json", "versions", "revision", to="abcdef0")
    for path in (small / RUNS).iterdir():
        run = read_json(path)
        write_json(
            path, {key: value for key, value in run.items() if key not in ("revision", "threads", "training_seed")}
        )
    html = page_of(small)
    facts, _ = recipe_of(html)
    assert (facts["revision"], facts["threads"], facts["training seed"]) == ("unknown",) * 3
    assert facts["study"].startswith("revision abcdef0, anydepth 0.5.0")
    assert "Data de-en 0123456789abcdef · revision abcdef0 · seed 1" in section(html, "table-1")
