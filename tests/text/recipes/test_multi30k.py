import gzip
from pathlib import Path

import pytest
from text.recipes.packing import lines_of, pack, text

from anydepth.errors import UsageError
from anydepth.text.recipes import multi30k
from anydepth.text.recipes.multi30k import write_multi30k
from anydepth.text.recipes.writing import Expected

LINES = {
    "train": ["Ein Hund.", "  Zwei – „Katzen“\u2028 & 'mehr'  ", ""],  # noqa: RUF001
    "valid": ["Drei."],
    "test": ["Vier,", "fünf."],
}


def lines_in(language: str, split: str) -> list[str]:
    return [f"{language}: {line}" if line else "" for line in LINES[split]]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The repository of the dataset in its own layout, with files of other tasks and tests."""
    raw = tmp_path / "dataset" / "data" / "task1" / "raw"
    other = tmp_path / "dataset" / "data" / "task2" / "raw"
    raw.mkdir(parents=True)
    other.mkdir(parents=True)
    for language in ("cs", "de", "en", "fr"):
        for split, stem in (("train", "train"), ("valid", "val"), ("test", "test_2016_flickr")):
            (raw / f"{stem}.{language}.gz").write_bytes(gzip.compress(text(lines_in(language, split))))
        (raw / f"test_2017_flickr.{language}.gz").write_bytes(gzip.compress(b"2017\n"))
        (other / f"train.1.{language}.gz").write_bytes(gzip.compress(b"task 2\n"))
    return tmp_path / "dataset"


@pytest.mark.parametrize("languages", [("de", "en"), ("en", "fr"), ("cs", "de")])
def test_the_repository_gives_its_lines_in_any_two_languages(
    repository: Path, tmp_path: Path, languages: tuple[str, str]
) -> None:
    source, target = languages
    record = write_multi30k([repository], tmp_path / "out", source_lang=source, target_lang=target)
    for split in LINES:
        for language in languages:
            assert lines_of(tmp_path / "out" / f"{split}.{language}") == lines_in(language, split)
    assert record.pairs == {"train": 3, "valid": 1, "test": 2}
    assert record.next.startswith(f"anydepth prepare --source-lang {source} --target-lang {target} --train ")
    assert "sacremoses" not in record.versions
    assert set(record.archives) == {
        f"{stem}.{language}.gz" for stem in ("train", "val", "test_2016_flickr") for language in languages
    }


@pytest.mark.parametrize("test", ["test2016", "test", "test_2016_flickr"])
def test_the_archives_of_the_shared_task_give_the_same(tmp_path: Path, test: str) -> None:
    places = []
    names = (("train", "train", "training"), ("valid", "val", "validation"), ("test", test, "mmt16_task1_test"))
    for split, stem, archive in names:
        files = {f"{stem}.{language}": text(lines_in(language, split)) for language in ("de", "en")}
        places.append(pack(tmp_path / f"{archive}.tar.gz", {f"._{stem}.de": b"\xff", **files}))
    write_multi30k(places, tmp_path / "out")
    for split in LINES:
        assert lines_of(tmp_path / "out" / f"{split}.de") == lines_in("de", split)
        assert lines_of(tmp_path / "out" / f"{split}.en") == lines_in("en", split)


def test_the_official_counts_are_the_expected_ones(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {split: expected.pairs for split, expected in multi30k.EXPECTED.items()} == {
        "train": 29_000,
        "valid": 1_014,
        "test": 1_000,
    }
    monkeypatch.setattr(multi30k, "EXPECTED", {"train": Expected(3), "valid": Expected(1), "test": Expected(2)})
    reports: list[str] = []
    assert write_multi30k([repository], tmp_path / "out", say=reports.append).as_expected
    assert reports[-3:] == ["train: 3 pairs, as expected", "valid: 1 pairs, as expected", "test: 2 pairs, as expected"]


def test_sides_of_two_different_test_sets_are_not_put_together(repository: Path, tmp_path: Path) -> None:
    (repository / "data" / "task1" / "raw" / "test_2016_flickr.en.gz").unlink()
    (repository / "test.en").write_bytes(text(lines_in("en", "test")))
    with pytest.raises(
        UsageError, match=r"test_2016_flickr\.de\.gz and .*test\.en are not two sides of one text; give archives that"
    ):
        write_multi30k([repository], tmp_path / "out")


def test_a_language_without_files_is_named_with_all_that_is_missing(tmp_path: Path) -> None:
    archive = pack(tmp_path / "training.tar.gz", {"train.de": b"x\n", "train.en": b"x\n"})
    with pytest.raises(
        UsageError, match=r"lacks val\.de \(validation\.tar\.gz\), val\.en .*, test_2016_flickr\.de \(mmt16_task1_test"
    ):
        write_multi30k([archive], tmp_path / "out")


@pytest.mark.parametrize("language", ["es", "../../etc/passwd", ""])
def test_a_language_that_multi30k_lacks_is_refused(tmp_path: Path, language: str) -> None:
    with pytest.raises(UsageError, match=r"Multi30k is in cs, de, en, fr but not in '.*'; choose two of these"):
        write_multi30k([tmp_path], tmp_path / "out", target_lang=language)


def test_two_languages_must_differ(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="source and target language are both 'de'; name two different ones"):
        write_multi30k([tmp_path], tmp_path / "out", target_lang="de")
