"""The section of the race: its words, its tables and its picture, from invented heats."""

import re
from pathlib import Path

import pytest
from experiments.races import Invented, write_heat
from report.pages import Page
from report.reports import page_of, report
from report.studies import change

from anydepth.errors import UsageError
from anydepth.experiments.race_findings import race_findings
from anydepth.experiments.race_records import CellRecord, ContestantKind, EqualBleuRecord, SpreadRecord
from anydepth.experiments.records import write_record
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.verdicts import Verdict
from anydepth.report.race_section import worth_line

SELDOM, OFTEN = 30, 3
CONTESTANTS = (
    Invented("fixed", "fixed:4", SELDOM, (10.0, 10.0, 10.0), 90.0),
    Invented("fixed", "fixed:2", OFTEN, (4.0, 4.0, 4.0), 70.0),
    Invented("tuned", "confidence:0.5,0.5,0.5", SELDOM, (3.0, 3.5, 2.5), 90.0),
    Invented("plain", "fixed:2", SELDOM, (6.0, 6.0, 6.0), 90.0, blocks=2),
    Invented("deep encoder", "fixed:1", OFTEN, (2.0, 2.0, 2.0), 75.0, blocks=1, system="ctranslate2"),
)


@pytest.fixture
def raced(small: Path) -> Path:
    """A study whose race ours wins in float32 and loses in 8 bits, with its findings."""
    change(small / "study.json", "experiments", to=["race"])
    folder = StudyFolder(small)
    write_heat(folder, *CONTESTANTS, beam=5)
    slow = Invented("tuned", "confidence:0.5,0.5,0.5", SELDOM, (9.0, 9.0, 9.0), 90.0)
    write_heat(folder, *(slow if each.kind == "tuned" else each for each in CONTESTANTS), precision="int8")
    write_record(folder.race_file, race_findings(folder))
    return small


def test_the_words_say_where_adaptive_depth_is_worth_it_and_where_a_shallow_decoder_is(raced: Path) -> None:
    html, markdown = report(raced)
    assert re.findall(r'<section id="(.*?)"', html) == ["race", "plan"]
    assert "Adaptive depth is worth it with fp32, beam 5, batch 1: it has the BLEU of full depth in 0.50 of" in markdown
    worse = "A shallow decoder is worth more with int8, beam 1, batch 1: it has that BLEU in 0.67 of the time of"
    assert worse in markdown
    assert "In the time of fixed exit 2, thresholds gain BLEU in 1 of 2 cells and lose it in 0." in markdown


def test_the_tables_have_both_findings_of_every_cell(raced: Path) -> None:
    page = Page(page_of(raced))
    times = page.table("The time for the BLEU of full depth")
    assert [row[0] for row in times[1:]] == ["fp32, beam 5, batch 1", "int8, beam 1, batch 1"]
    assert [("faster" in row[1], "slower" in row[1], row[2]) for row in times[1:]] == [
        (True, False, "2 blocks"),
        (False, True, "2 blocks"),
    ]
    assert times[1][3].replace(" ", "").startswith("0.500.42to0.58")
    gains = page.table("BLEU in no more time than a fixed exit or a shallow decoder")
    rivals = ["fixed exit 2", "2 blocks"]
    assert [(row[0], row[1]) for row in gains[1:]] == [
        (cell, rival) for cell in ("fp32, beam 5, batch 1", "int8, beam 1, batch 1") for rival in rivals
    ]
    assert "gain" in gains[1][2]
    assert "No tuned point is as fast." in gains[3][-1]


def test_the_picture_has_a_panel_for_each_cell_and_every_contestant_tells_its_values(raced: Path) -> None:
    (svg,) = re.findall(r"<svg .*?</svg>", page_of(raced), flags=re.S)
    assert "fp32, beam 5, batch 1" in svg
    assert "int8, beam 1, batch 1" in svg
    assert svg.count('class="point"') == 2 * len(CONTESTANTS)
    assert "BLEU " in svg
    assert "3.00 ms per sentence" in svg


def test_what_is_not_there_is_told_with_the_command_that_makes_it(raced: Path) -> None:
    (raced / "records" / "race.json").unlink()
    assert "Missing: records/race.json, what the race shows." in Page(page_of(raced)).text
    for file in (raced / "records" / "race").iterdir():
        file.unlink()
    assert "Missing: records/race, the figures of the contestants." in Page(page_of(raced)).text


def test_a_precision_that_no_engine_has_is_told_with_its_reason(raced: Path) -> None:
    folder = StudyFolder(raced)
    heat = write_heat(folder, precision="int8", beam=5)
    write_record(folder.heat_record(heat.name), heat.model_copy(update={"remark": "there is no engine for it"}))
    assert "int8-beam-5: there is no engine for it" in Page(page_of(raced)).text


def test_all_does_not_ask_for_a_race(raced: Path) -> None:
    change(raced / "study.json", "experiments", to=["all"])
    assert '<section id="race"' not in page_of(raced)


def test_a_heat_whose_rounds_do_not_match_is_refused_by_name(raced: Path) -> None:
    file = raced / "records" / "race" / "fp32-beam-5.json"
    change(file, "contestants", 0, "laps", 0, "milliseconds", to=[1.0])
    with pytest.raises(UsageError, match=r"fp32-beam-5\.json is no record .* 1 rounds end to end are 3 in decoding"):
        page_of(raced)


def test_a_contestant_that_was_not_timed_with_every_batch_size_is_refused(raced: Path) -> None:
    change(raced / "records" / "race" / "fp32-beam-5.json", "batches", to=[1, 32])
    with pytest.raises(UsageError, match=r"fixed:4/full has not been timed with the batch sizes \[1, 32\]"):
        page_of(raced)


def found(batch: int, verdict: Verdict, kind: ContestantKind = "fixed", ratio: float = 2.0) -> EqualBleuRecord:
    return EqualBleuRecord(
        cell=CellRecord(precision="fp32", beam=1, batch=batch),
        rival_kinds=[kind],
        ratio=SpreadRecord(median=ratio, low=ratio, high=ratio),
        verdict=verdict,
    )


def test_every_verdict_and_every_kind_of_rival_has_its_words() -> None:
    line = worth_line(
        [
            found(1, "agree", ratio=0.5),
            found(2, "agree", ratio=0.8),
            found(3, "disagree"),
            found(4, "disagree", "plain", 4.0),
            found(5, "disagree", "deep encoder"),
            found(6, "within noise"),
            found(7, "not comparable"),
        ]
    )
    cell = "fp32, beam 1, batch {}".format
    assert line.startswith(
        f"Adaptive depth is worth it with {cell(1)}; {cell(2)}: it has the BLEU of full depth in 0.50"
    )
    assert " 0.50 to 0.80 of the time of the fastest rival" in line
    assert f"A fixed exit of the same model is worth more with {cell(3)}: it has that BLEU in 0.50 of" in line
    assert f"A shallow decoder is worth more with {cell(4)}: it has that BLEU in 0.25 of" in line
    assert f"A deep encoder with a decoder of one block is worth more with {cell(5)}:" in line
    assert f"Neither is shown to be faster with {cell(6)}." in line
    assert f"No thresholds have the BLEU of full depth with {cell(7)}." in line
