"""Long work whose progress is unknown: the time that it has taken so far, in place on a terminal
and in lines in a log."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import ExitStack
from typing import Any, TypeVar
from weakref import WeakSet

from rich.console import Console

from anydepth.messages.say import Say

Result = TypeVar("Result")

# not by the names of threads: Ctrl-C in Thread.start can leave one that is not listed
_begun: "WeakSet[Future[Any]]" = WeakSet()

SECONDS_BEFORE_A_LINE = 10.0
SECONDS_ON_A_TERMINAL = 1.0


def with_heartbeat(work: Callable[[], Result], what: str, say: Say) -> Result:
    """What `work` returns or raises. While it goes on, `what` is shown with the time that it has
    taken; short work shows nothing.

    The work is done in a thread of its own, so that Ctrl-C ends the waiting at once even where the
    work is deep in a library; that thread ends with the process, which `is_at_work` is for.
    """
    future: Future[Result] = Future()
    _begun.add(future)
    threading.Thread(target=_fulfil, args=(future, work), daemon=True).start()
    console, started = Console(stderr=True, highlight=False), time.monotonic()
    pause = SECONDS_ON_A_TERMINAL if console.is_terminal else SECONDS_BEFORE_A_LINE
    with ExitStack() as shown:
        status = None
        while not wait([future], timeout=pause).done:
            text = f"{what}: at work for {time.monotonic() - started:,.0f} seconds"
            if not console.is_terminal:
                say(text)
            elif status is None:
                status = shown.enter_context(console.status(text))
            else:
                status.update(text)
    return future.result()


def is_at_work() -> bool:
    """Whether work goes on that nobody waits for any more. Were Python to end as usual, a library
    that then asks for Python would abort."""
    return any(not future.done() for future in _begun)


def _fulfil(future: "Future[Result]", work: Callable[[], Result]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # which is raised where the work was asked for
        future.set_exception(error)
