"""The Transformer that can stop after any decoder block (section 2 of the paper)."""

import functools
import math
from collections.abc import Callable, Collection, Sequence
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from anydepth.config.model_settings import ModelConfig, Positions
from anydepth.errors import ConfigError
from anydepth.model.blocks import Attended, DecoderBlock, EncoderBlock
from anydepth.model.cache import DecoderCache
from anydepth.model.dropout import Dropout
from anydepth.model.exit_adapter import ExitAdapter
from anydepth.model.gradients import scale_gradient

POSITIONS = 512  # position tables grow in steps of this many
BANNING_BIAS = -1e4  # a word whose bias is as low or lower, down to -inf, is never produced
Revise = Callable[[int, Tensor, Tensor], Tensor]
Leaves = Callable[[int, Tensor, Tensor], Tensor]


class Transformer(nn.Module):
    """Encoder-decoder Transformer with output classifiers after its decoder blocks (Eqs. 1-3).

    One path serves everything: keys and values are computed from whatever a position's state is,
    new or copied from below; or, above block 1 and with `attended_states` "first" or "shared", from
    its state after block 1, with "shared" once for all of these blocks.
    """

    def __init__(self, config: ModelConfig, *, source_vocab: int, target_vocab: int, is_joint: bool) -> None:
        super().__init__()
        self.config = config
        encoder, decoder = config.encoder, config.decoder
        encoder_sizes = encoder.dim, encoder.ffn_dim, config.encoder_heads
        self.encoder = nn.ModuleList(
            EncoderBlock(
                *encoder_sizes,
                activation=config.activation,
                dropout=config.dropout,
                attention_dropout=config.attention_dropout,
            )
            for _ in range(encoder.blocks)
        )
        self.decoder = nn.ModuleList(
            DecoderBlock(
                decoder.dim,
                decoder.ffn_dim,
                config.heads,
                memory_dim=encoder.dim,
                activation=config.activation,
                dropout=config.dropout,
                attention_dropout=config.attention_dropout,
            )
            for _ in range(config.blocks)
        )
        for block in self._decoder_blocks[config.key_blocks :]:
            block.share_keys_of(self._decoder_blocks[config.key_blocks - 1])
        self.dropout = Dropout(config.dropout)
        self.target_embedding = _embedding(target_vocab, decoder.dim)
        if config.classifiers == "tied" and is_joint:
            if encoder.dim != decoder.dim:
                raise ConfigError(
                    'model.classifiers = "tied" with a joint vocabulary ties both embeddings, but model.encoder.dim '
                    f"= {encoder.dim} and model.decoder.dim = {decoder.dim} differ; make them equal, or prepare "
                    "separate vocabularies"
                )
            self.source_embedding = self.target_embedding
        else:
            self.source_embedding = _embedding(source_vocab, encoder.dim)
        own = {"untied": len(config.classifier_exits), "shared": 1, "tied": 0}[config.classifiers]
        self.classifiers = nn.ParameterList(_embedding(target_vocab, decoder.dim).weight for _ in range(own))
        # added to the scores of Eq. 3, beyond the paper
        self.output_bias = nn.Parameter(torch.zeros(target_vocab)) if config.output_bias else None
        adapted = config.blocks - 1 if config.exit_adapter else 0
        self.exit_adapters = nn.ModuleList(ExitAdapter(decoder.dim, config.exit_adapter) for _ in range(adapted))

    @property
    def blocks(self) -> int:
        """The number of decoder blocks, N."""
        return self.config.blocks

    @property
    def _decoder_blocks(self) -> list[DecoderBlock]:
        return cast(list[DecoderBlock], list(self.decoder))

    def classifier(self, n: int) -> Float[Tensor, "vocab dim"]:
        """The matrix W_n of the output classifier at exit n (Eq. 3), which scores words by
        `scored_states`."""
        assert n in self.config.classifier_exits, f"exit {n} has no classifier"
        if self.config.classifiers == "tied":
            return self.target_embedding.weight
        matrix: Tensor = self.classifiers[
            self.config.classifier_exits.index(n) if self.config.classifiers == "untied" else 0
        ]
        return matrix

    def encode(
        self, source: Int[Tensor, "batch source"], source_mask: Bool[Tensor, "batch source"]
    ) -> Float[Tensor, "batch source encoder_dim"]:
        """The encoder's output s, called memory."""
        states = self._embed(self.source_embedding, source, start=0)
        mask = source_mask[:, None, None, :]
        for block in self.encoder:
            states = block(states, mask)
        return states

    def decode(
        self,
        target_inputs: Int[Tensor, "batch time"],
        memory: Float[Tensor, "batch source encoder_dim"],
        source_mask: Bool[Tensor, "batch source"],
        *,
        exits: Int[Tensor, "batch time"] | None = None,
        gradient_scales: Sequence[float] | None = None,
        kept: Collection[int] | None = None,
    ) -> Float[Tensor, "block batch time dim"]:
        """The states h_t^n of all blocks (Eq. 1) for given target prefixes.

        With `exits` None every position goes through every block (aligned, Eq. 4). With `exits`
        block n updates the positions whose exit is n or higher and copies the others, so that the
        last block's states are h_t^{n_t} (mixed, Eq. 5). `gradient_scales[n - 1]` multiplies the
        gradient that block n + 1 sends down to block n (Algorithm 1). Where `kept` names some
        blocks, any other leaves every state as it is.
        """
        states = self.embed_targets(target_inputs)
        mask, attending = source_mask[:, None, None, :], Attending(self, memory)
        every: list[Tensor] = []
        for n, block in enumerate(self._decoder_blocks, 1):
            attending.look_at(n, states)
            if kept is not None and n not in kept:
                every.append(states)
                continue
            new = block.forced(states, mask, attending.at(n))
            states = new if exits is None else torch.where((exits >= n).unsqueeze(-1), new, states)
            every.append(states)
            if gradient_scales is not None and n < self.blocks:
                states = scale_gradient(states, gradient_scales[n - 1])
        return torch.stack(every)

    def decode_deciding(
        self,
        target_inputs: Int[Tensor, "batch time"],
        memory: Float[Tensor, "batch source encoder_dim"],
        source_mask: Bool[Tensor, "batch source"],
        leaves: Leaves,
    ) -> tuple[Float[Tensor, "block batch time dim"], Int[Tensor, "batch time"]]:
        """The states of `decode` and the exits n_t, where a position leaves after the first block n < N
        of which `leaves(n, states, running)` says so; `running` are the positions that reached it.

        What decides sees the states that translating would show it: those of earlier positions are
        copied above their exits.
        """
        states = self.embed_targets(target_inputs)
        mask, attending = source_mask[:, None, None, :], Attending(self, memory)
        exits = torch.full_like(target_inputs, self.blocks)
        running = torch.ones_like(target_inputs, dtype=torch.bool)
        every: list[Tensor] = []
        for n, block in enumerate(self._decoder_blocks, 1):
            attending.look_at(n, states)
            states = torch.where(running.unsqueeze(-1), block.forced(states, mask, attending.at(n)), states)
            every.append(states)
            if n < self.blocks:
                left = running & leaves(n, states, running)
                exits, running = exits.masked_fill(left, n), running & ~left
        return torch.stack(every), exits

    def embed_targets(self, target_inputs: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time dim"]:
        """The states h_t^0 that enter the first decoder block."""
        return self._embed(self.target_embedding, target_inputs, start=0)

    def scored_states(self, n: int, hidden: Float[Tensor, "row dim"]) -> Float[Tensor, "row dim"]:
        """What the classifier of exit n sees of states: a_n(h) where the exit has an adapter, else h.

        Whoever scores words goes through here. What is copied upward and what halting modules read
        is h itself.
        """
        return self.adapted_states(n, hidden) if self.exit_adapters and n < self.blocks else hidden

    def adapted_states(self, n: int, hidden: Float[Tensor, "row dim"]) -> Float[Tensor, "row dim"]:
        """a_n(h), where exit n has an adapter."""
        adapted: Tensor = self.exit_adapters[n - 1](hidden)
        return adapted

    def classifier_logits(self, n: int, scored: Float[Tensor, "row dim"]) -> Float[Tensor, "row vocab"]:
        """The scores of all words by the classifier of exit n, which sees `scored` (Eq. 3)."""
        return F.linear(scored, self.classifier(n), self.output_bias)

    def logits_at(self, n: int, hidden: Float[Tensor, "row dim"]) -> Float[Tensor, "row vocab"]:
        """The scores of all words for states that leave at exit n (Eq. 3)."""
        return self.classifier_logits(n, self.scored_states(n, hidden))

    def exit_logits(
        self,
        hidden: Float[Tensor, "row dim"],
        exits: Int[Tensor, " row"],
        classifier_logits: Callable[[int, Tensor], Tensor] | None = None,
    ) -> Float[Tensor, "row word"]:
        """The scores of all words for states that left at `exits`, each from its own exit's
        classifier (Eq. 3); of those that `classifier_logits` scores, where that is given."""
        score = classifier_logits or self.classifier_logits
        scored = by_exit(self.scored_states, hidden, exits) if self.exit_adapters else hidden
        if self.config.classifiers != "untied" or not len(exits):
            return score(self.config.classifier_exits[-1], scored)
        return by_exit(score, scored, exits)

    def start_cache(
        self, memory: Float[Tensor, "sentence source encoder_dim"], source_mask: Bool[Tensor, "sentence source"]
    ) -> DecoderCache:
        """What `step` needs before the first position of a batch of sentences."""
        return DecoderCache.start(memory, source_mask)

    def step(
        self, tokens: Int[Tensor, " row"], cache: DecoderCache, planned: Int[Tensor, " row"], revise: Revise
    ) -> tuple[Float[Tensor, "row dim"], Int[Tensor, " row"]]:
        """One more position of every row: the states h_t^{n_t} and the exits n_t.

        A row leaves after the block that its plan names. Before the first block, as n = 0, and
        after each block `revise(n, hidden, planned)` may change the plans of the rows still
        running: those that it sent beyond n the last time. A row that left goes on to feed keys and
        values of its copied state to every block above (section 2.2.1), each through that block's
        own projections.
        """
        states = self._embed(self.target_embedding, tokens[:, None], start=cache.time)  # (row, 1, dim)
        attended = states
        exits = revise(0, states[:, 0], planned.clone())
        running = torch.arange(len(tokens), device=tokens.device)
        for n, block in enumerate(self._decoder_blocks, 1):
            attended = states if makes_of_entering(self.config, n) else attended
            if n == self.config.keys_of(n):
                cache.append(n, *block.self_attention.keys_values(attended))
            if len(running) == 0:
                continue
            new = self._run_block(n, states[running], cache, running)
            states = states.index_copy(0, running, new)
            exits[running] = revise(n, new[:, 0], exits[running])
            running = running[exits[running] > n]
        cache.time += 1
        return states[:, 0], exits

    def _run_block(
        self, n: int, states: Float[Tensor, "chosen 1 dim"], cache: DecoderCache, rows: Int[Tensor, " chosen"]
    ) -> Float[Tensor, "chosen 1 dim"]:
        """Block n for some rows of a step. Rows of one sentence look at its source together, side
        by side as queries."""
        block, key_block = self._decoder_blocks[n - 1], self.config.keys_of(n)
        states = block.attend_self(states, *cache.past_of(key_block, rows), is_causal=False)
        # One row for each sentence, all of them running.
        if len(rows) == len(cache.memory) == len(cache.sentence_of_row):
            keys, values = cache.source_of(key_block, block.source_attention, rows)
            return block.transform(block.attend_source(states, keys, values, cache.source_mask[:, None, None, :]))
        sentences, place, counts = torch.unique_consecutive(
            cache.sentence_of_row[rows], return_inverse=True, return_counts=True
        )
        slot = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[place]
        grid = states.new_zeros(len(sentences), int(counts.max()), states.shape[-1])
        grid[place, slot] = states[:, 0]
        keys, values = cache.source_of(key_block, block.source_attention, sentences)
        mask = cache.source_mask[sentences][:, None, None, :]
        grid = block.attend_source(grid, keys, values, mask)
        return block.transform(grid[place, slot].unsqueeze(1))

    def _embed(
        self, embedding: nn.Embedding, tokens: Int[Tensor, "batch time"], *, start: int
    ) -> Float[Tensor, "batch time dim"]:
        """Embeddings, times sqrt(dim) where they are scaled, plus the sinusoids of the positions
        from `start` on."""
        dim, stop = embedding.embedding_dim, start + tokens.shape[1]
        table = _sinusoid_table(-(-stop // POSITIONS) * POSITIONS, dim, self.config.positions)
        words = embedding(tokens) * math.sqrt(dim) if self.config.scale_embeddings else embedding(tokens)
        embedded: Tensor = self.dropout(words + table[start:stop].to(tokens.device))
        return embedded


class Attending:
    """What the blocks attend to in one pass of all positions of given targets, from the first block to
    the last; made when a block first needs it."""

    def __init__(self, model: Transformer, memory: Float[Tensor, "batch source encoder_dim"]) -> None:
        self.model, self.memory = model, memory
        self.states: Tensor | None = None
        self.made: tuple[int, Attended] | None = None  # of the last block that needed any

    def look_at(self, n: int, states: Float[Tensor, "batch time dim"]) -> None:
        """Notes the states that enter block n."""
        if makes_of_entering(self.model.config, n):
            self.states = states

    def at(self, n: int) -> Attended:
        """What block n attends to."""
        assert self.states is not None, "states enter a block before it attends to them"
        key_block = self.model.config.keys_of(n)
        if self.made is None or self.made[0] != key_block:
            block = cast(DecoderBlock, self.model.decoder[key_block - 1])
            own, source = block.self_attention, block.source_attention
            self.made = key_block, Attended(own.keys_values(self.states), source.keys_values(self.memory))
        return self.made[1]


def makes_of_entering(config: ModelConfig, n: int) -> bool:
    """Whether block n makes keys and values of the states that enter it, and not of those after block
    1 that entered block 2."""
    return n <= 2 or not config.attends_first


def by_exit(
    make: Callable[[int, Tensor], Tensor], states: Float[Tensor, "row dim"], exits: Int[Tensor, " row"]
) -> Float[Tensor, "row made"]:
    """What `make(n, states)` gives for each state with its own exit n, those of one exit together."""
    distinct = torch.unique(exits).tolist()
    if len(distinct) <= 1:
        return make(distinct[0], states) if distinct else states
    rows = [(exits == n).nonzero()[:, 0] for n in distinct]
    parts = [make(n, states[chosen]) for n, chosen in zip(distinct, rows, strict=True)]
    return torch.cat(parts).index_select(0, torch.cat(rows).argsort())


def sinusoids(stop: int, dim: int, kind: Positions) -> Float[Tensor, "time dim"]:
    """The sinusoidal position vectors of positions 0..stop-1: sines in the first half, cosines in
    the second."""
    angles = torch.arange(stop)[:, None] * position_rates(dim, kind)  # (time, dim / 2)
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()


def position_rates(dim: int, kind: Positions) -> Float[Tensor, " rate"]:
    """How fast the angles of the dim / 2 sinusoids grow with the position: in float64 for MarianMT,
    which makes them in that precision."""
    match kind:
        case "sinusoidal":
            return torch.exp(torch.arange(dim // 2) * (-math.log(10_000.0) / max(dim // 2 - 1, 1)))
        case "marian":
            return 10_000.0 ** (torch.arange(dim // 2, dtype=torch.float64) * -2 / dim)


@functools.lru_cache(maxsize=8)
def _sinusoid_table(stop: int, dim: int, kind: Positions) -> Tensor:
    """`sinusoids`, kept; made outside inference mode because training may be the next to use it."""
    with torch.inference_mode(False):
        return sinusoids(stop, dim, kind)


def _embedding(words: int, dim: int) -> nn.Embedding:
    """A table of `words` vectors whose entries have variance 1 / dim."""
    table = nn.Embedding(words, dim)
    nn.init.normal_(table.weight, std=dim**-0.5)
    return table
