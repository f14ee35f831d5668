"""Files that are either the old version or the new one."""

import errno
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from anydepth.errors import AnydepthError, UsageError
from anydepth.files.atomic import put_back, replacing, replacing_folder, take_place, write_bytes, write_text


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
def test_a_full_disk_is_one_sentence_and_keeps_the_old_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, operation: str
) -> None:
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


def test_an_interruption_between_the_two_moves_brings_the_old_folder_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
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


def device_of(path: Path) -> tuple[int, int]:
    """What tells a device node from any other file: its kind with permissions, and its number."""
    found = path.stat()
    return found.st_mode, found.st_rdev


@pytest.mark.parametrize("moves", [0, 1, 2])
def test_a_finished_folder_takes_a_place_and_a_kill_on_the_way_loses_neither(
    moves: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, place, left = tmp_path / "made", tmp_path / "place", [moves]
    for folder in (new, place):
        folder.mkdir()
        (folder / "name").write_text(folder.name, encoding="utf-8")
    move = os.replace

    def move_until_killed(source: Path, target: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        move(source, target)

    with monkeypatch.context() as killed:
        killed.setattr(os, "replace", move_until_killed)
        with pytest.raises(KeyboardInterrupt):
            take_place(new, place)
    put_back(place)
    assert (place / "name").read_text(encoding="utf-8") == ("made" if moves == 2 else "place")
    assert new.exists() == (moves < 2)
    if new.exists():
        take_place(new, place)
    assert (place / "name").read_text(encoding="utf-8") == "made" and not new.exists()


def test_a_finished_folder_goes_where_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    take_place(tmp_path / "made", tmp_path / "place")
    assert [each.name for each in tmp_path.iterdir()] == ["place"]


def test_a_link_to_a_file_stays_and_the_file_is_replaced_whole(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    file, link = tmp_path / "elsewhere" / "a.txt", tmp_path / "link"
    write_text(file, "old")
    link.symlink_to(Path("elsewhere") / "a.txt")
    with pytest.raises(ValueError, match="no"), replacing(link) as temporary:
        assert temporary.parent == file.parent
        temporary.write_text("half of the new")
        raise ValueError("no")
    assert file.read_text() == "old"
    write_text(link, "new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert [path.name for path in file.parent.iterdir()] == ["a.txt"]


def test_a_dangling_link_makes_its_target(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    write_text(link, "new")
    assert link.is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_a_link_to_itself_is_one_sentence(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(
        AnydepthError, match=rf"^cannot write {re.escape(str(link))}: Too many levels of symbolic links"
    ):
        write_text(link, "new")
    assert link.is_symlink()


def test_a_device_behind_a_link_takes_what_is_written_and_stays_a_device(tmp_path: Path) -> None:
    # by a link, so that a rename can only hit the test's own file
    link, before = (
        tmp_path / "link",
        device_of(Path("/dev/null")),
    )
    link.symlink_to("/dev/null")
    write_bytes(link, b"x" * 100_000)
    assert link.is_symlink()
    assert device_of(Path("/dev/null")) == before
    assert list(tmp_path.iterdir()) == [link]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_device_behind_a_link_is_one_sentence(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/dev/full")
    with pytest.raises(
        AnydepthError, match=rf"^cannot write {re.escape(str(link))}: No space left on device; free some space"
    ):
        write_text(link, "new")
    assert link.is_symlink()


def test_a_node_of_a_device_is_written_through(tmp_path: Path) -> None:
    node = tmp_path / "node"
    try:
        os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        node.write_bytes(b"")
    except OSError:
        pytest.skip("no devices can be made here")
    before = device_of(node)
    write_text(node, "new")
    assert device_of(node) == before


def test_a_named_pipe_is_written_through(tmp_path: Path) -> None:
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    write_bytes(pipe, b"x" * 200_000)
    reader.join(timeout=60)
    assert received == [b"x" * 200_000]
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_folder_and_the_root_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/")):
        with pytest.raises(AnydepthError, match=rf"^cannot write {re.escape(str(path))}: Is a directory"):
            write_text(path, "new")


def test_the_output_of_the_process_is_continued_and_not_replaced(tmp_path: Path) -> None:
    """As with `anydepth evaluate --output /dev/stdout > file`, where a rename would lose what is
    printed afterwards.

    The link is one of the test's own: code that replaces links must not find the machine's.
    """
    link = tmp_path / "stdout"
    link.symlink_to("/proc/self/fd/1")
    code = (
        "import sys; from anydepth.files.atomic import write_text; print(1); write_text(sys.argv[1], '2\\n'); print(3)"
    )
    with open(tmp_path / "file", "wb") as file:
        subprocess.run([sys.executable, "-c", code, link], stdout=file, check=True)
    assert link.is_symlink()
    assert (tmp_path / "file").read_text() == "1\n2\n3\n"


def test_a_linked_folder_is_followed_and_the_link_stays(tmp_path: Path) -> None:
    folder, link = old_folder(tmp_path), tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(folder)
    with replacing_folder(link) as temporary:
        (temporary / "new").write_text("new")
    assert link.is_symlink()
    assert [path.name for path in folder.iterdir()] == ["new"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "elsewhere"]
    assert list(link.parent.iterdir()) == [link]


def test_the_folder_that_a_command_was_started_in_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = old_folder(tmp_path)
    monkeypatch.chdir(folder)
    with (
        pytest.raises(UsageError, match=r"^\. is the folder that the command was started in"),
        replacing_folder(Path(".")),
    ):
        pass
    assert [path.name for path in folder.iterdir()] == ["old"]


def killed_at(number: int, folder: Path) -> int:
    """The exit code of a process that replaces `folder` and is killed just before its rename or
    removal `number` (1, 2, ...)."""
    code = (
        "import os, shutil, signal, sys; from itertools import count; from pathlib import Path\n"
        "from anydepth.files.atomic import replacing_folder\n"
        "calls = count(1)\n"
        "def deadly(operation):\n"
        "    def operate(*arguments, **options):\n"
        "        if next(calls) == int(sys.argv[1]): os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return operation(*arguments, **options)\n"
        "    return operate\n"
        "with replacing_folder(Path(sys.argv[2])) as temporary:\n"
        "    for name in 'ab': (temporary / name).write_text('new')\n"
        "    os.replace, os.rename, os.unlink, os.rmdir = map(deadly, (os.replace, os.rename, os.unlink, os.rmdir))\n"
    )
    return subprocess.run([sys.executable, "-c", code, str(number), str(folder)], check=False).returncode


def test_whatever_rename_or_removal_a_kill_comes_before_one_whole_version_is_put_back(tmp_path: Path) -> None:
    versions, codes = [], []
    for number in range(1, 20):
        folder = tmp_path / str(number) / "data"
        folder.mkdir(parents=True)
        for name in "ab":
            (folder / name).write_text("old")
        codes.append(killed_at(number, folder))
        put_back(folder)
        found = {path.name: path.read_text() for path in folder.iterdir()}
        assert found in ({"a": "old", "b": "old"}, {"a": "new", "b": "new"}), number
        versions.append(found["a"])
        with replacing_folder(folder) as temporary:
            (temporary / "next").write_text("next")
        assert [path.name for path in folder.parent.iterdir()] == ["data"]
        if codes[-1] == 0:
            break
    assert codes[-1] == 0
    assert set(codes[:-1]) == {-signal.SIGKILL}
    assert {"old", "new"} <= set(versions[:-1]), "else this shows little"


def test_a_folder_that_was_put_back_between_the_two_renames_is_replaced_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder, move, put = old_folder(tmp_path), os.replace, []

    def move_beside_a_reader(source: Path, target: Path) -> None:
        if source.name == ".data.tmp" and not put:
            put_back(folder)
            put.append(sorted(path.name for path in folder.iterdir()))
        move(source, target)

    monkeypatch.setattr(os, "replace", move_beside_a_reader)
    with replacing_folder(folder) as temporary:
        (temporary / "new").write_text("new")
    assert put == [["old"]]
    assert [path.name for path in folder.iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
