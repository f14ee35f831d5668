"""The standard streams of a command: closed ones, and output that cannot be written."""

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

OUTPUT = "standard output"
NAMES = "backslashreplace"  # those of files may be any bytes


def open_streams() -> None:
    """Makes the standard streams UTF-8, and gives those that are closed something to be.

    A closed descriptor would become that of the next file that is opened. A closed output is opened
    so that it cannot be written to: it fails where something is to be printed, and not in commands
    that print nothing. What would be said goes nowhere.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            # the lowest that is free
            descriptor = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if name != "stdin":
                setattr(sys, name, io.TextIOWrapper(open(descriptor, "wb", closefd=False)))  # noqa: SIM115 (until the process ends)
                setattr(sys, f"__{name}__", getattr(sys, name))
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(encoding="utf-8", errors=NAMES)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout is sys.__stdout__:
        is_by_line, is_at_once = sys.stdout.line_buffering, sys.stdout.write_through
        sys.stdout = StandardOutput(
            sys.stdout.detach(), encoding="utf-8", errors=NAMES, line_buffering=is_by_line, write_through=is_at_once
        )
        sys.__stdout__ = sys.stdout  # type: ignore[misc]


class StandardOutput(io.TextIOWrapper):
    """Standard output whose errors tell that they are of it."""

    def write(self, text: str, /) -> int:
        with naming_output():
            return super().write(text)

    def flush(self) -> None:
        with naming_output():
            super().flush()


@contextmanager
def naming_output() -> Iterator[None]:
    """Gives errors of the system that come from inside the name of standard output."""
    try:
        yield
    except OSError as error:
        error.filename = OUTPUT
        raise


def lost_output(error: OSError) -> str:
    """What to say of an error of standard output; nothing of others."""
    if error.filename != OUTPUT:
        return ""
    reason = "it is closed" if error.errno == errno.EBADF else error.strerror or str(error)
    return f"error: cannot write to standard output: {reason}; what was printed is lost"


def unwritten_output() -> str | None:
    """What to say if printed text could not be written, which may show only now; nothing of a
    reader that has left."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python would try, and complain, once more
        return "" if isinstance(error, BrokenPipeError) else lost_output(error)
    return None
