import gzip
import io
import tarfile
from pathlib import Path

import pytest
from text.recipes.packing import pack

from anydepth.errors import AnydepthError, CorpusError, UsageError
from anydepth.messages.say import say_nothing
from anydepth.text.recipes.archives import TextFile, WantedFile, find_files

WANTED = [WantedFile(("a.de", "a.de.gz"), ("x.tgz",)), WantedFile(("a.en", "a.en.gz"), ("x.tgz", "y.tgz"))]
FILES = {"deep/a.de": b"eins\nzwei\n", "deep/a.en": b"one\ntwo\n", "other": b"no\n"}


def found(*places: Path) -> list[list[str]]:
    """The lines of the wanted files that are found at `places`."""
    return [list(file.lines()) for file in find_files(places, WANTED, say=say_nothing)]


@pytest.mark.parametrize("name", ["x.tgz", "x.tar", "renamed by the user"])
def test_files_are_found_in_an_archive_of_any_name_and_in_any_of_its_folders(tmp_path: Path, name: str) -> None:
    assert found(pack(tmp_path / name, FILES)) == [["eins", "zwei"], ["one", "two"]]


def test_a_folder_gives_plain_files_and_those_of_its_official_archives_alone(tmp_path: Path) -> None:
    folder = tmp_path / "downloads" / "here"
    folder.mkdir(parents=True)
    pack(folder / "y.tgz", {"a.en": b"one\n"})
    (folder / "a.de.gz").write_bytes(gzip.compress(b"eins\n"))
    (folder / "holiday.tgz").write_bytes(b"not even an archive")
    assert found(tmp_path / "downloads") == [["eins"], ["one"]]


def test_single_files_may_be_given_and_the_same_place_twice(tmp_path: Path) -> None:
    (tmp_path / "a.de").write_bytes(b"eins\n")
    archive = pack(tmp_path / "z.tgz", {"a.en": b"one\n"})
    assert found(archive, tmp_path / "a.de", archive, tmp_path / "." / "z.tgz") == [["eins"], ["one"]]


def test_the_first_of_several_names_counts(tmp_path: Path) -> None:
    archive = pack(tmp_path / "x.tgz", {"a.de.gz": gzip.compress(b"packed\n"), "a.de": b"plain\n", "a.en": b"one\n"})
    assert found(archive) == [["plain"], ["one"]]


def test_a_packed_file_in_an_archive_is_unpacked_on_the_way(tmp_path: Path) -> None:
    archive = pack(tmp_path / "x.tar", {"a.de.gz": gzip.compress(b"eins\n"), "a.en": b"one\n"})
    assert found(archive) == [["eins"], ["one"]]


def test_names_that_point_outside_are_read_and_never_written(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    archive = pack(inside / "x.tgz", {"../../a.de": b"eins\n", "/etc/a.en": b"one\n"})
    before = sorted(tmp_path.rglob("*"))
    assert found(archive) == [["eins"], ["one"]]
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE],
    ids=["symlink", "hard link", "pipe", "folder"],
)
def test_links_and_other_oddities_in_an_archive_are_no_files(tmp_path: Path, kind: bytes) -> None:
    (tmp_path / "secret").write_bytes(b"secret\n")
    with tarfile.open(tmp_path / "x.tgz", "w:gz") as archive:
        odd = tarfile.TarInfo("a.de")
        odd.type, odd.linkname = kind, str(tmp_path / "secret")
        archive.addfile(odd)
        info = tarfile.TarInfo("a.en")
        info.size = 4
        archive.addfile(info, io.BytesIO(b"one\n"))
    with pytest.raises(UsageError, match=r"x\.tgz lacks a\.de \(x\.tgz\); give every archive"):
        found(tmp_path / "x.tgz")


