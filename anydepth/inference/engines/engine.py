"""The contract of every engine, and what it leaves to the plain step."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence

from anydepth.errors import UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.policies import Policy
from anydepth.inference.engines.open_search import OpenSearch
from anydepth.inference.engines.plain_search import plain_search, plain_search_every_exit
from anydepth.runs.run import Run
from anydepth.search.beam import Hypothesis
from anydepth.search.decoding import SearchSettings
from anydepth.vocabulary.selection import WordSelection

LOG = logging.getLogger(__name__)


class Engine(ABC):
    """Finds the hypotheses of source sentences, which are given as tokens without EOS. The plain
    step of the model is the specification: same tokens, same exits.

    An engine is a class in a module of its own and a line in choice.py. It must be able to search
    with the policies that it supports; all else has a plain default.
    """

    def __init__(self, model: AdaptiveTransformer, *, name: str) -> None:
        """`name` is the engine in the words of a recipe, such as "torch"; with 8-bit products it
        ends in "-int8"."""
        self.model, self.name = model, name
        self.told: set[str] = set()  # why policies were left to the plain step

    @classmethod
    @abstractmethod
    def make(cls, model: AdaptiveTransformer, *, int8: bool, threads: int | None, run: Run | None) -> "Engine":
        """The engine for `model`, the trained model of `run` where there is one; torch's number of
        threads if None.

        What cannot be had is refused with the reason.
        """

    @classmethod
    @abstractmethod
    def is_at_hand(cls, *, int8: bool, blocks: int, run: Run | None) -> bool:
        """Whether `make` would succeed for a model of so many decoder blocks, so that "auto" may
        choose it."""

    @abstractmethod
    def supports(self, policy: Policy) -> str | None:
        """None if the engine can follow `policy` with its model, else the reason why it cannot."""

    def supports_words(self, words: WordSelection) -> str | None:
        """None if the engine can search among selected words, else the reason why it cannot."""
        return "it does not choose among selected words"

    @abstractmethod
    def own_search(
        self, sequences: Sequence[Sequence[int]], policy: Policy, settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        """`search` for at least one sentence, a policy and words that the engine supports."""

    def own_search_every_exit(
        self, sequences: Sequence[Sequence[int]], settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        """`search_every_exit` for at least one sentence and a model that has every exit."""
        return plain_search_every_exit(self.model, sequences, settings)

    def executed_flops(self) -> int | None:
        """FLOPs that the decoder has executed in all searches so far; None where they are not
        counted."""
        return None

    def phase_seconds(self) -> dict[str, float] | None:
        """The seconds of each phase of all searches so far; None where they are not told."""
        return None

    def open_search(self, *, batch_tokens: int, batch_sentences: int | None = None) -> OpenSearch | None:
        """A search that stays open, whose batches have these limits for each thread; None if the
        engine has no such search, which is the default."""
        return None

    def search(
        self, sequences: Sequence[Sequence[int]], policy: Policy, settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        """The best hypotheses of each sentence, in the order of `sequences`.

        A policy or a selection of words that the engine does not support is left to the plain step;
        the first time, a line of the log says why.
        """
        if not sequences:
            return []
        reason = self.reason_against(policy, settings)
        if reason is not None:
            self.tell_once(reason)
            self.check(sequences, settings)
            return plain_search(self.model, sequences, policy, settings)
        return self.own_search(sequences, policy, settings)

    def reason_against(self, policy: Policy, settings: SearchSettings) -> str | None:
        """None if the engine can search with this policy among these words, else the reason why it
        cannot; words that are not of the model are refused."""
        if settings.words is not None:
            self.check_words(settings.words)
        reason = self.supports(policy)
        if reason is None and settings.words is not None:
            reason = self.supports_words(settings.words)
        return reason

    def check_words(self, words: WordSelection) -> None:
        """Refuses a selection of words of other vocabularies, or another encoder, than the model's."""
        own = self.model.source_embedding.num_embeddings, self.model.target_embedding.num_embeddings
        if words.pieces != own:
            raise UsageError(
                f"the word selection {words.name} is of vocabularies of {words.pieces[0]:,} and {words.pieces[1]:,} "
                f"pieces, but this model's have {own[0]:,} and {own[1]:,}; take one of the model's own run"
            )
        if words.encoder_dim not in (None, self.model.config.encoder.dim):
            raise UsageError(
                f"the word selection {words.name} looks at encoder states of width {words.encoder_dim}, but this "
                f"model's have {self.model.config.encoder.dim}; take one of the model's own run"
            )

    def check(self, sequences: Sequence[Sequence[int]], settings: SearchSettings) -> None:
        """Refuses sentences that the model has no room for, whoever searches."""
        for ids in sequences:
            self.checked_limit(ids, settings)

    def checked_limit(self, ids: Sequence[int], settings: SearchSettings) -> int:
        """The most tokens that the output of a sentence may have; refuses what would lead out of the
        tables of the model."""
        words, longest = self.model.source_embedding.num_embeddings, self.model.config.max_length
        smallest, largest = min(ids, default=0), max(ids, default=0)
        if smallest < 0 or largest >= words:
            raise UsageError(f"source tokens are numbers from 0 to {words - 1}, but there are {smallest} to {largest}")
        if len(ids) > longest:
            raise UsageError(f"a source of {len(ids)} tokens is longer than model.max_length = {longest}; cut it")
        limit = settings.limit(len(ids) + 1, max_length=longest)
        if limit < 1:
            raise UsageError("length_ratio and length_offset leave no room for any output; raise one of them")
        return limit

    def search_every_exit(self, sequences: Sequence[Sequence[int]], settings: SearchSettings) -> list[list[Hypothesis]]:
        """The best hypothesis of each sentence at each exit: those that fixed:n finds, as
        [sentence][n - 1]."""
        if self.model.config.exits != "all":
            raise UsageError(
                "this model has one exit, after its last block, so there is nothing to choose; train one with "
                'model.exits = "all"'
            )
        return self.own_search_every_exit(sequences, settings) if sequences else []

    def tell_once(self, reason: str) -> None:
        """Logs why the plain step searches, unless that was logged before."""
        if reason not in self.told:
            self.told.add(reason)
            LOG.warning("%s leaves the search to PyTorch in float32: %s", self.name, reason)
