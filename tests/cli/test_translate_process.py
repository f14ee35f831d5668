"""translate in a process of its own: answers come at once, and endings are quiet."""

import select
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.commands import PATIENCE, done, start


@contextmanager
def translating(run: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A translate process whose input stays open."""
    process = start("translate", run, before=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            assert pipe
            pipe.close()


def ask(process: subprocess.Popen[bytes], text: str) -> str:
    """The answer to a line, waited for while the input stays open."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{text}\n".encode())
    process.stdin.flush()
    ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
    assert ready, "no answer while the input is open"
    return process.stdout.readline().decode()


def quiet_end(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Exit code and standard error of a process that ends by itself."""
    assert process.stderr
    code = process.wait(timeout=PATIENCE)
    return code, process.stderr.read().decode()


def test_a_line_is_answered_before_the_next_one_is_written(run: Path) -> None:
    with translating(run) as process:
        answers = [ask(process, line) for line in ("hund läuft", "", "katze")]
        assert process.stdin
        process.stdin.close()
        assert quiet_end(process) == (0, "")
    assert "".join(answers) == done("translate", run, stdin="hund läuft\n\nkatze\n".encode()).out


def test_ctrl_c_while_waiting_for_input_ends_without_a_traceback(run: Path) -> None:
    with translating(run) as process:
        ask(process, "hund")
        process.send_signal(signal.SIGINT)
        assert quiet_end(process) == (130, "stopped; finished files stay and nothing half-written is left\n")


def test_a_reader_that_leaves_ends_the_command_quietly(run: Path) -> None:
    with translating(run) as process:
        ask(process, "hund")
        assert process.stdin
        assert process.stdout
        process.stdout.close()
        process.stdin.write(b"katze\n" * 50)
        process.stdin.flush()
        assert quiet_end(process) == (1, "")
