import pytest
import torch
from torch import nn

from anydepth.model.linear import Linear, round_products

SHAPES = [(5, 12), (3, 6, 12)]


def layer_of(precision: torch.dtype, dtype: torch.dtype = torch.float32) -> Linear:
    torch.manual_seed(1)
    layer = Linear(12, 7, dtype=dtype).train()
    round_products(layer, precision)
    return layer


def gradients(layer: Linear, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x = x.clone().requires_grad_()
    y = layer(x)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return y, *torch.autograd.grad((weights * y).sum(), (x, layer.weight, layer.bias))


@pytest.mark.parametrize("shape", SHAPES)
def test_value_and_gradients_are_those_of_a_plain_linear_map(shape: tuple[int, ...]) -> None:
    # the precision differs from that of x, so that the rounding way is taken, and has more digits
    layer, x = layer_of(torch.float64), torch.randn(shape)
    plain = nn.Linear(12, 7)
    plain.load_state_dict(layer.state_dict())
    for rounded, expected in zip(gradients(layer, x), gradients(plain, x), strict=True):
        torch.testing.assert_close(rounded, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_factors_are_rounded_and_results_keep_their_digits(shape: tuple[int, ...]) -> None:
    layer, x = layer_of(torch.bfloat16), torch.randn(shape)
    y = layer(x)
    expected = x.bfloat16().float() @ layer.weight.bfloat16().float().t() + layer.bias
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, expected, atol=0.02, rtol=0.01)
    assert not torch.equal(y, layer_of(torch.float32)(x)), "else nothing was rounded"


@pytest.mark.parametrize("part", ["value", "input", "weight", "bias"])
def test_rounded_gradients_point_where_exact_ones_do(part: str) -> None:
    number = ["value", "input", "weight", "bias"].index(part)
    x = torch.randn(40, 12)
    rounded, exact = (gradients(layer_of(precision), x)[number] for precision in (torch.bfloat16, torch.float32))
    assert torch.cosine_similarity(rounded.flatten(), exact.flatten(), dim=0) > 0.999


def test_a_trained_map_is_used_in_full_precision() -> None:
    layer, x = layer_of(torch.bfloat16).eval(), torch.randn(5, 12)
    assert torch.equal(layer(x), nn.functional.linear(x, layer.weight, layer.bias))
