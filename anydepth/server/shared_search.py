"""An open search for engines that have none of their own: what waits is searched together."""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from anydepth.exits.policies import Policy
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.open_search import OpenSearch
from anydepth.search.beam import Hypothesis
from anydepth.search.decoding import SearchSettings

TOGETHER = 32  # sentences of one search: a larger one is no faster, and the next in line would wait longer


@dataclass(eq=False)
class WaitingSentence:
    """A sentence that waits for its search, as tokens without EOS."""

    ids: Sequence[int]
    policy: Policy
    settings: SearchSettings
    future: "Future[list[Hypothesis]]" = field(default_factory=Future)

    @property
    def group(self) -> Hashable:
        """What sentences that are searched together have in common."""
        return self.policy.name, replace(self.settings, words=None), id(self.settings.words)


class SharedSearch(OpenSearch):
    """Takes sentences from any thread and searches them in one of its own.

    A search takes the sentences that wait, in turns from each owner, as far as they want the same
    policy and settings as the first in line. A sentence alone is searched at once.
    """

    def __init__(self, engine: Engine, *, on_search: Callable[[int], None] = lambda sentences: None) -> None:
        """`on_search` is told how many sentences each search takes."""
        self.engine, self.on_search = engine, on_search
        self.lines: OrderedDict[int, deque[WaitingSentence]] = OrderedDict()  # of each owner, who is next first
        self.changed = threading.Condition()
        self.is_closed = False
        self.thread = threading.Thread(target=self._work, name="shared search", daemon=True)
        self.thread.start()

    def submit(
        self, ids: Sequence[int], policy: Policy, settings: SearchSettings, *, owner: int = 0
    ) -> "Future[list[Hypothesis]]":
        """The best hypotheses of a sentence, as soon as they are found; cancelling the future takes
        the sentence out of the line."""
        sentence = WaitingSentence(ids, policy, settings)
        with self.changed:
            if self.is_closed:
                raise RuntimeError("this search was closed and takes no more sentences")
            self.lines.setdefault(owner, deque()).append(sentence)
            self.changed.notify()
        return sentence.future

    def close(self, *, drain: bool = True) -> None:
        """Ends the thread when all that was submitted is searched, or cancelled."""
        with self.changed:
            self.is_closed = True
            waiting = [] if drain else [sentence for line in self.lines.values() for sentence in line]
            self.changed.notify()
        for sentence in waiting:
            sentence.future.cancel()
        self.thread.join()

    def _work(self) -> None:
        while batch := self._next_batch():
            self.on_search(len(batch))
            self._search(batch)

    def _next_batch(self) -> list[WaitingSentence]:
        """The sentences of the next search; none when nothing more will come and all is done."""
        with self.changed:
            while True:
                self.changed.wait_for(lambda: self.lines or self.is_closed)
                if not self.lines:
                    return []
                if batch := self._take():
                    return batch

    def _take(self) -> list[WaitingSentence]:
        """Sentences of one group, one from each owner in turn; cancelled ones are dropped. Owners
        who were passed over, because they want something else, stay first in line."""
        batch: list[WaitingSentence] = []
        turns = deque(self.lines)
        while turns and len(batch) < TOGETHER:
            owner = turns.popleft()
            line = self.lines[owner]
            if batch and line[0].group != batch[0].group:
                continue
            sentence = line.popleft()
            if sentence.future.set_running_or_notify_cancel():
                batch.append(sentence)
            if line:
                turns.append(owner)
                self.lines.move_to_end(owner)
            else:
                del self.lines[owner]
        return batch

    def _search(self, batch: Sequence[WaitingSentence]) -> None:
        """Searches a batch; where that fails, each sentence alone, so that one cannot spoil others."""
        first = batch[0]
        try:
            found = self.engine.search([each.ids for each in batch], first.policy, first.settings)
        except Exception as error:
            if len(batch) == 1:
                first.future.set_exception(error)
            else:
                for each in batch:
                    self._search([each])
            return
        for each, hypotheses in zip(batch, found, strict=True):
            each.future.set_result(hypotheses)
