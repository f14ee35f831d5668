"""Estimates with their bootstrap samples: arithmetic, curves and their difference."""

import numpy as np
import pytest

from anydepth.experiments.evidence import Estimate, MeasuredPoint, curve_difference, interpolated, mean, ratio_estimate


def estimate(value: float) -> Estimate:
    return Estimate(value, np.array([value - 1, value, value + 1]))


def points(*pairs: tuple[float, float]) -> list[MeasuredPoint]:
    return [MeasuredPoint(depth, estimate(bleu)) for depth, bleu in pairs]


def test_a_difference_subtracts_sample_by_sample() -> None:
    found = Estimate(3.0, np.array([1.0, 5.0])) - Estimate(1.0, np.array([2.0, 1.0]))
    assert (found.value, found.samples.tolist()) == (2.0, [-1.0, 4.0])


def test_a_curve_is_straight_between_its_points_whatever_their_order() -> None:
    curve = points((3.0, 30.0), (1.0, 20.0))
    found = interpolated(curve, 1.5)
    assert found is not None
    assert (found.value, found.samples.tolist()) == (22.5, [21.5, 22.5, 23.5])


@pytest.mark.parametrize(("depth", "expected"), [(1.0, 20.0), (3.0, 30.0), (0.9, None), (3.1, None)])
def test_a_curve_ends_at_its_outermost_points(depth: float, expected: float | None) -> None:
    found = interpolated(points((1.0, 20.0), (3.0, 30.0)), depth)
    assert (None if found is None else found.value) == expected


def test_a_single_point_is_a_curve_at_its_own_average_exit_alone() -> None:
    assert interpolated(points((2.0, 25.0)), 2.1) is None
    found = interpolated(points((2.0, 25.0)), 2.0)
    assert found is not None and found.value == 25.0


def test_curves_are_compared_at_the_points_of_either_within_the_other() -> None:
    first, second = points((1.0, 20.0), (3.0, 30.0)), points((2.0, 24.0), (4.0, 28.0))
    # The first one's point at 3 lies 30 - 26 above, the second one's at 2 lies 25 - 24 below.
    found = curve_difference(first, second)
    assert found is not None and found.value == pytest.approx((4 + 1) / 2)


def test_curves_without_a_common_average_exit_have_no_difference() -> None:
    assert curve_difference(points((1.0, 20.0), (2.0, 21.0)), points((3.0, 30.0))) is None


def test_the_difference_of_curves_changes_its_sign_with_their_order() -> None:
    first, second = points((1.0, 20.0), (3.0, 30.0)), points((2.0, 24.0), (4.0, 28.0))
    there, back = curve_difference(first, second), curve_difference(second, first)
    assert there is not None and back is not None and there.value == -back.value


def test_a_mean_is_that_of_the_values_and_of_the_samples() -> None:
    found = mean([estimate(1.0), estimate(4.0)])
    assert (found.value, found.samples.tolist()) == (2.5, [1.5, 2.5, 3.5])


def test_a_ratio_is_of_sums_and_not_a_mean_of_ratios() -> None:
    found = ratio_estimate(np.array([1, 6]), np.array([1, 2]))
    assert found.value == pytest.approx(7 / 3)
    assert set(np.round(found.samples, 6)) <= {1.0, 3.0, round(7 / 3, 6)}
