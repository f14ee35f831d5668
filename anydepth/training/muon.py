"""Muon (Jordan et al., 2024): steps along the momentum of a matrix with all its singular values near 1."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

MOMENTUM = 0.95
ITERATIONS = 5
COEFFICIENTS = 3.4445, -4.7750, 2.0315  # of Jordan et al.: the steepest at 0, so that few iterations do
ADAM_SIZE = 0.2  # times the square root of the longer side: the size of Adam's steps (Liu et al., 2025)
SMALLEST = 1e-7


class Muon(torch.optim.Optimizer):
    """Moves matrices by Muon, with Nesterov's momentum and decoupled weight decay, at a rate that has
    steps of the size of Adam's.

    torch's own multiplies matrix by matrix in bfloat16, which a processor without such instructions
    does slowly; here all matrices of one shape are multiplied together, in `precision`.
    """

    def __init__(
        self, groups: Iterable[dict[str, Any]], *, weight_decay: float, precision: torch.dtype = torch.float32
    ) -> None:
        super().__init__(groups, {"lr": 0.0, "weight_decay": weight_decay})
        self.precision = precision

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step of every matrix that has a gradient."""
        assert closure is None, "the gradients are there already"
        for group in self.param_groups:
            shapes: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes[parameter.shape].append(parameter)
            for same in shapes.values():
                self._move(same, group["lr"], group["weight_decay"])

    def _move(self, matrices: list[nn.Parameter], rate: float, weight_decay: float) -> None:
        """One step of matrices of one shape."""
        gradients = torch.stack([matrix.grad for matrix in matrices if matrix.grad is not None])
        for matrix in matrices:
            if not self.state[matrix]:
                self.state[matrix]["momentum_buffer"] = torch.zeros_like(matrix)
        momenta = [self.state[matrix]["momentum_buffer"] for matrix in matrices]
        for momentum, gradient in zip(momenta, gradients, strict=True):
            momentum.lerp_(gradient, 1 - MOMENTUM)
        steps = orthogonalized(gradients.lerp_(torch.stack(momenta), MOMENTUM), self.precision)
        size = rate * ADAM_SIZE * max(matrices[0].shape) ** 0.5
        for matrix, step in zip(matrices, steps, strict=True):
            matrix.mul_(1 - rate * weight_decay).sub_(step, alpha=size)


def orthogonalized(
    matrices: Float[Tensor, "matrix row column"], precision: torch.dtype = torch.float32
) -> Float[Tensor, "matrix row column"]:
    """Matrices with the same singular vectors, whose singular values are near 1, by Newton-Schulz
    iterations in `precision`."""
    if matrices.shape[1] > matrices.shape[2]:
        return orthogonalized(matrices.transpose(1, 2), precision).transpose(1, 2)
    a, b, c = COEFFICIENTS
    x: Tensor = (matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=SMALLEST)).to(precision)
    for _ in range(ITERATIONS):
        gram = torch.bmm(x, x.transpose(1, 2))
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.to(matrices.dtype)
