"""The minutes of the whole way: shared out, and never less than nothing."""

import pytest

from anydepth.adding_exits.budget import AdoptionBudget, held_out_lines
from anydepth.errors import UsageError


def test_what_translating_does_not_need_is_for_training() -> None:
    budget = AdoptionBudget(60)
    assert budget.translating == pytest.approx(18 * 60)
    assert budget.training(0) == pytest.approx(48 * 60)
    assert budget.training(18 * 60) == pytest.approx(30 * 60)


def test_a_slow_model_is_tuned_on_fewer_lines_and_never_on_too_few() -> None:
    budget = AdoptionBudget(60)
    assert budget.tuned_lines(1000, seconds_per_line=1e-6) == 1000
    assert budget.tuned_lines(1000, seconds_per_line=0.05) == 288  # 12 minutes for 50 times 0.05 seconds
    assert budget.tuned_lines(1000, seconds_per_line=9) == 50


@pytest.mark.parametrize(("pairs", "held_out"), [(500, 50), (2000, 100), (20_000, 1000), (900_000, 1000)])
def test_a_twentieth_is_held_out_and_at_most_a_thousand(pairs: int, held_out: int) -> None:
    assert held_out_lines(pairs) == held_out


@pytest.mark.parametrize("minutes", [0, -1, float("nan"), float("inf")])
def test_no_time_at_all_is_refused(minutes: float) -> None:
    with pytest.raises(UsageError, match=r"--minutes \S+ is the time for everything; give one above 0"):
        AdoptionBudget(minutes)


def test_a_time_that_is_over_before_training_begins_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"--minutes 2 leaves no time to train: 1.6 minutes .*; give --minutes 4 or more"
    ):
        AdoptionBudget(2).training(96)
