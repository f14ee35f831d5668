"""What the decoder keeps between two time steps."""

from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from anydepth.model.attention import Attention

FIRST_CAPACITY = 16


@dataclass
class PastStates:
    """The self-attention keys and values of one block, for every row and past position."""

    keys: Float[Tensor, "row head capacity head_dim"]
    values: Float[Tensor, "row head capacity head_dim"]


@dataclass
class SourceStates:
    """The source keys and values of one block; `is_ready` tells for which sentences they have been
    computed."""

    keys: Float[Tensor, "sentence head source head_dim"]
    values: Float[Tensor, "sentence head source head_dim"]
    is_ready: Bool[Tensor, " sentence"]


@dataclass
class DecoderCache:
    """Keys and values for rows that belong to sentences; the rows of a sentence stand together, in
    the order of sentences.

    The source's keys and values are kept per sentence, not per row, and are computed for a block
    and a sentence the first time that the block runs for it: a block that no token reaches costs
    nothing (`FirstCall` in appendix B).
    """

    memory: Float[Tensor, "sentence source encoder_dim"]
    source_mask: Bool[Tensor, "sentence source"]
    sentence_of_row: Int[Tensor, " row"]
    time: int = 0
    past: dict[int, PastStates] = field(default_factory=dict)
    source: dict[int, SourceStates] = field(default_factory=dict)

    @classmethod
    def start(
        cls, memory: Float[Tensor, "sentence source encoder_dim"], source_mask: Bool[Tensor, "sentence source"]
    ) -> "DecoderCache":
        """An empty cache with one row for every sentence."""
        return cls(memory, source_mask, torch.arange(len(memory), device=memory.device))

    def append(
        self, n: int, keys: Float[Tensor, "row head 1 head_dim"], values: Float[Tensor, "row head 1 head_dim"]
    ) -> None:
        """Keeps the keys and values that block n has at the current position."""
        if n not in self.past:
            row, head, _, head_dim = keys.shape
            empty = keys.new_empty(row, head, FIRST_CAPACITY, head_dim)
            self.past[n] = PastStates(empty, torch.empty_like(empty))
        past = self.past[n]
        if self.time == past.keys.shape[2]:
            past.keys = torch.cat([past.keys, torch.empty_like(past.keys)], dim=2)
            past.values = torch.cat([past.values, torch.empty_like(past.values)], dim=2)
        past.keys[:, :, self.time] = keys[:, :, 0]
        past.values[:, :, self.time] = values[:, :, 0]

    def past_of(
        self, n: int, rows: Int[Tensor, " chosen"]
    ) -> tuple[Float[Tensor, "chosen head time head_dim"], Float[Tensor, "chosen head time head_dim"]]:
        """The keys and values of block n up to and including the current position, for `rows`."""
        past, upto = self.past[n], self.time + 1
        keys, values = past.keys[:, :, :upto], past.values[:, :, :upto]
        return (keys, values) if len(rows) == len(self.sentence_of_row) else (keys[rows], values[rows])

    def source_of(
        self, n: int, attention: Attention, sentences: Int[Tensor, " chosen"]
    ) -> tuple[Float[Tensor, "chosen head source head_dim"], Float[Tensor, "chosen head source head_dim"]]:
        """The source keys and values of block n for `sentences`, computed now for those that have
        none yet."""
        if n not in self.source:
            head_dim = attention.key.out_features // attention.heads
            empty = self.memory.new_empty(len(self.memory), attention.heads, self.memory.shape[1], head_dim)
            self.source[n] = SourceStates(
                empty, torch.empty_like(empty), torch.zeros(len(empty), dtype=torch.bool, device=empty.device)
            )
        source = self.source[n]
        missing = sentences[~source.is_ready[sentences]]
        if len(missing):
            source.keys[missing], source.values[missing] = attention.keys_values(self.memory[missing])
            source.is_ready[missing] = True
        return (
            (source.keys, source.values)
            if len(sentences) == len(self.memory)
            else (source.keys[sentences], source.values[sentences])
        )

    def choose_rows(self, rows: Int[Tensor, " chosen"]) -> None:
        """Makes row i what row `rows[i]` was, for search; rows of a sentence must stay together, in
        order."""
        if torch.equal(rows, torch.arange(len(self.sentence_of_row), device=rows.device)):
            return
        self.sentence_of_row = self.sentence_of_row[rows]
        for past in self.past.values():
            past.keys, past.values = past.keys.index_select(0, rows), past.values.index_select(0, rows)

    def choose_sentences(self, sentences: Int[Tensor, " chosen"]) -> None:
        """Keeps `sentences` (ascending) and their rows; the others are finished."""
        kept = torch.isin(self.sentence_of_row, sentences)
        self.choose_rows(kept.nonzero()[:, 0])
        self.sentence_of_row = torch.searchsorted(sentences, self.sentence_of_row)
        self.memory, self.source_mask = self.memory[sentences], self.source_mask[sentences]
        for source in self.source.values():
            source.keys, source.values = source.keys[sentences], source.values[sentences]
            source.is_ready = source.is_ready[sentences]