def test_all_missing_files_are_named_at_once_with_their_archives(tmp_path: Path) -> None:
    archive = pack(tmp_path / "x.tgz", {"other": b"no\n", "a.de.bak": b"no\n"})
    with pytest.raises(
        UsageError,
        match=r"x\.tgz lacks a\.de \(x\.tgz\), a\.en \(x\.tgz or y\.tgz\); give every archive with --archive",
    ):
        found(archive)


def test_a_file_that_is_there_twice_is_refused_with_both_places(tmp_path: Path) -> None:
    pack(tmp_path / "x.tgz", FILES)
    pack(tmp_path / "y.tgz", {"b/a.en": b"uno\n"})
    with pytest.raises(
        UsageError, match=r"a\.en is there 2 times \(.*x\.tgz:deep/a\.en, .*y\.tgz:b/a\.en\); give the one"
    ):
        found(tmp_path)


def test_a_place_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no .*none\.tgz; give the archive"):
        found(tmp_path / "none.tgz")


@pytest.mark.parametrize(
    "contents",
    [b"", b"PK\x03\x04 a zip, say", gzip.compress(b"no tar inside")],
    ids=["nothing", "zip", "gzip without tar"],
)
def test_what_is_no_tar_archive_is_refused_in_one_line(tmp_path: Path, contents: bytes) -> None:
    (tmp_path / "x.tgz").write_bytes(contents)
    with pytest.raises(
        AnydepthError, match=r"x\.tgz is cut short, damaged or no tar archive; download it again$"
    ) as caught:
        found(tmp_path / "x.tgz")
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("name", ["x.tgz", "x.tar"])
def test_an_archive_cut_anywhere_in_its_files_is_found_out_before_they_are_used(tmp_path: Path, name: str) -> None:
    whole = pack(tmp_path / name, {"a.de": bytes(range(256)) * 40, "a.en": bytes(range(255, -1, -1)) * 40}).read_bytes()
    for share in (0.05, 0.4, 0.69, 0.95 if name == "x.tgz" else 0.6):  # the last third of the plain archive is padding
        (tmp_path / name).write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(AnydepthError, match="is cut short"):
            find_files([tmp_path / name], WANTED, say=say_nothing)


def test_a_wrong_checksum_at_the_end_of_an_archive_is_found_out(tmp_path: Path) -> None:
    archive = pack(tmp_path / "x.tgz", FILES)
    whole = bytearray(archive.read_bytes())
    whole[-6] ^= 1
    archive.write_bytes(whole)
    with pytest.raises(AnydepthError, match="is cut short, damaged"):
        found(archive)


def test_a_cut_packed_file_inside_a_sound_archive_is_named(tmp_path: Path) -> None:
    archive = pack(tmp_path / "x.tar", {"a.de.gz": gzip.compress(b"eins\n" * 1000)[:-9], "a.en": b"one\n"})
    with pytest.raises(AnydepthError, match=r"x\.tar:a\.de\.gz is cut short"):
        found(archive)


def test_text_that_is_not_utf8_is_named_with_file_and_line(tmp_path: Path) -> None:
    archive = pack(tmp_path / "x.tgz", {"deep/a.de": b"eins\ngr\xfcn\n", "a.en": b"one\n"})
    with pytest.raises(
        CorpusError, match=r"x\.tgz:deep/a\.de line 2 is not valid UTF-8 \(byte 0xFC at byte 3 of the line\)"
    ):
        found(archive)


def test_an_archive_that_changes_between_looking_and_reading_is_noticed(tmp_path: Path) -> None:
    archive = pack(tmp_path / "x.tgz", FILES)
    file, _ = find_files([archive], WANTED, say=say_nothing)
    pack(archive, {"other": b"no\n"})
    with pytest.raises(AnydepthError, match=r"x\.tgz:deep/a\.de is no longer there; leave the archive alone"):
        list(file.lines())


def test_a_file_that_cannot_be_read_is_no_failure_to_write(tmp_path: Path) -> None:
    with pytest.raises(AnydepthError, match=r"cannot read .*gone: No such file or directory; check the path"):
        list(TextFile(tmp_path / "gone").lines())
