"""Multi-head attention, with the keys and values made apart from the attending."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from anydepth.model.linear import Linear


class Attention(nn.Module):
    """Multi-head dot-product attention whose keys and values may come from a state of another
    width.

    A state that was copied upward needs keys and values only, so they are a method of their own
    (section 2.2 of the paper).
    """

    def __init__(self, dim: int, heads: int, *, memory_dim: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = Linear(dim, dim)
        self.key = Linear(memory_dim, dim)
        self.value = Linear(memory_dim, dim)
        self.output = Linear(dim, dim)
        for linear in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def keys_values(
        self, states: Float[Tensor, "row time memory_dim"]
    ) -> tuple[Float[Tensor, "row head time head_dim"], Float[Tensor, "row head time head_dim"]]:
        """The keys and values of `states`."""
        return self._split_heads(self.key(states)), self._split_heads(self.value(states))

    def attend(
        self,
        states: Float[Tensor, "row query dim"],
        keys: Float[Tensor, "row head time head_dim"],
        values: Float[Tensor, "row head time head_dim"],
        *,
        mask: Bool[Tensor, "#row #head #query time"] | None = None,
        is_causal: bool = False,
    ) -> Float[Tensor, "row query dim"]:
        """What `states` gather from `values`; `mask` is True where looking is allowed."""
        queries = self._split_heads(self.query(states))  # (row, head, query, head_dim)
        gathered = F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0, is_causal=is_causal
        )
        merged = gathered.transpose(1, 2).flatten(2)  # (row, query, dim)
        return torch.as_tensor(self.output(merged))

    def _split_heads(self, states: Tensor) -> Tensor:
        row, time, dim = states.shape
        return states.view(row, time, self.heads, dim // self.heads).transpose(1, 2)  # (row, head, time, head_dim)
