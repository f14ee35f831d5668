"""What lies between a state and the classifier of an exit that was added to a trained model."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class ExitAdapter(nn.Module):
    """a_n(h) = LayerNorm(h + up(relu(down(h)))), by which the classifier of exit n scores words
    instead of h itself.

    Beyond the paper. A fresh one adds nothing to h before it normalises.
    """

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.down = nn.Linear(dim, width)
        self.up = nn.Linear(width, dim)
        self.norm = nn.LayerNorm(dim)
        nn.init.xavier_uniform_(self.down.weight)
        for zeros in (self.down.bias, self.up.weight, self.up.bias):
            nn.init.zeros_(zeros)

    def forward(self, states: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        normed: Tensor = self.norm(states + self.up(F.relu(self.down(states))))
        return normed
