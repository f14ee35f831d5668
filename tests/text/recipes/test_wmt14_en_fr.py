from itertools import islice
from pathlib import Path

import pytest
from text.recipes.packing import lines_of, pack, text, wmt_archives

from anydepth.errors import AnydepthError, CorpusError, UsageError
from anydepth.text.recipes.wmt14_en_fr import write_wmt14_en_fr
from anydepth.text.recipes.writing import CorpusRecord

TEST = [("“It’s” well-known.", "C’est «connu»."), ("U.S.", "É.-U.")]  # noqa: RUF001


def corpora(sizes: tuple[int, ...] = (700, 300, 332, 2, 1400)) -> list[list[tuple[str, str]]]:
    """Five corpora of these sizes whose pairs are numbered through."""
    numbers = iter(range(1, sum(sizes) + 1))
    return [[(f"line {number}", f"ligne {number}") for number in islice(numbers, size)] for size in sizes]


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The six archives; of 2,734 pairs the 1,333rd is the first of News Commentary."""
    parts = corpora()
    parts[0][0] = ("“It’s re-run”, 5\u00a0000\x07", "l’eau «\u00a0là\u00a0», 5\u00a0000")  # noqa: RUF001
    parts[0][1] = ("one two three four", "un")
    parts[4][-1] = ("x " * 200, "y " * 200)
    return wmt_archives(tmp_path_factory.mktemp("wmt") / "downloads", parts, TEST)


@pytest.fixture(scope="module")
def made(archives: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CorpusRecord, list[str]]:
    """The folder that the archives give, its record and what was reported."""
    folder, reports = tmp_path_factory.mktemp("made") / "out", list[str]()
    return folder, write_wmt14_en_fr([archives], folder, say=reports.append), reports


def test_every_1333rd_pair_of_all_corpora_is_held_out_before_cleaning(
    made: tuple[Path, CorpusRecord, list[str]],
) -> None:
    folder, record, _ = made
    assert lines_of(folder / "valid.en") == ["line 1333", "line 2666"]
    assert lines_of(folder / "valid.fr") == ["ligne 1333", "ligne 2666"]
    english = lines_of(folder / "train.en")
    assert english[1:] == [f"line {number}" for number in range(3, 2734) if number not in (1333, 2666)]
    assert record.pairs == {"train": 2730, "valid": 2, "test": 2}
    assert record.dropped == {"train": {"too long": 1, "unbalanced": 1}, "valid": {}, "test": {}}
    assert english[0] == "&quot; It &apos;s re @-@ run , &quot; 5.000"
    assert lines_of(folder / "train.fr")[0] == "l&apos; eau &quot; là &quot; , 5,000"


def test_test_text_keeps_its_punctuation_but_for_the_apostrophe(made: tuple[Path, CorpusRecord, list[str]]) -> None:
    assert lines_of(made[0] / "test.en") == ["“ It &apos;s ” well @-@ known .", "U.S ."]
    assert lines_of(made[0] / "test.fr") == ["C&apos; est « connu » .", "É.-U ."]


def test_counts_far_from_those_of_the_paper_are_a_warning(made: tuple[Path, CorpusRecord, list[str]]) -> None:
    reports = made[2]
    assert (
        "warning: train: 2,730 pairs (dropped: too long 1, unbalanced 1), but about 35,482,654 were expected"
        in reports[-3]
    )
    assert "but 3,003 were expected" in reports[-1]
    assert "reading europarl-v7.fr-en.en and europarl-v7.fr-en.fr" in reports
    assert "reading giga-fren.release2.fixed.en.gz and giga-fren.release2.fixed.fr.gz" in reports


def test_longer_sentences_can_be_kept(archives: Path, tmp_path: Path) -> None:
    record = write_wmt14_en_fr([archives], tmp_path / "out", max_words=250)
    assert record.dropped["train"] == {"unbalanced": 1}
    assert record.settings["max_words"] == 250


def test_a_held_out_pair_is_cleaned_too(tmp_path: Path) -> None:
    parts = corpora()
    parts[3][0] = ("one two three four", "un")
    record = write_wmt14_en_fr([wmt_archives(tmp_path / "downloads", parts, TEST)], tmp_path / "out")
    assert lines_of(tmp_path / "out" / "valid.en") == ["line 2666"]
    assert record.dropped["valid"] == {"unbalanced": 1}


def test_archives_may_be_given_one_by_one_and_the_un_corpus_by_its_short_name(archives: Path, tmp_path: Path) -> None:
    renamed = tmp_path / "un.tgz"
    renamed.write_bytes((archives / "training-parallel-un.tgz").read_bytes())
    others = [path for path in archives.iterdir() if path.name != "training-parallel-un.tgz"]
    record = write_wmt14_en_fr([*others, renamed], tmp_path / "out")
    assert record.pairs["train"] == 2730
    assert set(record.archives) == {path.name for path in others} | {"un.tgz"}


def test_all_missing_archives_are_named_in_one_sentence(archives: Path, tmp_path: Path) -> None:
    given = [
        archives / "training-parallel-europarl-v7.tgz",
        archives / "training-giga-fren.tar",
        archives / "test-full.tgz",
    ]
    missing = (
        r"commoncrawl\.fr-en\.en \(training-parallel-commoncrawl\.tgz\), .*\(training-parallel-un\.tgz or "
        r"un\.tgz\), .*nc-v9"
    )
    with pytest.raises(UsageError, match=missing) as caught:
        write_wmt14_en_fr(given, tmp_path / "out")
    assert "europarl" not in str(caught.value).partition(" lacks ")[2]


def test_a_corpus_with_sides_of_different_length_is_named(tmp_path: Path) -> None:
    folder = wmt_archives(tmp_path / "downloads", corpora((3, 3, 3, 3, 3)), TEST)
    files = {"commoncrawl.fr-en.en": text(["a", "b"]), "commoncrawl.fr-en.fr": text(["a"])}
    pack(folder / "training-parallel-commoncrawl.tgz", files)
    with pytest.raises(
        CorpusError, match=r"commoncrawl\.fr-en\.en has 2 sentences but .*commoncrawl\.fr-en\.fr has 1;"
    ):
        write_wmt14_en_fr([folder], tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["downloads"]


def test_a_cut_corpus_inside_the_giga_archive_leaves_nothing(tmp_path: Path) -> None:
    folder = wmt_archives(tmp_path / "downloads", corpora((3, 3, 3, 3, 3)), TEST)
    pack(
        folder / "training-giga-fren.tar",
        {f"giga-fren.release2.fixed.{language}.gz": b"\x1f\x8b\x08cut" for language in ("en", "fr")},
    )
    with pytest.raises(AnydepthError, match=r"training-giga-fren\.tar:giga-fren\.release2\.fixed\.en\.gz is cut short"):
        write_wmt14_en_fr([folder], tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["downloads"]
