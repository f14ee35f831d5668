"""Work that is given up when its client leaves or when it takes too long."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from anydepth.server.refusals import Refusal
from anydepth.server.translating import UNWATCHED, unless_left

LONG = 60.0


async def never() -> None:
    """Waits until it is cancelled."""
    await asyncio.get_running_loop().create_future()


async def at_once() -> None:
    """Waits for nothing."""


def outcome(has_left: Callable[[], Awaitable[None]], *, seconds: float) -> tuple[object, bool]:
    """What became of work that never ends by itself, and whether it was cancelled."""
    was_cancelled = False

    async def work() -> str:
        nonlocal was_cancelled
        try:
            await never()
        except asyncio.CancelledError:
            was_cancelled = True
            raise
        return "done"

    async def asked() -> object:
        found = await unless_left(work(), has_left, seconds=seconds)
        await asyncio.sleep(0)  # a task that is still being cancelled would end here
        return found

    try:
        return asyncio.run(asked()), was_cancelled
    except Refusal as refusal:
        return (refusal.status, str(refusal), refusal.retry_after), was_cancelled


def test_work_is_cancelled_when_the_client_has_left_and_the_request_goes_on() -> None:
    assert outcome(at_once, seconds=LONG) == (None, True)


@pytest.mark.parametrize("seconds", [UNWATCHED / 10, UNWATCHED * 1.5])
def test_work_that_takes_too_long_is_refused_and_cancelled(seconds: float) -> None:
    sentence = f"the translation took longer than {seconds:g} seconds; send less text"
    assert outcome(never, seconds=seconds) == ((503, sentence, 1), True)


def test_what_the_work_gives_or_raises_comes_back_and_nobody_watches_any_more() -> None:
    async def failing() -> str:
        await asyncio.sleep(2 * UNWATCHED)
        raise Refusal(400, "no")

    async def asked() -> tuple[str | None, int]:
        found = await unless_left(asyncio.sleep(0, "done"), never, seconds=LONG)
        with pytest.raises(Refusal, match="no"):
            await unless_left(failing(), never, seconds=LONG)
        await asyncio.sleep(0)
        return found, len(asyncio.all_tasks())

    assert asyncio.run(asked()) == ("done", 1)


def test_a_request_that_is_cancelled_from_elsewhere_stays_cancelled() -> None:
    async def asked() -> None:
        request = asyncio.ensure_future(unless_left(never(), never, seconds=LONG))
        await asyncio.sleep(0)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    asyncio.run(asked())
