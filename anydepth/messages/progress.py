"""How far long work is: a bar on a terminal, plain lines in a log."""

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from anydepth.messages.say import Say
from anydepth.messages.times import describe_seconds

LINES = 20  # in a log, from the beginning to the end


def terminal_bar(console: Console) -> Progress:
    """A bar with its percentage and a text, which disappears when the work is done."""
    columns = (
        BarColumn(bar_width=20),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.description}", markup=False),
    )
    return Progress(*columns, console=console, transient=True)


class ProgressBar:
    """Shows how many of `total` things are done, how fast that goes, and how long the rest will
    take."""

    def __init__(self, total: int, what: str, say: Say) -> None:
        self.total, self.what, self.say = total, what, say
        self.done, self.lines, self.started = 0, 0, time.monotonic()
        console = Console(stderr=True, highlight=False)
        self.bar = terminal_bar(console) if console.is_terminal else None

    def __enter__(self) -> "ProgressBar":
        if self.bar is not None:
            self.bar.add_task("starting", total=self.total)
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def add(self, count: int) -> None:
        """So many more are done."""
        self.done += count
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=self.done, description=self.text)
        elif self.done * LINES // self.total > self.lines:
            self.lines = self.done * LINES // self.total
            self.say(self.text)

    @property
    def text(self) -> str:
        """The state of things in one line."""
        seconds = max(time.monotonic() - self.started, 1e-9)
        left = describe_seconds(seconds * (self.total - self.done) / max(self.done, 1))
        return f"{self.done:,} of {self.total:,} {self.what}  {self.done / seconds:,.1f}/s  {left} left"
