"""The time of searches as a share of full depth's, in interleaved rounds on part of the validation
text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from anydepth.clock.calls import search_calls
from anydepth.clock.machine import timing_place
from anydepth.clock.rounds import Clock, Work, interleave
from anydepth.exits.parsing import threshold_policy
from anydepth.exits.policies import FixedExit, Policy
from anydepth.inference.engines.engine import Engine
from anydepth.messages.say import Say
from anydepth.runs.operating_points import ClockRecipe
from anydepth.search.decoding import SearchSettings
from anydepth.tuning.decoded_points import TunedSearch
from anydepth.tuning.prices import PriceList, SearchWork, fit_prices
from anydepth.tuning.replay import ReplayRecord
from anydepth.vocabulary.selection import WordSelection

HARDLY_EVER = float(np.nextafter(np.float32(1), np.float32(0)))  # a threshold that is looked at and not exceeded


@dataclass(frozen=True)
class PointTimer:
    """Reads `clock` while `engine` searches `sentences`, `batch` of them at a time; as many as the
    settings allow if None."""

    engine: Engine
    sentences: Sequence[Sequence[int]]
    settings: SearchSettings
    batch: int | None
    rounds: int
    clock: Clock
    say: Say

    @property
    def recipe(self) -> ClockRecipe:
        """What the times are measured with."""
        place = timing_place(self.engine, replace(self.settings, batch_sentences=self.batch))
        return ClockRecipe(place, sentences=len(self.sentences), rounds=self.rounds)

    @property
    def full_depth(self) -> TunedSearch:
        """What every time is a share of: all blocks, with all words."""
        blocks = self.engine.model.blocks
        return TunedSearch(FixedExit(blocks, blocks))

    def time_shares(self, searches: Sequence[TunedSearch]) -> list[float]:
        """The time of each search over that of full depth with all words in the same round; the
        median over the rounds."""
        reference = self.full_depth
        others = [search for search in searches if not search.is_same(reference)]
        shares = iter(shares_of_first(self.seconds([reference, *others]))[1:])
        return [1.0 if search.is_same(reference) else next(shares) for search in searches]

    def seconds(self, searches: Sequence[TunedSearch]) -> list[list[float]]:
        """The seconds of each search in each round; every search runs once before the rounds."""
        works = [Work(search_calls(*self._parts(search), batch=self.batch), []) for search in searches]
        for work in works:
            for call in work.whole:
                call.run()
        self.say(f"timing {len(works)} searches of {len(self.sentences):,} sentences in {self.rounds} rounds")
        turns = interleave(works, rounds=self.rounds, clock=self.clock, tell=lambda number: None)
        return [[turn.seconds for turn in own] for own in turns]

    def fitted_prices(self, own: ReplayRecord, words: WordSelection | None, sizes: Sequence[int] | None) -> PriceList:
        """The prices of what a search does, from a handful of searches with the family and the
        words of the record; `sizes` are the numbers of words of the sentences that are timed."""
        searches = [self.full_depth, *probing_searches(own, self.engine, words)]
        shape, works = own.shape, []
        for search in searches:
            engine, sentences, policy, settings = self._parts(search)
            exits = [best.exits for best, *_ in engine.search(sentences, policy, settings)]
            works.append(SearchWork.of_search(shape, policy, exits, None if search.words is None else sizes))
        turns = self.seconds(searches)
        prices = fit_prices(works, [share * median(turns[0]) for share in shares_of_first(turns)])
        self.say(prices.describe(shape))
        return prices

    def _parts(self, search: TunedSearch) -> tuple[Engine, Sequence[Sequence[int]], Policy, SearchSettings]:
        return self.engine, self.sentences, search.policy, replace(self.settings, words=search.words)


def shares_of_first(turns: Sequence[Sequence[float]]) -> list[float]:
    """The median over the rounds of what each took, over what the first took in the same round."""
    return [median(own / first for own, first in zip(each, turns[0], strict=True)) for each in turns]


def probing_searches(own: ReplayRecord, engine: Engine, words: WordSelection | None) -> list[TunedSearch]:
    """Searches that do different work: exits that are fixed low, in the middle and high; a look at
    the first exit, and at every exit, that never stops; the same where half of the tokens stop."""
    blocks, family = own.shape.blocks, own.policy.family
    fixed = {1, -(-blocks // 2), *([] if words is None else [blocks])} - ({blocks} if words is None else set())
    halves = [float(np.median(signals).clip(0, HARDLY_EVER)) for signals in own.signals]
    ends = [1.0] * (blocks - 2)
    looking = [[HARDLY_EVER, *ends], [HARDLY_EVER] * (blocks - 1), [halves[0], *ends], halves]
    policies: list[Policy] = [
        *(FixedExit(n, blocks) for n in sorted(fixed)),
        *(threshold_policy(family, thresholds, engine.model) for thresholds in looking),
    ]
    return [TunedSearch(policy, words) for policy in policies]


def spread_out(sentences: Sequence[Sequence[int]], count: int) -> list[int]:
    """The numbers of at most `count` sentences, from the beginning to the end of the text."""
    places = np.linspace(0, len(sentences), num=min(count, len(sentences)), endpoint=False)
    return [int(place) for place in places]
