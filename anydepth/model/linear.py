"""Linear maps whose products may be made in fewer digits while training."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class _RoundedLinear(torch.autograd.Function):
    """x W^T + b whose three products, that of the result and those of the gradient, have factors of
    `precision`; sums and everything that is returned keep the digits of x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, precision: torch.dtype) -> Tensor:
        rows, rounded = x.flatten(0, -2).to(precision), weight.to(precision)  # (row, in), (out, in)
        ctx.save_for_backward(rows, rounded)
        product = torch.mm(rows, rounded.t()).to(x.dtype)
        return product.add_(bias).view(*x.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        rows, rounded = ctx.saved_tensors
        whole = gradients[0].flatten(0, -2)  # (row, out)
        gradient = whole.to(rounded.dtype)
        by_input = torch.mm(gradient, rounded).to(whole.dtype).view(*gradients[0].shape[:-1], rounded.shape[1])
        return by_input, torch.mm(gradient.t(), rows).to(whole.dtype), whole.sum(dim=0), None


class Linear(nn.Linear):
    """A linear map that rounds the factors of its products to `precision` while training; what was
    trained is used in full precision."""

    precision: torch.dtype = torch.float32

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.precision == x.dtype:
            return F.linear(x, self.weight, self.bias)
        product: Tensor = _RoundedLinear.apply(x, self.weight, self.bias, self.precision)  # type: ignore[no-untyped-call]
        return product


def round_products(model: nn.Module, precision: torch.dtype) -> None:
    """Sets the precision of all linear maps of `model` while it trains."""
    for module in model.modules():
        if isinstance(module, Linear):
            module.precision = precision
