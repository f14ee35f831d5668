import pytest
import torch

from anydepth.model.gradients import scale_gradient, supervision_scales


def test_values_pass_bit_by_bit_and_the_gradient_times_the_scale() -> None:
    x = torch.randn(3, 5, requires_grad=True)
    weights = torch.randn(3, 5)
    y = scale_gradient(x, 0.3)
    assert y.equal(x)
    (y * weights).sum().backward()
    assert x.grad is not None
    assert x.grad.equal(weights * 0.3)


def test_other_uses_of_the_same_tensor_keep_their_gradient() -> None:
    x = torch.randn(4, requires_grad=True)
    (scale_gradient(x, 7.0).sum() + x.sum()).backward()
    assert x.grad.tolist() == [8.0] * 4


def test_the_scales_fall_by_the_ratio_a_block_and_the_last_is_one() -> None:
    assert supervision_scales(0.5, 4) == (1.5, 1.0, 0.5, 1.0)
    assert supervision_scales(0.3, 1) == (1.0,)
    assert supervision_scales(1.1, 6) == pytest.approx((5.5, 4.4, 3.3, 2.2, 1.1, 1.0))
