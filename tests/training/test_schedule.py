"""The learning rate, by numbers that one can check by hand."""

import pytest
from tiny import tiny_config

from anydepth.config.schema import TrainingConfig
from anydepth.training.schedule import budget_used, learning_rate


def settings(*changes: str) -> TrainingConfig:
    return tiny_config("training.learning_rate=0.8", "training.warmup=4", "training.updates=20", *changes).training


def test_the_rate_rises_in_equal_steps_and_then_falls_with_the_square_root() -> None:
    rates = [learning_rate(settings(), update) for update in (1, 2, 3, 4, 16, 64)]
    assert rates == pytest.approx([0.2, 0.4, 0.6, 0.8, 0.4, 0.2])


def test_the_last_part_of_the_budget_runs_out_to_almost_nothing() -> None:
    config = settings("training.cooldown=0.5")
    plain = settings()
    factors = [learning_rate(config, update) / learning_rate(plain, update) for update in (1, 10, 11, 13, 16, 20)]
    assert factors == pytest.approx([1, 1, 1, 0.8, 0.5, 0.1])


def test_the_clock_runs_the_rate_out_when_it_is_nearer_to_its_end() -> None:
    config = settings("training.cooldown=0.5", "training.minutes=2")
    assert learning_rate(config, 4, seconds=60.0) == pytest.approx(0.8)
    assert learning_rate(config, 4, seconds=90.0) == pytest.approx(0.4)
    assert learning_rate(config, 4, seconds=120.0) == 0
    assert learning_rate(config, 4, seconds=500.0) == 0


def test_the_budget_is_what_is_spent_first() -> None:
    config = settings("training.minutes=2")
    assert budget_used(config, 5, seconds=12.0) == pytest.approx(0.25)
    assert budget_used(config, 5, seconds=60.0) == pytest.approx(0.5)
    assert budget_used(config, 30, seconds=0.0) == 1
    assert budget_used(settings(), 0, seconds=1e9) == 0
