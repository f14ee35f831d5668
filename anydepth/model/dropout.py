"""Dropout that draws its mask from raw random bits."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

STEPS = 2**16


class Dropout(nn.Module):
    """Inverted dropout. On a CPU the mask comes from 16 random bits an element, several times as
    fast as torch's Bernoulli draws; the rate is then rounded to 1/65536, and the kept values are
    scaled by the rounded rate.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.rate)
        dropped = min(round(self.rate * STEPS), STEPS - 1)
        bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        kept = bits.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - STEPS // 2
        return x * (kept * (STEPS / (STEPS - dropped)))
