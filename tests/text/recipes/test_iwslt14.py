import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from text.recipes.packing import IWSLT_TESTS, iwslt_files, lines_of, pack

from anydepth import __version__
from anydepth.errors import CorpusError, UsageError
from anydepth.text.recipes import iwslt14
from anydepth.text.recipes.iwslt14 import talk_text, write_iwslt14
from anydepth.text.recipes.writing import Expected, SplitWriter

PAIRS = [(f"Satz Nummer {number}.", f"Sentence number {number}.") for number in range(1, 51)]


def test_lines_about_a_talk_go_and_titles_and_descriptions_stay_without_tags() -> None:
    lines = [
        "<url>http://x.org</url>",
        "Text.",
        "<keywords>a, b</keywords>",
        "<speaker>Anna</speaker>",
        "<talkid>1</talkid>",
        "<title>Anna: Bäume</title>",
        "<description>Über Bäume.</description>",
        "<reviewer>Otto</reviewer>",
        "<translator>Otto</translator>",
        '<doc docid="1">',
        "</doc>",
        " &lt;i&gt;2 < 3 ",
        "",
    ]
    assert list(talk_text(lines)) == ["Text.", "Anna: Bäume", "Über Bäume.", " &lt;i&gt;2 < 3 ", ""]


def test_every_23rd_of_the_kept_pairs_goes_to_valid(tmp_path: Path) -> None:
    unfit = [("eins zwei drei vier", "one"), ("", "empty"), ("nichts", " ")]
    record = write_iwslt14(
        [pack(tmp_path / "de-en.tgz", iwslt_files([*PAIRS[:10], *unfit, *PAIRS[10:]]))], tmp_path / "out"
    )
    assert lines_of(tmp_path / "out" / "valid.de") == ["satz nummer 23 .", "satz nummer 46 ."]
    assert lines_of(tmp_path / "out" / "valid.en") == ["sentence number 23 .", "sentence number 46 ."]
    rest = [number for number in range(1, 51) if number not in (23, 46)]
    assert lines_of(tmp_path / "out" / "train.de") == [f"satz nummer {number} ." for number in rest]
    assert lines_of(tmp_path / "out" / "train.en") == [f"sentence number {number} ." for number in rest]
    assert record.pairs == {"train": 48, "valid": 2, "test": 5}
    assert record.dropped == {"train": {"empty": 2, "unbalanced": 1}, "valid": {}, "test": {}}


def test_filters_hold_at_their_edges_and_for_the_training_text_alone(tmp_path: Path) -> None:
    edges = [
        ("ja " * 175, "yes " * 175),
        ("ja " * 176, "yes " * 175),
        ("ja ja ja", "yes yes"),
        ("ja ja ja ja", "yes " * 7),
    ]
    odd_tests = {"TED.tst2012": [("Ja " * 176, "Yes."), ("Ja.", "Yes indeed, it is so.")]}
    write_iwslt14([pack(tmp_path / "de-en.tgz", iwslt_files([*edges, *PAIRS], odd_tests))], tmp_path / "out")
    assert [len(line.split()) for line in lines_of(tmp_path / "out" / "train.de")][:3] == [175, 3, 4]
    assert lines_of(tmp_path / "out" / "train.de")[2] == "satz nummer 1 ."
    assert lines_of(tmp_path / "out" / "test.en")[-2:] == ["yes .", "yes indeed , it is so ."]


def test_the_five_test_sets_come_in_their_order_with_plain_apostrophes(tmp_path: Path) -> None:
    tests = {"TED.tst2010": [("Ich hab’ &quot;Zeit&quot;.", "It’s time."), ("", "Nothing here.")]}  # noqa: RUF001
    write_iwslt14([pack(tmp_path / "de-en.tgz", iwslt_files(PAIRS, tests))], tmp_path / "out")
    first, second, *rest = IWSLT_TESTS
    assert lines_of(tmp_path / "out" / "test.de") == [
        f"{first} deutsch".lower(),
        f"{second} deutsch".lower(),
        "ich hab &apos; &amp; quot ; zeit &amp; quot ; .",
        "",
        *(f"{name} deutsch".lower() for name in rest[1:]),
    ]
    assert lines_of(tmp_path / "out" / "test.en")[2:4] == ["it &apos;s time .", "nothing here ."]


def test_case_can_be_kept(tmp_path: Path) -> None:
    record = write_iwslt14([pack(tmp_path / "de-en.tgz", iwslt_files(PAIRS))], tmp_path / "out", keep_case=True)
    assert lines_of(tmp_path / "out" / "train.en")[0] == "Sentence number 1 ."
    assert lines_of(tmp_path / "out" / "test.de")[0] == "TED.dev2010 deutsch"
    assert record.settings["lowercase"] is False


def test_several_processes_write_the_same_text(tmp_path: Path) -> None:
    archive = pack(tmp_path / "de-en.tgz", iwslt_files(PAIRS * 30))
    one, two = (write_iwslt14([archive], tmp_path / f"out{jobs}", jobs=jobs) for jobs in (1, 2))
    assert one.files == two.files
    assert one.pairs["train"] + one.pairs["valid"] == 1500


