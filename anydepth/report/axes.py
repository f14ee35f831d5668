"""Axes: round numbers for ticks, and where a value lies."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from anydepth.report.svg import Number

MOST_TICKS = 6
MARGIN = 0.05


@dataclass(frozen=True)
class Axis:
    """Values from `low` to `high` laid on pixels from `start` to `end`, with ticks at round
    numbers."""

    low: Number
    high: Number
    start: Number
    end: Number
    ticks: tuple[Number, ...]
    step: Number

    def place(self, value: Number) -> float:
        """The pixel of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def words(self, tick: Number) -> str:
        """A tick with as many decimals as the step needs, so that no two look alike."""
        decimals = max(0, -math.floor(math.log10(self.step) + 1e-9))
        return f"{tick:,.{decimals}f}"


def make_axis(values: Sequence[Number], *, start: Number, end: Number) -> Axis:
    """An axis around `values`, with a margin on both sides; a single value gets room around it."""
    low, high = min(values), max(values)
    if high - low < 1e-9 * max(1.0, abs(high)):
        room = max(abs(high) * 0.1, 0.5)
        low, high = low - room, high + room
    margin = MARGIN * (high - low)
    low, high = low - margin, high + margin
    step = round_step((high - low) / MOST_TICKS)
    first = math.ceil(low / step - 1e-9)
    ticks = tuple(count * step for count in range(first, math.floor(high / step + 1e-9) + 1))
    return Axis(low, high, start, end, ticks, step)


def exit_axis(blocks: int, *, start: Number, end: Number) -> Axis:
    """An axis of exits 1..N with a tick at whole exits."""
    step = math.ceil(blocks / 12)
    return Axis(0.8, blocks + 0.2, start, end, tuple(range(1, blocks + 1, step)), step)


def round_step(least: Number) -> float:
    """The smallest of 1, 2, 5, 10, 20, ... times a power of ten that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))
