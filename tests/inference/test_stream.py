"""Reading ahead: what is there is handed out, and a program that waits for a terminal can end."""

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from anydepth.inference.stream import arriving

PATIENCE = 30.0
WAITS_FOR_STDIN = """
import sys
from anydepth.inference.stream import arriving
lists = arriving((raw.decode() for raw in sys.stdin.buffer), window=8)
print(next(lists), flush=True)
{ending}
"""


def test_lines_that_came_while_the_caller_worked_are_handed_out_together() -> None:
    may_go_on, has_read = threading.Event(), threading.Event()

    def lines() -> Iterator[str]:
        yield "first"
        assert may_go_on.wait(PATIENCE)
        yield from ["second", "third", "fourth"]
        has_read.set()

    lists = arriving(lines(), window=8)
    assert next(lists) == ["first"]
    may_go_on.set()
    assert has_read.wait(PATIENCE)
    assert list(lists) == [["second", "third", "fourth"]]


def test_no_list_is_longer_than_the_window_and_no_line_is_lost() -> None:
    lines = [str(number) for number in range(50)]
    lists = list(arriving(lines, window=7))
    assert max(map(len, lists)) <= 7
    assert [line for ready in lists for line in ready] == lines


@pytest.mark.parametrize("ending", ["lists.close()", "sys.exit(0)", "pass"])
def test_a_program_ends_without_a_word_though_its_thread_waits_for_standard_input(ending: str) -> None:
    command = [sys.executable, "-c", WAITS_FOR_STDIN.format(ending=ending)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None and program.stdout is not None and program.stderr is not None
        program.stdin.write("one\n")
        program.stdin.flush()
        assert program.stdout.readline() == "['one\\n']\n"
        assert program.wait(PATIENCE) == 0
        assert program.stderr.read() == ""
