"""Gradient scaling (appendix A of the paper)."""

from typing import Any

import torch
from torch import Tensor


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0] * ctx.scale, None


def scale_gradient(x: Tensor, scale: float) -> Tensor:
    """`x`, whose gradient is multiplied by `scale` on the way back: SCALE_GRADIENT of Algorithm 1.

    Departure: the paper writes scale * x + (1 - scale) * stop_gradient(x), which rounds x; here x
    passes unchanged.
    """
    scaled: Tensor = _ScaledGradient.apply(x, scale)  # type: ignore[no-untyped-call]
    return scaled


def supervision_scales(ratio: float, blocks: int) -> tuple[float, ...]:
    """gamma_n = ratio * (N - n) for n < N, and gamma_N = 1 (appendix A, Algorithm 1).

    Departure: the formula gives gamma_N = 0, by which Algorithm 1 would divide; gamma_N = 1 leaves
    the last block alone.
    """
    return (*(ratio * (blocks - n) for n in range(1, blocks)), 1.0)
