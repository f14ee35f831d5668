"""Where the requests for one run hand in their sentences, whatever engine it has."""

import asyncio
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

from anydepth.errors import AnydepthError, UsageError
from anydepth.exits.policies import Policy
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.open_search import OpenSearch
from anydepth.search.beam import Hypothesis
from anydepth.search.decoding import SearchSettings
from anydepth.server.arrivals import Arrivals
from anydepth.server.shared_search import SharedSearch


class Desk:
    """Hands sentences to the open search of an engine, and to a shared search what the engine leaves
    to the plain step; counts those that wait for each owner."""

    def __init__(
        self, engine: Engine, *, batch_tokens: int, on_search: Callable[[int], None] = lambda sentences: None
    ) -> None:
        """`on_search` is told how many sentences are searched together: each time that a search
        begins, or that one joins an open search."""
        self.engine, self.batch_tokens, self.on_search = engine, batch_tokens, on_search
        self.open = engine.open_search(batch_tokens=batch_tokens)
        self.shared = SharedSearch(engine, on_search=on_search)
        self.arrivals: Arrivals | None = None  # in the loop that asked last
        self.lock = threading.Lock()
        self.unfinished: Counter[str] = Counter()  # sentences of each owner
        self.waiting = 0  # sentences of all owners

    def waiting_of(self, owner: str) -> int:
        """How many sentences of `owner` wait, those being searched included."""
        return self.unfinished[owner]

    def submit(
        self, ids: Sequence[int], policy: Policy, settings: SearchSettings, *, owner: str
    ) -> "Future[list[Hypothesis]]":
        """The best hypotheses of a sentence, as soon as they are found; cancelling the future drops
        the sentence."""
        number = zlib.crc32(owner.encode())  # owners of one number take one turn between them
        if self.open is None or self.engine.reason_against(policy, settings) is not None:
            future = self.shared.submit(ids, policy, settings, owner=number)
        else:
            future = self._submit_open(self.open, ids, policy, settings, number)
        with self.lock:
            self.unfinished[owner] += 1
            self.waiting += 1
        future.add_done_callback(partial(self._finish, owner))
        return future

    def search(
        self, ids: Sequence[int], policy: Policy, settings: SearchSettings, *, owner: str
    ) -> "asyncio.Future[list[Hypothesis]]":
        """`submit`, for those who await it in the running loop."""
        loop = asyncio.get_running_loop()
        if self.arrivals is None or self.arrivals.loop is not loop:
            self.arrivals = Arrivals(loop)
        return self.arrivals.awaited(self.submit(ids, policy, settings, owner=owner))

    def close(self) -> None:
        """Ends when all that was submitted is searched."""
        for search in (self.open, self.shared):
            if search is not None:
                search.close()

    def _submit_open(
        self, search: OpenSearch, ids: Sequence[int], policy: Policy, settings: SearchSettings, number: int
    ) -> "Future[list[Hypothesis]]":
        """Hands a sentence to the open search; one that has failed is opened again."""
        self.on_search(self.waiting + 1)
        try:
            return search.submit(ids, policy, settings, owner=number)
        except UsageError:
            raise
        except AnydepthError:
            self.open = reopened = self.engine.open_search(batch_tokens=self.batch_tokens)
            assert reopened is not None
            return reopened.submit(ids, policy, settings, owner=number)

    def _finish(self, owner: str, future: "Future[list[Hypothesis]]") -> None:
        with self.lock:
            self.waiting -= 1
            self.unfinished[owner] -= 1
            if self.unfinished[owner] == 0:
                del self.unfinished[owner]
