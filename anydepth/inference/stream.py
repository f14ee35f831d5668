"""Lines as they arrive: one by one when they come slowly, many together when they come fast."""

import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from anydepth.errors import UsageError


@dataclass(frozen=True)
class Ending:
    """The mark after the last line; `error` is what stopped the reading, if anything did."""

    error: BaseException | None = None


def arriving(lines: Iterable[str], *, window: int) -> Iterator[list[str]]:
    """Lists of the lines that are there, each as soon as it has one line and with at most `window`.

    A thread reads ahead, by at most `window` lines, so that lines gather while the caller works.
    What `lines` raises is raised here, after the lines before it have been handed out.
    """
    if window < 1:
        raise UsageError(f"window = {window} holds no line; set it to 1 or more")
    waiting: queue.Queue[str | Ending] = queue.Queue(maxsize=window)
    is_closed = threading.Event()
    # A thread that waits for a terminal cannot be woken, so it must not keep the program from
    # ending. And at its end Python closes sys.stdin unless somebody holds it, and aborts if a
    # thread is reading from it: so the thread holds it.
    threading.Thread(target=_read, args=(lines, waiting, is_closed, sys.stdin), daemon=True).start()
    try:
        while True:
            ready, ending = _take(waiting, window)
            if ready:
                yield ready
            if ending is not None:
                if ending.error is not None:
                    raise ending.error
                return
    finally:
        is_closed.set()
        _drain(waiting)  # a reader that waits for room finds it and sees that it is over


def _read(lines: Iterable[str], waiting: "queue.Queue[str | Ending]", is_closed: threading.Event, held: object) -> None:
    try:
        for line in lines:
            waiting.put(line)
            if is_closed.is_set():
                return
    except BaseException as error:
        waiting.put(Ending(error))
    else:
        waiting.put(Ending())


def _take(waiting: "queue.Queue[str | Ending]", window: int) -> tuple[list[str], Ending | None]:
    """At least one line or the ending, waiting for it if need be, and whatever else is there
    already."""
    ready: list[str] = []
    item = waiting.get()
    while not isinstance(item, Ending):
        ready.append(item)
        if len(ready) == window:
            return ready, None
        try:
            item = waiting.get_nowait()
        except queue.Empty:
            return ready, None
    return ready, item


def _drain(waiting: "queue.Queue[str | Ending]") -> None:
    while not waiting.empty():
        waiting.get_nowait()
