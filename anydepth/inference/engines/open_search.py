"""A search that stays open, for those who serve many: what an engine that has one gives."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from anydepth.exits.policies import Policy
from anydepth.search.beam import Hypothesis
from anydepth.search.decoding import SearchSettings


class OpenSearch(ABC):
    """Takes sentences at any time, from any thread, each with a policy, a beam and words of its own.

    A new sentence takes the place of a finished one without waiting for the others of the batch.
    What is found does not depend on them: it is what `Engine.search` finds for the sentence alone.
    """

    @abstractmethod
    def submit(
        self, ids: Sequence[int], policy: Policy, settings: SearchSettings, *, owner: int = 0
    ) -> "Future[list[Hypothesis]]":
        """The hypotheses of a sentence, best first, once they are found; a future that is cancelled
        drops the sentence, even half searched.

        Sentences of one owner take their places in the order in which they came; owners take turns.
        The limits of a batch are those of the open search, not those of `settings`.
        """

    @abstractmethod
    def close(self, *, drain: bool = True) -> None:
        """Returns when all that was submitted is found, or without `drain` when it is dropped and
        the futures are cancelled. Nothing can be submitted any more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finds the rest, unless there was an error."""
        self.close(drain=error is None)
