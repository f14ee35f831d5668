"""Standard streams that are closed, full or left by their reader: no output is lost with exit code
0, and no traceback is shown."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.commands import PATIENCE, ROOT, assert_refused, done
from cli.commands import Outcome as Ending

FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
LOST = "what was printed is lost"


def ended(*arguments: object, before: Callable[[], None], stdin: bytes = b"") -> Ending:
    """The ending of a command in a process of its own, whose streams `before` has spoilt."""
    finished = subprocess.run(
        [sys.executable, "-m", "anydepth", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": ""},
        preexec_fn=before,
        timeout=PATIENCE,
        check=False,
    )
    return Ending(finished.returncode, finished.stdout.decode(), finished.stderr.decode())


def close(*numbers: int) -> Callable[[], None]:
    return lambda: [os.close(number) for number in numbers] and None


def full() -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


def left() -> None:
    """Standard output becomes a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    os.dup2(writing, 1)


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_a_closed_output_is_told_of(option: str) -> None:
    ending = ended(option, before=close(1))
    assert_refused(ending, "cannot write to standard output: it is closed", LOST, code=1)
    assert ending.err.count("\n") == 1


@FULL
@pytest.mark.parametrize("option", ["--version", "--help"])
def test_a_full_disk_behind_the_output_is_told_of(option: str) -> None:
    ending = ended(option, before=full)
    assert_refused(ending, "cannot write to standard output: No space left on device", LOST, code=1)
    assert ending.err.count("\n") == 1


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_a_reader_that_has_left_ends_the_command_quietly_but_not_well(option: str) -> None:
    assert ended(option, before=left) == Ending(1, "", "")


def test_a_closed_standard_error_does_not_move_talk_into_the_output() -> None:
    ending = ended("translate", "nowhere", before=close(2))
    assert ending == Ending(2, "", "")


def test_translations_are_not_lost_in_silence(run: Path) -> None:
    assert_refused(ended("translate", run, before=close(1), stdin=b"hund\n"), "standard output: it is closed", code=1)


@FULL
def test_translations_for_a_full_disk_end_in_one_sentence(run: Path) -> None:
    ending = ended("translate", run, before=full, stdin=b"hund\n" * 3)
    assert_refused(ending, "cannot write to standard output: No space left on device", code=1)
    assert ending.err.count("\n") == 1


def test_a_closed_input_is_refused_and_a_file_does_not_need_it(run: Path, tmp_path: Path) -> None:
    assert_refused(ended("translate", run, before=close(0)), "standard input is closed; name a FILE")
    (tmp_path / "text").write_text("hund\n", encoding="utf-8")
    ending = ended("translate", run, tmp_path / "text", before=close(0, 2))
    assert ending == Ending(0, done("translate", run, stdin=b"hund\n").out, "")


def test_a_command_that_prints_nothing_needs_no_output(tmp_path: Path) -> None:
    ending = ended("corpus", "--to", tmp_path / "corpus", before=close(0, 1))
    assert ending.code == 0, ending.err
    assert (tmp_path / "corpus" / "train.de").stat().st_size > 0


@pytest.mark.parametrize("arguments", ["--version", "configs --nonsense"])
def test_a_signal_that_comes_while_python_ends_shows_no_traceback(arguments: str) -> None:
    program = (
        "import atexit, os, signal, sys; from anydepth.cli.main import main; "
        f"atexit.register(lambda: os.kill(os.getpid(), signal.SIGTERM)); sys.argv[1:] = {arguments.split()!r}; main()"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=PATIENCE,
        check=False,
    )
    assert finished.returncode == -signal.SIGTERM
    assert b"Traceback" not in finished.stderr
