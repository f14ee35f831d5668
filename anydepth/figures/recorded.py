"""What pictures are drawn from: the exits and scores that translations recorded, checked against
the model's depth."""

import math
from collections.abc import Sequence

from anydepth.errors import UsageError


def check_exits(exits: Sequence[int], *, blocks: int) -> None:
    """Refuses a depth below 1 and exits that a model with so many blocks does not have."""
    if blocks < 1:
        raise UsageError(f"blocks = {blocks} but a decoder has at least 1 block; give the model's number of blocks")
    wrong = next((left for left in exits if not 1 <= left <= blocks), None)
    if wrong is not None:
        raise UsageError(
            f"exits lie between 1 and blocks = {blocks} but one is {wrong}; give the depth of the model that translated"
        )


def check_scores(scores: Sequence[float]) -> None:
    """Refuses scores that are no log-probabilities; a little above 0 is rounding."""
    wrong = next((score for score in scores if math.isnan(score) or score > 1e-3), None)
    if wrong is not None:
        raise UsageError(
            f"scores are log-probabilities, at most 0, but one is {wrong:g}; give Translation.scores as they are"
        )


def probability(score: float) -> float:
    """The probability of a token whose log-probability is `score`, at most 1."""
    return min(math.exp(score), 1.0)
