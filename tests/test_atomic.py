"""Files that are either the old version or the new one."""

import errno
import os
import re
from pathlib import Path

import pytest

from anydepth.atomic import replacing, replacing_folder, write_bytes, write_text
from anydepth.errors import AnydepthError


def test_what_is_written_is_there_and_nothing_else(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "größer\r\n")
    write_text(tmp_path / "a.txt", "größer\n")
    write_bytes(tmp_path / "b", b"\x00\xff")
    assert (tmp_path / "a.txt").read_bytes() == "größer\n".encode()
    assert (tmp_path / "b").read_bytes() == b"\x00\xff"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)])
def test_a_failure_while_writing_keeps_the_old_file_and_leaves_no_other(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(type(error)), replacing(path) as temporary:
        temporary.write_text("half of the new")
        raise error
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


@pytest.mark.parametrize("operation", ["fsync", "replace"])
def test_a_full_disk_is_one_sentence_and_keeps_the_old_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, operation: str) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, operation, full)
    expected = f"cannot write {path}: No space left on device; free some space or choose another place"
    with pytest.raises(AnydepthError, match=f"^{re.escape(expected)}$"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_really_full_device_is_the_same_sentence(tmp_path: Path) -> None:
    with pytest.raises(AnydepthError, match="No space left on device; free some space"), replacing(tmp_path / "a.txt"):
        Path("/dev/full").write_bytes(b"x")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "a.txt"
    with pytest.raises(AnydepthError, match=rf"^cannot write {re.escape(str(path))}: No such file or directory"):
        write_text(path, "new")


def old_folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "old").write_text("old")
    return tmp_path / "data"


def test_a_new_folder_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    folder = old_folder(tmp_path)
    (tmp_path / ".data.tmp").mkdir()  # what a kill left
    with replacing_folder(folder) as temporary:
        (temporary / "new").write_text("new")
    assert [path.name for path in folder.iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()])
def test_a_failure_while_filling_keeps_the_old_folder_and_leaves_no_other(tmp_path: Path, error: BaseException) -> None:
    folder = old_folder(tmp_path)
    with pytest.raises(type(error)), replacing_folder(folder) as temporary:
        (temporary / "new").write_text("new")
        raise error
    assert [path.name for path in folder.iterdir()] == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_an_interruption_between_the_two_moves_brings_the_old_folder_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder, move = old_folder(tmp_path), os.replace

    def interrupted_move(source: Path, target: Path) -> None:
        if source.name == ".data.tmp":
            raise KeyboardInterrupt
        move(source, target)

    monkeypatch.setattr(os, "replace", interrupted_move)
    with pytest.raises(KeyboardInterrupt), replacing_folder(folder):
        pass
    assert [path.name for path in folder.iterdir()] == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
