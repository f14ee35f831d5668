"""A value and how sure it is: from the bootstrap of one run, or from several runs that differ by
the seed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from anydepth.experiments.records import MeasurementRecord

# The 97.5% quantile of Student's t by degrees of freedom; beyond the list the normal one is close.
T_QUANTILES = (
    12.706,
    4.303,
    3.182,
    2.776,
    2.571,
    2.447,
    2.365,
    2.306,
    2.262,
    2.228,
    2.201,
    2.179,
    2.160,
    2.145,
    2.131,
    2.120,
)
NORMAL_QUANTILE = 1.960
OVER_SENTENCES = "95% bootstrap over sentences"


@dataclass(frozen=True)
class Value:
    """A mean over `seeds` runs with its interval, where there is one, and what the interval is."""

    mean: float
    low: float | None
    high: float | None
    seeds: int
    basis: str

    @property
    def spread(self) -> str:
        """Half of the interval, such as "±0.45"."""
        return "" if self.low is None or self.high is None else f"±{(self.high - self.low) / 2:.2f}"

    @property
    def words(self) -> str:
        """The value and its interval in words."""
        if self.low is None or self.high is None:
            return f"{self.mean:.2f}; {self.basis}"
        return f"{self.mean:.2f} ({self.low:.2f} to {self.high:.2f}; {self.basis})"


def over_seeds(values: Sequence[float]) -> Value:
    """The mean over seeds: with the range of two, and with the 95% t-interval of three or more."""
    count, mean = len(values), sum(values) / len(values)
    if count == 1:
        return Value(mean, None, None, 1, "one seed, no interval stored")
    if count == 2:
        # Student's quantile for two values is 12.7, which would say nothing.
        return Value(mean, min(values), max(values), 2, "range of 2 seeds")
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    quantile = T_QUANTILES[count - 2] if count - 2 < len(T_QUANTILES) else NORMAL_QUANTILE
    reach = quantile * deviation / math.sqrt(count)
    return Value(mean, mean - reach, mean + reach, count, f"95% t-interval over {count} seeds")


def bleu_of(measurements: Sequence[MeasurementRecord]) -> Value:
    """BLEU with its interval over sentences where one run was measured, and over seeds where
    several were."""
    scores = [measurement.bleu for measurement in measurements if measurement.bleu is not None]
    assert len(scores) == len(measurements)
    if len(measurements) == 1:
        return Value(scores[0], measurements[0].low, measurements[0].high, 1, OVER_SENTENCES)
    return over_seeds(scores)
