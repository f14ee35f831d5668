"""Verbs called in this process, and training that ends as if it were killed."""

import io
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

BULK_OPTIONS = ("--shard-lines", 2, "--policy", "fixed:2")


@dataclass(frozen=True)
class Outcome:
    """What a verb left: exit code, standard output, standard error, and a traceback if it let one
    through."""

    code: int
    out: str
    err: str
    trace: str = ""


def call(*arguments: object) -> Outcome:
    """The outcome of `anydepth ARGUMENTS` in this process."""
    from anydepth.cli import main as cli

    out, err, before, trace, code = io.StringIO(), io.StringIO(), sys.argv, "", 0
    sys.argv = ["anydepth", *map(str, arguments)]
    try:
        with redirect_stdout(out), redirect_stderr(err):
            cli.main()
    except SystemExit as ending:
        code = int(ending.code or 0)
    except BaseException:
        trace = traceback.format_exc()
    finally:
        sys.argv = before
    return Outcome(code, out.getvalue(), err.getvalue(), trace)


def done(*arguments: object) -> Outcome:
    """The outcome of a verb that must succeed."""
    outcome = call(*arguments)
    assert outcome.code == 0 and not outcome.trace, (arguments, outcome)
    return outcome


@contextmanager
def bulk_in_this_process() -> Iterator[None]:
    """Lets `bulk` work in this process, where a trial would spend seconds on starting others."""
    from anydepth.bulk import local_crew

    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
    from bulk.crews import inline

    before = local_crew.on_this_machine
    local_crew.on_this_machine = lambda **options: inline()
    try:
        yield
    finally:
        local_crew.on_this_machine = before


class Killed(BaseException):
    """Stands for a kill: nothing of the command's own cleans up after it."""


def killed_after_saves(saves: int, *arguments: object) -> None:
    """Trains until the run was saved so many times; with 0 until its first update is over."""
    from anydepth.training.loop import Training

    save, report, left = Training.save, Training.report, [saves]

    def counted_save(training: Training) -> None:
        save(training)
        left[0] -= 1
        if left[0] == 0:
            raise Killed

    def last_report(*given: object) -> None:
        raise Killed

    Training.save = counted_save  # type: ignore[method-assign]
    if saves == 0:
        Training.report = last_report  # type: ignore[method-assign, assignment]
    try:
        outcome = call(*arguments)
    finally:
        Training.save, Training.report = save, report  # type: ignore[method-assign]
    assert "Killed" in outcome.trace, outcome
