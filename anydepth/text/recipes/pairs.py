"""Streams of pairs: two files in step, their tokens made by one process or several, and progress
shown on the way."""

import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice, zip_longest

from anydepth.errors import AnydepthError, CorpusError
from anydepth.messages.say import Say
from anydepth.text.recipes.moses import PairTokenizer

PAIRS_AT_ONCE = 1000
PAIRS_BETWEEN_REPORTS = 100_000

Pair = tuple[str, str]


def in_step(source: Iterable[str], target: Iterable[str], names: tuple[str, str]) -> Iterator[Pair]:
    """Pairs of lines, one at a time; sides with different numbers of lines are refused once the
    longer one has ended."""
    source_count = target_count = 0
    for source_line, target_line in zip_longest(source, target):
        source_count += source_line is not None
        target_count += target_line is not None
        if source_count == target_count:
            yield source_line, target_line
    if source_count != target_count:
        raise CorpusError(
            f"{names[0]} has {source_count:,} sentences but {names[1]} has {target_count:,}; "
            "each must translate the other's at the same place, so download the archive again or take another "
            "version of it"
        )


def with_progress(pairs: Iterable[Pair], name: str, say: Say) -> Iterator[Pair]:
    """The same pairs; how many have passed, and how fast, is reported now and then."""
    started = time.perf_counter()
    for number, pair in enumerate(pairs, start=1):
        yield pair
        if number % PAIRS_BETWEEN_REPORTS == 0:
            say(f"{name}: {number:,} pairs, {number / (time.perf_counter() - started):,.0f} pairs/s")


def tokenized(pairs: Iterable[Pair], tokenizer: PairTokenizer, *, jobs: int = 1) -> Iterator[Pair]:
    """The pairs as tokens, in their order; with several processes a bounded number of pairs is
    under way."""
    if jobs == 1:
        work = tokenizer.make()
        yield from (work(*pair) for pair in pairs)
        return
    # Started afresh: a fork would share the open archives, and threads that other libraries run.
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _start_worker, (tokenizer,))
    try:
        yield from _in_order(pool, iter(pairs), ahead=2 * jobs)
    except BrokenProcessPool as error:
        raise AnydepthError(
            "a process that makes tokens has died, perhaps for want of memory; try fewer --jobs"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _in_order(pool: ProcessPoolExecutor, pairs: Iterator[Pair], *, ahead: int) -> Iterator[Pair]:
    waiting: deque[Future[list[Pair]]] = deque()
    while portion := list(islice(pairs, PAIRS_AT_ONCE)):
        with _uninterrupted():
            waiting.append(pool.submit(_work, portion))
        if len(waiting) > ahead:
            yield from waiting.popleft().result()
    while waiting:
        yield from waiting.popleft().result()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits for the end of this, and the processes that are started meanwhile do not receive
    it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(tokenizer: PairTokenizer) -> None:
    global _tokenize
    _tokenize = tokenizer.make()


def _work(pairs: list[Pair]) -> list[Pair]:
    return [_tokenize(*pair) for pair in pairs]


_tokenize: Callable[[str, str], Pair]
