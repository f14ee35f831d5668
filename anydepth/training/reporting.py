"""What training shows: a progress bar on a terminal, plain lines in a log, metrics as JSON
lines."""

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from rich.console import Console
from rich.progress import Progress

from anydepth.files.atomic import cannot_write, write_bytes
from anydepth.files.seal import check_kind
from anydepth.messages.progress import terminal_bar
from anydepth.runs.metrics import metric_line, read_metrics
from anydepth.runs.run import Run
from anydepth.training.update import UpdateSums


class Reporter:
    """Writes events to the terminal, to train.log and to metrics.jsonl; in the main worker
    alone."""

    def __init__(self, run: Run, *, is_main: bool) -> None:
        self.run = run
        self.is_main = is_main
        self.console = Console(stderr=True, highlight=False)
        self.bar: Progress | None = None
        self.files: tuple[TextIO, TextIO] | None = None

    def __enter__(self) -> "Reporter":
        if self.is_main:
            for file in (self.run.log_file, self.run.metrics_file):
                check_kind(file)
            self.files = (
                self.run.log_file.open("a", encoding="utf-8"),
                self.run.metrics_file.open("a", encoding="utf-8"),
            )
            if self.console.is_terminal:
                self.bar = terminal_bar(self.console)
                self.bar.add_task("starting", total=1.0)
                self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.bar:
            self.bar.stop()
        for file in self.files or ():
            with suppress(OSError):  # of a line that could not be written, which was told already
                file.close()

    def say(self, text: str) -> None:
        """One line for people."""
        if self.files is None:
            return
        self.write(self.files[0], f"{text}\n")
        if self.bar:
            self.bar.console.print(text, soft_wrap=True, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)

    def progress(self, share: float, text: str) -> None:
        """Moves the bar, where there is a terminal to show one."""
        if self.bar:
            self.bar.update(self.bar.task_ids[0], completed=share, description=text)

    def measured(self, event: str, values: Mapping[str, Any]) -> None:
        """One line for machines."""
        if self.files is not None:
            self.write(self.files[1], metric_line({"event": event, **values}))

    def write(self, file: TextIO, line: str) -> None:
        """Appends a line to the log or to the metrics at once."""
        try:
            print(line, file=file, end="", flush=True)
        except OSError as error:
            raise cannot_write(Path(file.name), error) from error

    def drop_metrics_after(self, update: int) -> None:
        """Drops the metrics of updates that are about to be done again, and a line that a kill cut
        short; a damaged line is refused."""
        if self.files is None:
            return
        log, metrics = self.files
        metrics.close()  # the file is about to be replaced, and what is written to the old one would be lost
        kept = b"".join(line for line, _ in takewhile(lambda each: each[1]["update"] <= update, read_metrics(self.run)))
        self.run.seal.add_metrics(kept)
        write_bytes(self.run.metrics_file, kept)
        self.files = (log, self.run.metrics_file.open("a", encoding="utf-8"))


class RecentMeans:
    """Means over the updates since the last report; time spent on other things than updates does
    not count."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Forgets the updates so far."""
        self.tokens, self.loss_sum, self.seconds, self.started = 0.0, 0.0, 0.0, time.monotonic()
        self.exit_loss_sum = 0.0
        self.likelihoods: list[float] = []
        self.rows: list[float] = []
        self.oracle_exits: list[float] = []
        self.halting_exits: list[float] = []

    def pause(self) -> None:
        """Leaves out the time since the last update."""
        self.started = time.monotonic()

    def add(self, sums: UpdateSums) -> None:
        """Takes in one more update."""
        now = time.monotonic()
        self.seconds, self.started = self.seconds + now - self.started, now
        self.tokens, self.loss_sum = self.tokens + sums.tokens, self.loss_sum + sums.loss
        self.exit_loss_sum += sums.exit_loss
        self.likelihoods = _added(self.likelihoods, sums.likelihoods)
        self.rows = _added(self.rows, sums.rows)
        self.oracle_exits = _added(self.oracle_exits, sums.oracle_exits)
        self.halting_exits = _added(self.halting_exits, sums.halting_exits)

    @property
    def loss(self) -> float:
        """What was minimised, per token."""
        return self.loss_sum / self.tokens

    @property
    def losses(self) -> list[float]:
        """The negative log-likelihood of each exit, per token."""
        return [likelihood / max(rows, 1) for likelihood, rows in zip(self.likelihoods, self.rows, strict=True)]

    @property
    def exit_figures(self) -> dict[str, Any]:
        """The exit loss per token, and the shares of tokens that the oracle and the halting module
        send to each exit; else nothing.

        Tokens that the oracle knows no exit for, where it is that of a sample of sentences, are in
        the halting module's shares alone.
        """
        if not self.oracle_exits:
            return {}
        shares = {"oracle_exits": self.oracle_exits, "halting_exits": self.halting_exits}
        return {"exit_loss": self.exit_loss_sum / max(sum(self.oracle_exits), 1)} | {
            name: [count / max(sum(counts), 1) for count in counts] for name, counts in shares.items()
        }

    @property
    def speed(self) -> float:
        """Target tokens/s."""
        return self.tokens / max(self.seconds, 1e-9)


def _added(sums: list[float], more: list[float]) -> list[float]:
    return [a + b for a, b in zip(sums or [0.0] * len(more), more, strict=True)]


def describe_exit_figures(figures: Mapping[str, Any]) -> str:
    """The exit loss and both histograms in percent, lowest exit first; nothing where there are
    none."""
    if not figures:
        return ""
    oracle, halting = (
        "/".join(f"{100 * share:.0f}" for share in figures[name]) for name in ("oracle_exits", "halting_exits")
    )
    return f"  exit loss {figures['exit_loss']:.3f}  oracle {oracle}%  halting {halting}%"


def describe_exits(values: list[float], *, digits: int = 2) -> str:
    """The figures of all exits, lowest first, with slashes between."""
    return " / ".join(f"{value:.{digits}f}" for value in values)
