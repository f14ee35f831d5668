"""Output words by a learned look at the encoder's states."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from anydepth.model.source import EncodedSource
from anydepth.vocabulary.lexical_table import StandingWords


def pooled_states(source: EncodedSource) -> Float[Tensor, "sentence encoder_dim"]:
    """The largest number of each dimension over the encoder's states of a sentence."""
    return source.memory.masked_fill(~source.mask.unsqueeze(-1), -torch.inf).amax(dim=1)


@dataclass(frozen=True, eq=False)
class LearnedSelection:
    """The words whose probability of occurring in the translation exceeds `threshold`, and the
    standing words.

    p(word) = sigmoid(w_word . m + b_word), where m has the largest number of each dimension over the
    encoder's states (Domhan et al., 2022).
    """

    standing: StandingWords
    weight: Float[Tensor, "vocab encoder_dim"]
    bias: Float[Tensor, " vocab"]
    threshold: float

    @property
    def name(self) -> str:
        """The selection in the words of a recipe."""
        return f"learned:{self.threshold:g}"

    @property
    def pieces(self) -> tuple[int, int]:
        """Those that the standing words are of."""
        return self.standing.pieces

    @property
    def encoder_dim(self) -> int:
        """As wide as the weights."""
        return self.weight.shape[1]

    @property
    def smallest(self) -> int:
        """As many as are always there."""
        return len(self.standing.always)

    def flops(self) -> int:
        """One product of the pooled states with all words."""
        return 2 * self.weight.numel()

    @property
    def least_odds(self) -> float:
        """The log-odds that a word must exceed."""
        return math.log(self.threshold) - math.log1p(-self.threshold)

    def logits(self, source: EncodedSource) -> Float[Tensor, "sentence vocab"]:
        """The log-odds of each word's occurring."""
        pooled = pooled_states(source)
        return torch.nn.functional.linear(pooled, self.weight.to(pooled), self.bias.to(pooled))

    def allowed(self, source: EncodedSource) -> Bool[Tensor, "sentence vocab"]:
        """The words that each sentence may use."""
        return self.standing.allowed(source) | (self.logits(source) > self.least_odds)
