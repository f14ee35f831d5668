"""What the threads of a search have found, brought to the loop that answers requests."""

import asyncio
from collections import deque
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

Found = TypeVar("Found")


class Arrivals:
    """Settles futures of a loop when those of other threads are settled: all that have come by the
    time that the loop looks, by one wake-up."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.come: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self.is_called = False

    def awaited(self, future: "Future[Found]") -> "asyncio.Future[Found]":
        """A future of the loop for one of another thread; cancelling it cancels that one."""
        own: asyncio.Future[Found] = self.loop.create_future()
        own.add_done_callback(partial(cancel_too, future))
        future.add_done_callback(partial(self._note, own))
        return own

    def _note(self, own: "asyncio.Future[Found]", future: "Future[Found]") -> None:
        """Called in any thread. What is noted before `_deliver` sets `is_called` back is delivered by
        it; what comes later calls again."""
        self.come.append((own, future))
        if not self.is_called and not self.loop.is_closed():
            self.is_called = True
            self.loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self.is_called = False
        while self.come:
            own, future = self.come.popleft()
            if own.done():
                continue
            if future.cancelled():
                own.cancel()
            elif (error := future.exception()) is not None:
                own.set_exception(error)
            else:
                own.set_result(future.result())


def cancel_too(future: "Future[Found]", own: "asyncio.Future[Found]") -> None:
    """Cancels `future` where `own`, which stands for it in the loop, was cancelled."""
    if own.cancelled():
        future.cancel()
