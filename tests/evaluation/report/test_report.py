"""The whole report from a synthetic study: one safe page, its Markdown twin and its pictures."""

import re
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from evaluation.report.pages import Page, section
from evaluation.report.reports import PICTURES, RUNS, SECTIONS, quiet, report
from evaluation.report.studies import COMMAND, change, read_json, write_json, write_study

from anydepth.errors import UsageError
from anydepth.evaluation.report.report import write_report


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


def test_rivals_show_only_tuned_points_that_no_other_of_their_series_beats(small: Path) -> None:
    """Points of (MFLOPs, BLEU): (1, 20) and (3, 22) stay; (2, 19) is beaten by the first and (4, 22) by the second."""
    path = small / RUNS / "aligned.json"
    run = read_json(path)
    tuned = [m for m in run["measurements"] if m["kind"] == "tuned"]
    for measured, (mflops, bleu) in zip(tuned, [(4.0, 22.0), (1.0, 20.0), (3.0, 22.0), (2.0, 19.0)], strict=True):
        measured |= {"mflops_per_token": mflops, "bleu": bleu, "low": bleu, "high": bleu}
    write_json(path, run)
    change(small / "study.json", "experiments", to=["rivals"])
    rows = Page(section(report(small)[0], "rivals")).table("All systems on test")
    assert [(row[3], row[6]) for row in rows if row[0] == "Confidence"] == [("20.00 ±0.00", "1.00"), ("22.00 ±0.00", "3.00")]


def test_every_section_has_its_recipe(page: str) -> None:
    for name in SECTIONS[:-1]:
        shown = Page(section(page, name)).text
        for words in ("0123456789abcdef", "c869c8e0123", "Some Processor 3000", COMMAND):
            assert words in shown, (name, words)
    assert "nrefs:1|case:mixed" in section(page, "figure-5") and "beam 5" in section(page, "rivals")
