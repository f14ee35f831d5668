"""Where the time of an engine goes: the share of each phase of its searches, for engines that tell."""

from collections.abc import Sequence

from anydepth.bench.contestants import Contestant, OwnContestant
from anydepth.clock.rounds import Spread, Work

LOOKS = "looks"  # at words: classifiers and decisions together
LOOK_PHASES = ("classifiers", "decisions")

PhaseShares = dict[str, Spread]  # of the whole time, by phase


def phase_shares(contestants: Sequence[Contestant], works: Sequence[Work], *, rounds: int) -> list[PhaseShares | None]:
    """The shares of each contestant over rounds of whole translations that all take turns in; None
    for one that does not tell.

    These rounds are not those of the clock, which nothing but the work itself should run in.
    """
    told: list[list[dict[str, float]]] = [[] for _ in contestants]
    for _ in range(rounds):
        for place, contestant in enumerate(contestants):
            if seconds := seconds_of(contestant, works[place]):
                told[place].append(shares_of(seconds))
    return [
        {phase: Spread.of([shares[phase] for shares in each]) for phase in each[0]} if each else None for each in told
    ]


def seconds_of(contestant: Contestant, work: Work) -> dict[str, float]:
    """The seconds of each phase in one turn of whole translations; empty where they are not told."""
    if not isinstance(contestant, OwnContestant):
        return {}
    before = contestant.engine.phase_seconds()
    if before is None:
        return {}
    for call in work.whole:
        call.run()
    after = contestant.engine.phase_seconds()
    assert after is not None
    return {phase: seconds - before.get(phase, 0.0) for phase, seconds in after.items()}


def shares_of(seconds: dict[str, float]) -> dict[str, float]:
    """Each phase's share of the whole, that of all looks first."""
    total = sum(seconds.values()) or 1.0
    shares = {phase: spent / total for phase, spent in seconds.items()}
    return {LOOKS: sum(shares.get(phase, 0.0) for phase in LOOK_PHASES), **shares}
