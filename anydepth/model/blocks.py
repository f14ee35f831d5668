"""Post-norm Transformer blocks (section 2.1): every sub-block adds to its input, then
normalises."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from anydepth.config.model_settings import Activation
from anydepth.model.attention import Attention
from anydepth.model.dropout import Dropout
from anydepth.model.linear import Linear

ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu}


class FeedForward(nn.Module):
    """The position-wise network: linear, an activation such as ReLU, linear."""

    def __init__(self, dim: int, ffn_dim: int, *, activation: Activation) -> None:
        super().__init__()
        self.activation: Activation = activation
        self.inner = Linear(dim, ffn_dim)
        self.outer = Linear(ffn_dim, dim)
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, states: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*batch dim"]:
        outer: Tensor = self.outer(ACTIVATIONS[self.activation](self.inner(states)))
        return outer


class EncoderBlock(nn.Module):
    """Self-attention, then the feed-forward network."""

    def __init__(
        self,
        dim: int,
        ffn_dim: int,
        heads: int,
        *,
        activation: Activation,
        dropout: float,
        attention_dropout: float,
    ) -> None:
        super().__init__()
        self.attention = Attention(dim, heads, memory_dim=dim, dropout=attention_dropout)
        self.attention_norm = nn.LayerNorm(dim)
        self.feed_forward = FeedForward(dim, ffn_dim, activation=activation)
        self.feed_forward_norm = nn.LayerNorm(dim)
        self.dropout = Dropout(dropout)

    def forward(
        self, states: Float[Tensor, "batch source dim"], mask: Bool[Tensor, "batch 1 1 source"]
    ) -> Float[Tensor, "batch source dim"]:
        keys, values = self.attention.keys_values(states)
        states = self.attention_norm(states + self.dropout(self.attention.attend(states, keys, values, mask=mask)))
        normed: Tensor = self.feed_forward_norm(states + self.dropout(self.feed_forward(states)))
        return normed


@dataclass(frozen=True)
class Attended:
    """What a decoder block attends to: keys and values of the target's positions and of the
    source's."""

    target: tuple[Tensor, Tensor]
    source: tuple[Tensor, Tensor]


class DecoderBlock(nn.Module):
    """Self-attention, attention to the source, then the feed-forward network (section 2.1).

    It is cut into its three sub-blocks because teacher forcing and stepping find keys and values in
    different places.
    """

    def __init__(
        self,
        dim: int,
        ffn_dim: int,
        heads: int,
        *,
        memory_dim: int,
        activation: Activation,
        dropout: float,
        attention_dropout: float,
    ) -> None:
        super().__init__()
        self.self_attention = Attention(dim, heads, memory_dim=dim, dropout=attention_dropout)
        self.self_attention_norm = nn.LayerNorm(dim)
        self.source_attention = Attention(dim, heads, memory_dim=memory_dim, dropout=attention_dropout)
        self.source_attention_norm = nn.LayerNorm(dim)
        self.feed_forward = FeedForward(dim, ffn_dim, activation=activation)
        self.feed_forward_norm = nn.LayerNorm(dim)
        self.dropout = Dropout(dropout)

    def share_keys_of(self, other: "DecoderBlock") -> None:
        """Makes keys and values by the weights of another block from now on."""
        for own, its in (
            (self.self_attention, other.self_attention),
            (self.source_attention, other.source_attention),
        ):
            own.key, own.value = its.key, its.value

    def forced(
        self, states: Float[Tensor, "batch time dim"], mask: Bool[Tensor, "batch 1 1 source"], attended: Attended
    ) -> Float[Tensor, "batch time dim"]:
        """`states` of all positions of given targets after the block, where each attends to those up
        to itself and to the source."""
        new = self.attend_self(states, *attended.target, is_causal=True)
        return self.transform(self.attend_source(new, *attended.source, mask))

    def attend_self(
        self,
        states: Float[Tensor, "row query dim"],
        keys: Float[Tensor, "row head time head_dim"],
        values: Float[Tensor, "row head time head_dim"],
        *,
        is_causal: bool,
    ) -> Float[Tensor, "row query dim"]:
        """`states` after the first sub-block."""
        gathered = self.self_attention.attend(states, keys, values, is_causal=is_causal)
        normed: Tensor = self.self_attention_norm(states + self.dropout(gathered))
        return normed

    def attend_source(
        self,
        states: Float[Tensor, "row query dim"],
        keys: Float[Tensor, "row head source head_dim"],
        values: Float[Tensor, "row head source head_dim"],
        mask: Bool[Tensor, "row 1 1 source"],
    ) -> Float[Tensor, "row query dim"]:
        """`states` after the second sub-block."""
        gathered = self.source_attention.attend(states, keys, values, mask=mask)
        normed: Tensor = self.source_attention_norm(states + self.dropout(gathered))
        return normed

    def transform(self, states: Float[Tensor, "row query dim"]) -> Float[Tensor, "row query dim"]:
        """`states` after the third sub-block."""
        normed: Tensor = self.feed_forward_norm(states + self.dropout(self.feed_forward(states)))
        return normed
