"""How the minutes of the whole way are shared out."""

import math
from dataclasses import dataclass

from anydepth.errors import UsageError
from anydepth.limits import MOST_MINUTES

TRANSLATING = 0.3  # of all minutes, at most; what it leaves is for training
FINISHING = 0.2  # for choosing words, tuning and timing
# How often the tuning lines are translated at full depth, or what costs as much: the check of words,
# every exit, a candidate for each segment of the average exit, and the clock.
DECODINGS = 50
FEWEST_TUNED, MOST_HELD_OUT, HELD_OUT = 50, 1000, 0.05


@dataclass(frozen=True)
class AdoptionBudget:
    """The minutes of the whole command."""

    minutes: float

    def __post_init__(self) -> None:
        if not 0 < self.minutes <= MOST_MINUTES:
            raise UsageError(
                f"--minutes {self.minutes:g} is the time for everything; give one above 0 and up to {MOST_MINUTES:g}, "
                "as in 60"
            )

    @property
    def translating(self) -> float:
        """Seconds for translating."""
        return 60 * TRANSLATING * self.minutes

    def training(self, spent: float) -> float:
        """Seconds for training once `spent` seconds are over; there must be some."""
        left = 60 * (1 - FINISHING) * self.minutes - spent
        if left <= 0:
            raise UsageError(
                f"--minutes {self.minutes:g} leaves no time to train: {spent / 60:.1f} minutes were spent before it, "
                f"and a share of {FINISHING:g} is for tuning; give --minutes "
                f"{math.ceil(2 * spent / 60 / (1 - FINISHING))} or more"
            )
        return left

    def tuned_lines(self, held_out: int, *, seconds_per_line: float) -> int:
        """How many of the held-out lines the words and thresholds are chosen on, so that it fits the
        time for that."""
        fitting = 60 * FINISHING * self.minutes / (DECODINGS * max(seconds_per_line, 1e-9))
        return min(held_out, max(FEWEST_TUNED, int(fitting)))


def held_out_lines(pairs: int) -> int:
    """How many of so many pairs are not trained on."""
    return min(MOST_HELD_OUT, max(FEWEST_TUNED, int(HELD_OUT * pairs)))
