"""Stopping on request: a signal asks, and the loop ends after the present update."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from anydepth.errors import Interrupted


@contextmanager
def ending_on_signal(number: signal.Signals) -> Iterator[None]:
    """While inside, and after an error for good, the signal ends the process at once.

    What waits in C++ would not hear of handlers in Python, and one that raises while a process
    cleans up after an error could only become a traceback.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, signal.SIG_DFL)
    yield
    signal.signal(number, before)


class StopRequest:
    """Whether the user has asked for an end by Ctrl-C or SIGTERM. A second Ctrl-C stops at once."""

    def __init__(self) -> None:
        self.is_asked = False

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """While inside, SIGINT and SIGTERM set `is_asked` instead of raising."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.is_asked and number == signal.SIGINT:
            raise Interrupted("stopped at once; what was saved before stays")
        self.is_asked = True
