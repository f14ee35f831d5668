"""What other threads have found, in the loop that waits for it."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from anydepth.server.arrivals import Arrivals


class CountedCalls:
    """A loop whose wake-ups from other threads are counted."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.calls = loop, 0
        self.create_future, self.is_closed = loop.create_future, loop.is_closed

    def call_soon_threadsafe(self, work: Callable[[], None]) -> None:
        self.calls += 1
        self.loop.call_soon_threadsafe(work)


def in_a_thread(work: Callable[[], object]) -> None:
    """Does `work` in another thread, while the loop waits for nothing else."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_what_comes_while_the_loop_is_busy_arrives_in_its_place_by_one_wake_up() -> None:
    async def waited() -> tuple[list[int], int]:
        counted: Any = CountedCalls(asyncio.get_running_loop())
        arrivals, futures = Arrivals(counted), [Future[int]() for _ in range(7)]
        awaited = [arrivals.awaited(future) for future in futures]
        in_a_thread(lambda: [future.set_result(number) for number, future in reversed([*enumerate(futures)])])
        return await asyncio.gather(*awaited), counted.calls

    assert asyncio.run(waited()) == (list(range(7)), 1)


def test_what_comes_after_a_delivery_wakes_the_loop_again() -> None:
    async def waited() -> list[int]:
        arrivals, found = Arrivals(asyncio.get_running_loop()), list[int]()
        for number in range(3):
            future = Future[int]()
            own = arrivals.awaited(future)
            in_a_thread(lambda future=future, number=number: future.set_result(number))  # type: ignore[misc]
            found.append(await own)
        return found

    assert asyncio.run(waited()) == [0, 1, 2]


def test_errors_and_cancellations_arrive_and_one_that_nobody_awaits_any_more_is_cancelled() -> None:
    async def waited() -> None:
        arrivals = Arrivals(asyncio.get_running_loop())
        failed, dropped, left, beside = (Future[int]() for _ in range(4))
        own = [arrivals.awaited(future) for future in (failed, dropped, left, beside)]
        in_a_thread(lambda: (failed.set_exception(ValueError("no room")), dropped.cancel(), beside.set_result(3)))
        with pytest.raises(ValueError, match="no room"):
            await own[0]
        with pytest.raises(asyncio.CancelledError):
            await own[1]
        own[2].cancel()
        await asyncio.sleep(0)
        with pytest.raises(CancelledError):
            left.result()
        assert await own[3] == 3

    asyncio.run(waited())


def test_a_loop_that_has_ended_is_left_alone() -> None:
    loop = asyncio.new_event_loop()
    future = Future[int]()
    Arrivals(loop).awaited(future)
    loop.close()
    in_a_thread(lambda: future.set_result(1))
    assert future.result() == 1
