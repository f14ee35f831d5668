"""The compiled search that stays open, with a future for each sentence."""

import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from anydepth.errors import AnydepthError, UsageError
from anydepth.exits.policies import Policy
from anydepth.inference.engines.native.found import read_hypotheses
from anydepth.inference.engines.open_search import OpenSearch
from anydepth.search.beam import Hypothesis
from anydepth.search.decoding import SearchSettings

if TYPE_CHECKING:
    from anydepth.inference.engines.native import _native

WAIT_MS = 60_000  # for results, before looking again
SECONDS_FOR_THE_LAST_STEP = 5.0


class NativeRequest(NamedTuple):
    """What the compiled search is given of one sentence."""

    source: list[int]
    limit: int
    policy: "_native.Policy"
    settings: "_native.Settings"
    selection: "_native.Selection | None"


class Pending(NamedTuple):
    """A sentence whose hypotheses have not been found yet."""

    future: "Future[list[Hypothesis]]"
    is_selective: bool


PendingByNumber: TypeAlias = dict[int, Pending]  # whoever takes an entry out settles its future


class NativeOpenSearch(OpenSearch):
    """Hands sentences to the workers in C++; a thread of Python settles the futures."""

    def __init__(
        self,
        search: "_native.OpenSearch",
        request: Callable[[Sequence[int], Policy, SearchSettings], NativeRequest],
        note_counts: "Callable[[_native.Counts], None]",
    ) -> None:
        """`request` refuses what cannot be searched; `note_counts` learns in the end what was
        done."""
        self.search, self.request = search, request
        self.is_closed = False
        self.numbers = itertools.count()
        self.pending: PendingByNumber = {}
        # The thread does not know this object, so that one that nobody closes can be collected.
        # Nor may it be at work when Python ends, which `finalize` is for.
        self.thread = threading.Thread(target=settle, args=(search, self.pending, note_counts), daemon=True)
        self.thread.start()
        weakref.finalize(self, abandon, search, self.thread)

    def submit(
        self, ids: Sequence[int], policy: Policy, settings: SearchSettings, *, owner: int = 0
    ) -> "Future[list[Hypothesis]]":
        """The hypotheses of a sentence, once they are found."""
        request = self.request(ids, policy, settings)
        number, future = next(self.numbers), Future[list[Hypothesis]]()
        self.pending[number] = Pending(future, settings.words is not None)
        try:
            self.search.submit(number, owner, *request)
        except Exception as error:
            self.pending.pop(number, None)
            raise closed() if self.is_closed else failed(error) from error
        future.add_done_callback(partial(drop_cancelled, self.search, self.pending, number))
        return future

    def close(self, *, drain: bool = True) -> None:
        """Returns when all that was submitted is found, or dropped."""
        self.is_closed = True
        self.search.close(drain)
        self.thread.join()


def settle(
    search: "_native.OpenSearch", pending: PendingByNumber, note_counts: "Callable[[_native.Counts], None]"
) -> None:
    """Settles futures until the search has ended: those that are left then are cancelled, or get the
    error that ended it."""
    failure = None
    try:
        while (results := search.take(WAIT_MS)) is not None:
            for number, found in results:
                if (asked := pending.pop(number, None)) and asked.future.set_running_or_notify_cancel():
                    asked.future.set_result(read_hypotheses(found, is_selective=asked.is_selective))
    except Exception as error:  # which everyone who waits hears of
        failure = failed(error)
    for number in list(pending):
        if asked := pending.pop(number, None):
            if failure is None:
                asked.future.cancel()
            if asked.future.set_running_or_notify_cancel():
                asked.future.set_exception(failure)
    note_counts(search.join())


def drop_cancelled(
    search: "_native.OpenSearch", pending: PendingByNumber, number: int, future: "Future[list[Hypothesis]]"
) -> None:
    """Has a sentence dropped whose future was cancelled."""
    if future.cancelled() and pending.pop(number, None) is not None:
        search.cancel(number)
        future.set_running_or_notify_cancel()


def abandon(search: "_native.OpenSearch", thread: threading.Thread) -> None:
    """Ends a search that nobody closed."""
    search.close(drain=False)
    # Not for ever: the collector may have come while this thread holds what that one waits for.
    if thread is not threading.current_thread():
        thread.join(SECONDS_FOR_THE_LAST_STEP)


def closed() -> UsageError:
    """The error of whoever comes too late."""
    return UsageError("this search was closed and takes no more sentences; open another one")


def failed(error: Exception) -> AnydepthError:
    """The error of everyone whose search failed."""
    return AnydepthError(f"the open search ended with {type(error).__name__}: {error}; open another one")
