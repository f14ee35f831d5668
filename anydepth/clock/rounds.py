"""Timing in interleaved rounds, and ratios that are taken within them."""

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from anydepth.clock.calls import Call

Clock = Callable[[], float]


@dataclass(frozen=True)
class Work:
    """What a contestant does in its turn: the calls for whole translations, and those for one
    output token of each."""

    whole: Sequence[Call]
    first: Sequence[Call]


@dataclass(frozen=True)
class Turn:
    """The seconds of each call in one turn of a contestant."""

    whole: list[float]
    first: list[float]

    @property
    def seconds(self) -> float:
        """The time of the whole, end to end."""
        return sum(self.whole)

    @property
    def decoding_seconds(self) -> float:
        """The time of decoding alone: the whole without what the same sentences took with exactly
        one output token each."""
        return self.seconds - sum(self.first)


@dataclass(frozen=True)
class Spread:
    """The median of a figure over the rounds, with the lowest and the highest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """The spread of `values`, one for each round."""
        return cls(median(values), min(values), max(values))


def interleave(works: Sequence[Work], *, rounds: int, clock: Clock, tell: Callable[[int], None]) -> list[list[Turn]]:
    """The turns of each contestant. Every round runs every contestant once, and each round begins
    with another one.

    A machine that is slow for a while is so for all contestants of a round, and no one is always
    the first.
    """
    turns: list[list[Turn]] = [[] for _ in works]
    gc.collect()
    gc.freeze()  # so that nobody's turn has to look through what was there before
    try:
        for number in range(rounds):
            tell(number + 1)
            for place in range(len(works)):
                contestant = (place + number) % len(works)
                gc.collect()
                turns[contestant].append(
                    Turn(timed(works[contestant].whole, clock), timed(works[contestant].first, clock))
                )
    finally:
        gc.unfreeze()
    return turns


def timed(calls: Sequence[Call], clock: Clock) -> list[float]:
    """The seconds that each call took."""
    seconds = []
    for call in calls:
        started = clock()
        call.run()
        seconds.append(clock() - started)
    return seconds


def rates(turns: Sequence[Turn], count: int) -> Spread:
    """`count` by the seconds of a round, end to end."""
    return Spread.of([count / turn.seconds for turn in turns])


def decoding_rates(turns: Sequence[Turn], count: int) -> Spread | None:
    """`count` by the seconds of a round in decoding alone; None where it is too short to be told
    from nothing."""
    return (
        Spread.of([count / turn.decoding_seconds for turn in turns])
        if all(turn.decoding_seconds > 0 for turn in turns)
        else None
    )


def speedup(turns: Sequence[Turn], against: Sequence[Turn], *, count: int, rival_count: int) -> Spread:
    """How many times as fast as `against`, end to end, round by round."""
    pairs = zip(turns, against, strict=True)
    return Spread.of([(count / turn.seconds) / (rival_count / other.seconds) for turn, other in pairs])


def decoding_speedup(turns: Sequence[Turn], against: Sequence[Turn], *, count: int, rival_count: int) -> Spread | None:
    """The same in decoding alone; None where it is too short to be told from nothing."""
    if not count or not rival_count or any(turn.decoding_seconds <= 0 for turn in [*turns, *against]):
        return None
    pairs = zip(turns, against, strict=True)
    return Spread.of(
        [(count / turn.decoding_seconds) / (rival_count / other.decoding_seconds) for turn, other in pairs]
    )


def latency(turns: Sequence[Turn], share: float) -> float:
    """The milliseconds that `share` of all calls did not exceed, by nearest rank; the median over
    the rounds."""
    ranked = [sorted(turn.whole) for turn in turns]
    return 1000 * median(values[max(0, math.ceil(share * len(values)) - 1)] for values in ranked)
