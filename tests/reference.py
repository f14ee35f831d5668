"""Slow, obvious versions of what the package computes: one sentence, one position, one block and one head at a time.

They read the parameters of the package's modules and nothing else. Dropout is not part of them.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from anydepth.model.attention import Attention
from anydepth.model.blocks import DecoderBlock, EncoderBlock, FeedForward
from anydepth.model.transformer import Transformer

Projections = Callable[[int, int], int]


def own_projections(n: int, left: int) -> int:
    """Block n sees every state through its own key and value projections (section 2.2.1)."""
    return n


def projections_of_the_exit(n: int, left: int) -> int:
    """The mistake to tell apart: a state that left at block `left` keeps the keys and values it had there."""
    return min(n, left)


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    return layer.weight @ x + layer.bias


def layer_norm(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    centred = x - x.mean()
    return centred / torch.sqrt((centred**2).mean() + norm.eps) * norm.weight + norm.bias


def feed_forward(layer: FeedForward, x: Tensor) -> Tensor:
    return linear(layer.outer, linear(layer.inner, x).clamp(min=0))


def attend(attention: Attention, state: Tensor, seen: Sequence[Tensor], made_by: Sequence[Attention] | None = None) -> Tensor:
    """What `state` gathers from the states in `seen`, the keys and values of each made by the attention beside it."""
    makers = made_by or [attention] * len(seen)
    query = linear(attention.query, state)
    keys = [linear(maker.key, other) for maker, other in zip(makers, seen, strict=True)]
    values = [linear(maker.value, other) for maker, other in zip(makers, seen, strict=True)]
    width = len(query) // attention.heads
    gathered = []
    for head in range(attention.heads):
        part = slice(head * width, (head + 1) * width)
        scores = torch.stack([query[part] @ key[part] / math.sqrt(width) for key in keys])
        shares = scores.exp() / scores.exp().sum()
        gathered.append(torch.stack([share * value[part] for share, value in zip(shares, values, strict=True)]).sum(dim=0))
    return linear(attention.output, torch.cat(gathered))


def position_vector(position: int, dim: int) -> Tensor:
    """Sines of the position at dim / 2 rates that fall from 1 to 1 / 10,000, then the cosines."""
    rates = [10_000 ** (-place / (dim // 2 - 1)) for place in range(dim // 2)]
    return torch.tensor([math.sin(position * rate) for rate in rates] + [math.cos(position * rate) for rate in rates])


def embed(table: nn.Embedding, tokens: Sequence[int]) -> list[Tensor]:
    dim = table.embedding_dim
    return [math.sqrt(dim) * table.weight[token] + position_vector(place, dim) for place, token in enumerate(tokens)]


def encoder_block(block: EncoderBlock, states: Sequence[Tensor]) -> list[Tensor]:
    attended = [layer_norm(block.attention_norm, state + attend(block.attention, state, states)) for state in states]
    return [layer_norm(block.feed_forward_norm, state + feed_forward(block.feed_forward, state)) for state in attended]


def decoder_block(
    block: DecoderBlock, state: Tensor, seen: Sequence[Tensor], memory: Sequence[Tensor], made_by: Sequence[Attention] | None = None
) -> Tensor:
    """The new state of one position, which sees itself and the positions before it."""
    state = layer_norm(block.self_attention_norm, state + attend(block.self_attention, state, seen, made_by))
    state = layer_norm(block.source_attention_norm, state + attend(block.source_attention, state, memory))
    return layer_norm(block.feed_forward_norm, state + feed_forward(block.feed_forward, state))


def encode(model: Transformer, tokens: Sequence[int]) -> list[Tensor]:
    """The memory of one sentence, without padding."""
    states = embed(model.source_embedding, tokens)
    for block in model.encoder:
        states = encoder_block(block, states)
    return states


def decode(
    model: Transformer,
    tokens: Sequence[int],
    memory: Sequence[Tensor],
    exits: Sequence[int],
    projections: Projections = own_projections,
) -> list[list[Tensor]]:
    """The states h_t^n of one sentence as [n][t], n from 0 (the embeddings): position by position, block by block (Eqs. 1 and 5)."""
    states = [embed(model.target_embedding, tokens)] + [[] for _ in model.decoder]
    for t, left in enumerate(exits):
        for n, block in enumerate(model.decoder, 1):
            if n <= left:
                made_by = [model.decoder[projections(n, exits[u]) - 1].self_attention for u in range(t + 1)]
                states[n].append(decoder_block(block, states[n - 1][t], states[n - 1][: t + 1], memory, made_by))
            else:
                states[n].append(states[n - 1][t])
    return states


def token_loss(classifier: Tensor, hidden: Tensor, target: int, smoothing: float) -> Tensor:
    """Minus the log-likelihood of a mixture: the target with weight 1 - smoothing, every word alike with the rest."""
    scores = torch.stack([word @ hidden for word in classifier])
    log_probabilities = scores - scores.exp().sum().log()
    return -(1 - smoothing) * log_probabilities[target] - smoothing * log_probabilities.mean()


def mixed_loss(
    model: Transformer,
    sentences: Sequence[tuple[Sequence[int], Sequence[int], Sequence[int]]],
    exits: Sequence[Sequence[Sequence[int]]],
    smoothing: float,
) -> Tensor:
    """Eq. 5 as a sum over tokens: sentences are (source, target inputs, targets), `exits` is [path][sentence][t]."""
    losses = []
    for path in exits:
        for (source, inputs, targets), sequence in zip(sentences, path, strict=True):
            states = decode(model, inputs, encode(model, source), sequence)
            for t, (target, left) in enumerate(zip(targets, sequence, strict=True)):
                losses.append(token_loss(model.classifier(left), states[left][t], target, smoothing))
    return torch.stack(losses).sum() / len(exits)
