import pytest
import torch

from anydepth.model.dropout import STEPS, Dropout

LARGE = 400_000


def dropped(rate: float, x: torch.Tensor, seed: int = 1) -> torch.Tensor:
    torch.manual_seed(seed)
    return Dropout(rate).train()(x)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_the_asked_share_is_dropped_and_the_expectation_kept(rate: float) -> None:
    y = dropped(rate, torch.ones(LARGE))
    deviation = (rate * (1 - rate) / LARGE) ** 0.5
    assert abs((y == 0).float().mean().item() - rate) < 5 * deviation
    assert abs(y.mean().item() - 1) < 5 * deviation / (1 - rate)


def test_kept_values_are_all_scaled_by_the_same_factor() -> None:
    x = torch.randn(5, 7, 3)
    y = dropped(0.25, x)
    kept = y != 0
    assert kept.any()
    assert not kept.all()
    torch.testing.assert_close(y[kept], x[kept] / 0.75)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 63])
def test_neighbours_are_dropped_independently_for_any_number_of_elements(size: int) -> None:
    torch.manual_seed(1)
    layer = Dropout(0.5).train()
    patterns = torch.stack([layer(torch.ones(size)) for _ in range(400)]) != 0
    assert ((patterns.float().mean(dim=0) - 0.5).abs() < 0.15).all()
    agreement = (patterns[:, :, None] == patterns[:, None, :]).float().mean(dim=0)
    assert ((agreement - 0.5).abs()[~torch.eye(size, dtype=torch.bool)] < 0.15).all()


def test_evaluation_and_rate_zero_leave_the_input_as_it_is() -> None:
    x = torch.randn(4, 5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x


def test_the_gradient_is_the_mask() -> None:
    x = torch.randn(6, 11, requires_grad=True)
    y = dropped(0.4, x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, (y / x).detach())


def test_the_same_seed_drops_the_same_and_another_seed_others() -> None:
    x = torch.ones(100)
    assert dropped(0.5, x, seed=3).equal(dropped(0.5, x, seed=3))
    assert not dropped(0.5, x, seed=3).equal(dropped(0.5, x, seed=4))


@pytest.mark.parametrize("rate", [1 / STEPS, 1 - 1 / STEPS, 0.999999])
def test_extreme_rates_stay_finite(rate: float) -> None:
    assert dropped(rate, torch.ones(1000)).isfinite().all()
