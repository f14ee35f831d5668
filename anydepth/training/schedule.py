"""How fast to learn: warm-up, inverse square root, and an optional run-out at the end."""

import math

from anydepth.config.schema import TrainingConfig


def learning_rate(config: TrainingConfig, update: int, *, seconds: float = 0.0) -> float:
    """The rate of update number `update` (from 1): linear warm-up to the peak, then peak *
    sqrt(warmup / update) (section 4.1).

    With `cooldown` c the last fraction c of the budget multiplies the rate by a factor that falls
    linearly from 1 to 0.
    """
    rate = config.learning_rate * min(update / config.warmup, math.sqrt(config.warmup / update))
    left = 1 - budget_used(config, update - 1, seconds=seconds)
    return rate * min(1.0, left / config.cooldown) if config.cooldown else rate


def budget_used(config: TrainingConfig, updates: int, *, seconds: float) -> float:
    """The share (0..1) of the budget that is spent, by updates or by the clock, whichever is nearer
    to its end."""
    by_updates = updates / config.updates
    by_clock = seconds / (60 * config.minutes) if config.minutes else 0.0
    return min(1.0, max(by_updates, by_clock))
