"""The process of a command: signals, streams, exit codes and the sentence that an error ends in."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from anydepth.cli.app import make_app
from anydepth.cli.options import say
from anydepth.cli.streams import lost_output, open_streams, unwritten_output
from anydepth.cli.waiting import choose_waiting
from anydepth.errors import AnydepthError, Interrupted, OtherWorkerReports

MOST_SAID = 2000  # characters of an error


def main() -> None:
    """Runs the command; what a user can cause ends in one sentence and exit code 1, 2 or 130, never
    in a traceback.

    A reader of the output that leaves early ends the command with exit code 1 and no sentence, as
    it does with other tools of a pipe.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    choose_waiting()
    open_streams()
    code, sentence = outcome()
    failure = unwritten_output()
    if failure is not None and code <= 1:
        code, sentence = 1, failure
    if sentence:
        with suppress(OSError):  # nobody is left to tell
            say(sentence)
    let_signals_end()
    if code:
        leave(code)


def outcome() -> tuple[int, str]:
    """The exit code of the command, and its last sentence."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return 2, error_line("the folder that the command was started in is no longer there; go to another one")
    try:
        make_app()()
    except SystemExit as ending:
        return (ending.code if isinstance(ending.code, int) else int(ending.code is not None)), ""
    except OtherWorkerReports as silent:
        return silent.exit_code, ""
    except Interrupted as error:
        return error.exit_code, str(error)
    except AnydepthError as error:
        return error.exit_code, error_line(str(error))
    except OSError as error:
        return 1, lost_output(error) or error_line(
            f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
        )
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return 1, error_line(
            "there is not enough memory for this; lower --batch-tokens, --beam or the sizes of the model"
        )
    return 0, ""


def error_line(text: str) -> str:
    """An error as one line of a bearable length: what a name of a file or a value could do to the
    terminal is written out."""
    line = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
    if len(line) > MOST_SAID:
        line = f"{line[: MOST_SAID // 2]} ... {line[-MOST_SAID // 2 :]}"
    return f"error: {line}"


def is_out_of_memory(error: MemoryError | RuntimeError) -> bool:
    """Whether memory was asked for and not had: Python and C++ say so with a MemoryError, torch in
    the text of its own."""
    return isinstance(error, MemoryError) or "not enough memory" in str(error) or "out of memory" in str(error)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Turns Ctrl-C and SIGTERM into an error with a sentence; cleaning up happens on the way
    out."""
    raise Interrupted("stopped; finished files stay and nothing half-written is left")


def let_signals_end() -> None:
    """Gives Ctrl-C and SIGTERM back to the system. The work is over, and an error that is raised
    while Python ends could only become a traceback."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def leave(code: int) -> NoReturn:
    """Ends the process, at once where a library is still at work that cannot be stopped; everything
    else is cleaned up by now."""
    from anydepth.messages.heartbeat import is_at_work

    if is_at_work():
        os._exit(code)
    sys.exit(code)
