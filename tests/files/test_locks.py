"""One writer at a time: refused by name, freed by a kill, and nothing left behind."""

import os
import re
import signal
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
from tiny import in_own_process

from anydepth.errors import AnydepthError, UsageError
from anydepth.files.atomic import replacing_folder
from anydepth.files.locks import in_turn, one_writer


def hold(folder: Path, sign: Path) -> None:
    """The body of a process that writes to `folder` for ever, and shows by `sign` that it has
    begun."""
    with one_writer(folder):
        sign.touch()
        time.sleep(600)


def holder_of(folder: Path, sign: Path) -> ForkServerProcess:
    """A process that is writing to `folder`."""
    process = in_own_process(hold, folder, sign)
    while not sign.exists():
        assert process.is_alive()
        time.sleep(0.01)
    return process


def test_a_second_writer_is_refused_by_name_until_the_first_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = holder_of(folder, tmp_path / "sign")
    try:
        who = rf"\(process {process.pid} since \d\d:\d\d:\d\d\)"
        words = (
            rf"^another anydepth command is writing to {re.escape(str(folder))} {who}; wait for it, or stop it first$"
        )
        with pytest.raises(UsageError, match=words), one_writer(folder):
            pass
        with one_writer(tmp_path / "other"):
            pass
    finally:
        process.kill()
        process.join()
    assert process.exitcode == -signal.SIGKILL
    with one_writer(folder):
        pass


def test_a_lock_stays_where_it_is_when_the_folder_is_replaced_and_is_the_same_through_a_link(tmp_path: Path) -> None:
    folder, link = tmp_path / "run", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    with one_writer(folder):
        with replacing_folder(folder):
            pass
        for name in (folder, link):
            with pytest.raises(UsageError, match="another anydepth command is writing to"), one_writer(name):
                pass


@pytest.mark.parametrize("error", [None, ValueError("no")])
def test_nothing_is_left_of_a_lock(tmp_path: Path, error: Exception | None) -> None:
    try:
        with one_writer(tmp_path / "a" / "b" / "run"):
            assert (tmp_path / "a" / "b").exists()
            if error is not None:
                raise error
    except ValueError:
        pass
    assert list(tmp_path.iterdir()) == []


def test_where_only_the_folder_can_be_written_to_the_lock_is_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    with one_writer(folder):
        assert [path.name for path in folder.iterdir()] == [".lock"]
        assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_place_that_cannot_have_a_lock_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(AnydepthError, match=r"^cannot write .*run: Not a directory; check the path"),
        one_writer(tmp_path / "file" / "run"),
    ):
        pass


def linger(lock: Path, sign: Path) -> None:
    """The body of a process that is inside for a while, and tells when it enters and leaves."""
    with in_turn(lock):
        sign.write_text("inside")
        time.sleep(0.3)
        sign.write_text("outside")


def test_the_second_in_turn_waits_for_the_first(tmp_path: Path) -> None:
    lock, sign = tmp_path / "steps" / "a.lock", tmp_path / "sign"
    process = in_own_process(linger, lock, sign)
    while not sign.exists():
        assert process.is_alive()
        time.sleep(0.001)
    with in_turn(lock):
        assert sign.read_text() == "outside"
    process.join()


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no folder here in which nothing can be made")
def test_a_place_where_no_file_can_be_made_is_not_called_taken() -> None:
    with (
        pytest.raises(AnydepthError, match=r"^cannot write /proc/nowhere: No such file or directory; "),
        one_writer(Path("/proc/nowhere")),
    ):
        pass