def test_the_record_tells_archive_settings_versions_and_counts(tmp_path: Path) -> None:
    archive = pack(tmp_path / "de-en.tgz", iwslt_files(PAIRS))
    record = write_iwslt14([archive], tmp_path / "out")
    values = json.loads((tmp_path / "out" / "recipe.json").read_text(encoding="utf-8"))
    assert values == json.loads(record.to_json())
    assert values["archives"] == {
        "de-en.tgz": {"size": archive.stat().st_size, "sha256": hashlib.sha256(archive.read_bytes()).hexdigest()}
    }
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == ["recipe.json", "test.de", "test.en", "train.de", "train.en", "valid.de", "valid.en"]
    for name in set(written) - {"recipe.json"}:
        assert values["files"][name]["sha256"] == hashlib.sha256((tmp_path / "out" / name).read_bytes()).hexdigest()
    assert values["recipe"] == "iwslt14"
    assert values["settings"] == {
        "tokenizer": "moses",
        "lowercase": True,
        "max_words": 175,
        "max_ratio": 1.5,
        "valid_every": 23,
        "test_sets": list(IWSLT_TESTS),
    }
    assert values["versions"].keys() == {"anydepth", "python", "sacremoses"}
    assert values["versions"]["anydepth"] == __version__
    assert {split: count["pairs"] for split, count in values["expected"].items()} == {
        "train": 160_239,
        "valid": 7_283,
        "test": 6_750,
    }
    assert values["as_expected"] is False


def test_counts_other_than_the_papers_are_a_warning(tmp_path: Path) -> None:
    reports: list[str] = []
    unfit = [("eins zwei drei vier", "one")]
    write_iwslt14([pack(tmp_path / "de-en.tgz", iwslt_files([*PAIRS, *unfit]))], tmp_path / "out", say=reports.append)
    assert reports[-3:] == [
        "warning: train: 48 pairs (dropped: unbalanced 1), but 160,239 were expected; the archive may be of "
        "another version",
        "warning: valid: 2 pairs, but 7,283 were expected; the archive may be of another version",
        "warning: test: 5 pairs, but 6,750 were expected; the archive may be of another version",
    ]


def test_the_expected_counts_are_confirmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iwslt14, "EXPECTED", {"train": Expected(48), "valid": Expected(2), "test": Expected(6)})
    reports: list[str] = []
    record = write_iwslt14([pack(tmp_path / "de-en.tgz", iwslt_files(PAIRS))], tmp_path / "out", say=reports.append)
    assert reports[-3:-1] == ["train: 48 pairs, as expected", "valid: 2 pairs, as expected"]
    assert reports[-1].startswith("warning: test: 5 pairs, but 6 were expected")
    assert not record.as_expected


def test_lines_are_written_as_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"read": 0, "written": 0, "most": 0}
    plain_text, plain_write = iwslt14.talk_text, SplitWriter.write

    def counted_text(lines: Iterable[str]) -> Iterator[str]:
        for line in plain_text(lines):
            counts["read"] += 1
            counts["most"] = max(counts["most"], counts["read"] - 2 * counts["written"])
            yield line

    def counted_write(self: SplitWriter, split: str, source: str, target: str) -> None:
        plain_write(self, split, source, target)
        counts["written"] += 1

    monkeypatch.setattr(iwslt14, "talk_text", counted_text)
    monkeypatch.setattr(SplitWriter, "write", counted_write)
    write_iwslt14([pack(tmp_path / "de-en.tgz", iwslt_files(PAIRS * 4))], tmp_path / "out")
    assert counts["read"] == 2 * 200
    assert counts["most"] <= 2, "a pair is written before the next one is read"


def test_sides_of_the_training_text_must_have_as_many_lines(tmp_path: Path) -> None:
    files = iwslt_files(PAIRS)
    files["de-en/train.tags.de-en.de"] += b"<url>x</url>\nnoch einer\n"
    with pytest.raises(
        CorpusError, match=r"train\.tags\.de-en\.de has 51 sentences but .*train\.tags\.de-en\.en has 50"
    ):
        write_iwslt14([pack(tmp_path / "de-en.tgz", files)], tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["de-en.tgz"]


def test_sides_of_a_test_set_must_have_as_many_segments(tmp_path: Path) -> None:
    files = iwslt_files(PAIRS)
    files["de-en/IWSLT14.TED.tst2011.de-en.en.xml"] += b'<seg id="2"> More. </seg>\n'
    with pytest.raises(
        CorpusError, match=r"tst2011\.de-en\.de\.xml has 1 sentences but .*tst2011\.de-en\.en\.xml has 2"
    ):
        write_iwslt14([pack(tmp_path / "de-en.tgz", files)], tmp_path / "out")


def test_missing_members_are_named_together(tmp_path: Path) -> None:
    files = iwslt_files(PAIRS)
    del files["de-en/train.tags.de-en.en"], files["de-en/IWSLT14.TEDX.dev2012.de-en.de.xml"]
    with pytest.raises(
        UsageError, match=r"lacks train\.tags\.de-en\.en \(de-en\.tgz\), IWSLT14\.TEDX\.dev2012\.de-en\.de\.xml \(de-en"
    ):
        write_iwslt14([pack(tmp_path / "de-en.tgz", files)], tmp_path / "out")


def test_text_too_short_for_all_splits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="no pair is left for valid; check that the archive has all of its text"):
        write_iwslt14([pack(tmp_path / "de-en.tgz", iwslt_files(PAIRS[:22]))], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_without_sacremoses_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(UsageError, match="needs the package sacremoses"):
        write_iwslt14([tmp_path / "no such archive"], tmp_path / "out")
