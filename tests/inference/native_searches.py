"""Searches of engines for random sentences, and what they found."""

import random
from dataclasses import replace

import pytest
from tiny import SOURCE_VOCAB

from anydepth.exits.policies import Policy
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.native.native_engine import has_native
from anydepth.search.beam import Hypothesis
from anydepth.search.decoding import SearchSettings

needs_native = pytest.mark.skipif(not has_native(), reason="there was no C++ compiler when anydepth was installed")
LOTS = 1_000_000  # of tokens: no limit


def sentences(count: int, *, longest: int = 9, seed: int = 1) -> list[list[int]]:
    randomness = random.Random(seed)
    return [randomness.choices(range(4, SOURCE_VOCAB), k=randomness.randint(1, longest)) for _ in range(count)]


def found(
    engine: Engine, texts: list[list[int]], policy: Policy, settings: SearchSettings, **limits: int
) -> list[list[Hypothesis]]:
    return engine.search(texts, policy, replace(settings, **{"batch_tokens": LOTS, **limits}))


def outputs(hypotheses: list[list[Hypothesis]]) -> list[list[tuple[list[int], list[int], bool]]]:
    return [[(each.tokens, each.exits, each.has_finished) for each in ranked] for ranked in hypotheses]


def scores(hypotheses: list[list[Hypothesis]]) -> list[float]:
    return [score for ranked in hypotheses for each in ranked for score in [each.score, *each.token_scores]]
