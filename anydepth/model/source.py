"""Source sentences as the decoder sees them."""

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class EncodedSource:
    """What is known of a batch before its first output token: the source sentences, and what the
    encoder made of them."""

    tokens: Int[Tensor, "sentence source"]
    mask: Bool[Tensor, "sentence source"]
    memory: Float[Tensor, "sentence source encoder_dim"]

    def __len__(self) -> int:
        return len(self.tokens)
