"""Commands as a user gives them: in this process where that is enough, in one of their own where
signals, pipes and limits matter."""

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from anydepth.cli import main as cli

ROOT = Path(cli.__file__).parents[2]
PATIENCE = 240.0


@dataclass(frozen=True)
class Outcome:
    """What a command left: its exit code and all that it wrote."""

    code: int
    out: str
    err: str


def anydepth(*arguments: object, stdin: bytes = b"") -> Outcome:
    """The outcome of `anydepth ARGUMENTS` in this process; an exception that the command lets
    through comes through."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryFile() as file,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        file.write(stdin)
        file.seek(0)
        patch.setattr(sys, "argv", ["anydepth", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(file))
        try:
            cli.main()
            code = 0
        except SystemExit as ending:
            code = int(ending.code or 0)
    return Outcome(code, out.getvalue(), err.getvalue())


def done(*arguments: object, stdin: bytes = b"") -> Outcome:
    """The outcome of a command that must succeed."""
    outcome = anydepth(*arguments, stdin=stdin)
    assert outcome.code == 0, outcome.err
    return outcome


def start(
    *arguments: object, before: Callable[[], None] | None = None, module: tuple[str, ...] = ("anydepth",)
) -> subprocess.Popen[bytes]:
    """`python -m anydepth ARGUMENTS` in a process of its own with pipes to it; `before` runs in it
    first."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", *module, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        preexec_fn=before,
    )


def finish(process: subprocess.Popen[bytes], stdin: bytes = b"") -> Outcome:
    """The outcome of a process that was started, once it has ended."""
    try:
        out, err = process.communicate(stdin, timeout=PATIENCE)
    finally:
        process.kill()
    return Outcome(process.returncode, out.decode(), err.decode())


def assert_refused(outcome: Outcome, *words: str, code: int = 2, out: str = "") -> None:
    """The command ended with `code` and one last sentence that has every one of `words`; its
    standard output was `out`."""
    assert outcome.code == code, outcome.err
    assert outcome.out == out
    *talk, last = outcome.err.splitlines()
    assert last.startswith("error: ")
    assert not any(line.startswith(("error: ", "Traceback")) for line in talk), outcome.err
    for word in words:
        assert word in last


def contents(folder: Path) -> dict[str, bytes]:
    """Every file under `folder`, by its path in there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
