"""Slow, obvious versions of what the package computes: one sentence, one position, one block and
one head at a time.

They read the parameters of the package's modules and nothing else. Dropout is not part of them.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import torch
from torch import Tensor, nn

from anydepth.config.schema import Config
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.halting import GeometricHalting, Halting, MultinomialHalting, SequenceHalting
from anydepth.model.attention import Attention
from anydepth.model.blocks import DecoderBlock, EncoderBlock, FeedForward
from anydepth.model.transformer import Transformer

Projections = Callable[[int, int], int]
Signal = Callable[..., float]  # of the model, the states h_t^0..h_t^N, n and the first exit that decides


def own_projections(n: int, left: int) -> int:
    """Block n sees every state through its own key and value projections (section 2.2.1)."""
    return n


def projections_of_the_exit(n: int, left: int) -> int:
    """The mistake to tell apart: a state that left at block `left` keeps the keys and values it had
    there."""
    return min(n, left)


def linear(layer: nn.Linear, x: Tensor) -> Tensor:
    return layer.weight @ x + layer.bias


def layer_norm(norm: nn.LayerNorm, x: Tensor) -> Tensor:
    centred = x - x.mean()
    return centred / torch.sqrt((centred**2).mean() + norm.eps) * norm.weight + norm.bias


def feed_forward(layer: FeedForward, x: Tensor) -> Tensor:
    return linear(layer.outer, linear(layer.inner, x).clamp(min=0))


def attend(
    attention: Attention, state: Tensor, seen: Sequence[Tensor], made_by: Sequence[Attention] | None = None
) -> Tensor:
    """What `state` gathers from the states in `seen`, the keys and values of each made by the
    attention beside it."""
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
        gathered.append(
            torch.stack([share * value[part] for share, value in zip(shares, values, strict=True)]).sum(dim=0)
        )
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
    block: DecoderBlock,
    state: Tensor,
    seen: Sequence[Tensor],
    memory: Sequence[Tensor],
    made_by: Sequence[Attention] | None = None,
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
    """The states h_t^n of one sentence as [n][t], n from 0 (the embeddings): position by position,
    block by block (Eqs. 1 and 5)."""
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
    """Minus the log-likelihood of a mixture: the target with weight 1 - smoothing, every word alike
    with the rest."""
    scores = torch.stack([word @ hidden for word in classifier])
    log_probabilities = scores - scores.exp().sum().log()
    return -(1 - smoothing) * log_probabilities[target] - smoothing * log_probabilities.mean()


def mixed_loss(
    model: Transformer,
    sentences: Sequence[tuple[Sequence[int], Sequence[int], Sequence[int]]],
    exits: Sequence[Sequence[Sequence[int]]],
    smoothing: float,
) -> Tensor:
    """Eq. 5 as a sum over tokens: sentences are (source, target inputs, targets), `exits` is
    [path][sentence][t]."""
    losses = []
    for path in exits:
        for (source, inputs, targets), sequence in zip(sentences, path, strict=True):
            states = decode(model, inputs, encode(model, source), sequence)
            for t, (target, left) in enumerate(zip(targets, sequence, strict=True)):
                losses.append(token_loss(model.classifier(left), states[left][t], target, smoothing))
    return torch.stack(losses).sum() / len(exits)


def best_exit(scores: Sequence[Fraction], penalty: float) -> int:
    """The first n whose score minus penalty * n no other exceeds, in exact numbers."""
    best = 1
    for n in range(2, len(scores) + 1):
        if scores[n - 1] - Fraction(penalty) * n > scores[best - 1] - Fraction(penalty) * best:
            best = n
    return best


def sequence_oracle(scores: Sequence[Sequence[float]], penalty: float) -> list[int]:
    """Eqs. 9 and 10 for the scores of one sentence as [n - 1][t]: one exit, at every position."""
    totals = [sum((Fraction(score) for score in own), Fraction(0)) for own in scores]
    return [best_exit(totals, penalty)] * len(scores[0])


def token_oracle(scores: Sequence[Sequence[float]], penalty: float, width: float) -> list[int]:
    """Eqs. 14-17 for the scores of one sentence as [n - 1][t]; width 0 is the limit in which a
    token is its only neighbour."""
    exits = []
    for t in range(len(scores[0])):
        smoothed = []
        for own in scores:
            shares = [
                math.exp(-((t - other) ** 2) / width) if width else float(t == other) for other in range(len(own))
            ]
            smoothed.append(
                sum((Fraction(share) * Fraction(score) for share, score in zip(shares, own, strict=True)), Fraction(0))
            )
        exits.append(best_exit(smoothed, penalty))
    return exits


def softmax(logits: Tensor) -> Tensor:
    powers = (logits - logits.max()).exp()
    return powers / powers.sum()


def geometric(chis: Sequence[Tensor]) -> Tensor:
    """Eq. 13 as printed: the probabilities of N exits from the N - 1 probabilities of stopping."""
    survived, probabilities = torch.ones(()).to(chis[0]) if chis else torch.ones(()), []
    for chi in chis:
        probabilities.append(chi * survived)
        survived = survived * (1 - chi)
    return torch.stack([*probabilities, survived])


def exit_probabilities(halting: Halting, states: Sequence[Tensor], memory: Sequence[Tensor]) -> Tensor:
    """q of one position from its states h^0..h^N and the memory of its sentence (Eqs. 8 and
    11-13)."""
    if isinstance(halting, SequenceHalting):
        return softmax(linear(halting.sentence_scores, torch.stack(list(memory)).mean(dim=0)))
    if isinstance(halting, MultinomialHalting):
        return softmax(linear(halting.token_scores, states[1]))
    return geometric([stop_probability(halting, hidden) for hidden in states[1:-1]])


def stop_probability(halting: GeometricHalting, hidden: Tensor) -> Tensor:
    """chi (Eq. 12)."""
    seen = hidden if halting.features is None else linear(halting.features, hidden).clamp(min=0)
    return 1 / (1 + (-linear(halting.stop_score, seen)[0]).exp())


def oracle_score(oracle: str, classifier: Tensor, hidden: Tensor, target: int) -> float:
    """What an exit is worth to the oracle at one target: the log-likelihood, or 1 for the right
    word."""
    match oracle:
        case "likelihood":
            return -token_loss(classifier, hidden, target, 0.0).item()
        case "correctness":
            return float((classifier @ hidden).argmax() == target)
    raise ValueError(f"there is no reference for the oracle {oracle!r}")


def joint_loss(
    model: AdaptiveTransformer, sentences: Sequence[tuple[Sequence[int], Sequence[int], Sequence[int]]], config: Config
) -> tuple[Tensor, Tensor, list[list[int]]]:
    """L_dec (Eq. 4 with omega = 1) and L_exit (Eq. 6) as sums over tokens, and the oracle's exits
    of each sentence."""
    assert model.halting is not None
    decoding, exiting, oracles = [], [], []
    for source, inputs, targets in sentences:
        memory = encode(model, source)
        states = decode(model, inputs, memory, [model.blocks] * len(inputs))
        scores: list[list[float]] = []
        for n in range(1, model.blocks + 1):
            classifier, own = model.classifier(n), list(zip(states[n], targets, strict=True))
            decoding += [
                token_loss(classifier, hidden, target, config.training.label_smoothing) / model.blocks
                for hidden, target in own
            ]
            scores.append([oracle_score(config.exits.oracle, classifier, *pair) for pair in own])
        settings = config.exits
        is_sequence = settings.halting == "sequence"
        oracles.append(
            sequence_oracle(scores, settings.exit_penalty)
            if is_sequence
            else token_oracle(scores, settings.exit_penalty, settings.kernel_width)
        )
        for t, best in enumerate(oracles[-1]):
            exiting.append(
                -exit_probabilities(model.halting, [states[n][t] for n in range(model.blocks + 1)], memory)[
                    best - 1
                ].log()
            )
    return torch.stack(decoding).sum(), torch.stack(exiting).sum(), oracles


# The signals of the policies that stop at the first block whose signal exceeds its threshold:
# `states` are h_t^0..h_t^N.


def confidence(model: AdaptiveTransformer, states: Sequence[Tensor], n: int, first: int = 1) -> float:
    return float(softmax(model.classifier(n) @ states[n]).max().item())


def margin(model: AdaptiveTransformer, states: Sequence[Tensor], n: int, first: int = 1) -> float:
    probabilities: list[float] = softmax(model.classifier(n) @ states[n]).tolist()
    best, second, *_ = sorted(probabilities, reverse=True)
    return best - second


def similarity(model: AdaptiveTransformer, states: Sequence[Tensor], n: int, first: int = 1) -> float:
    new, old = states[n], states[n - 1]
    return (1 + (new @ old / math.sqrt((new @ new) * (old @ old))).item()) / 2


def shortlist(words: int) -> Signal:
    def signal(model: AdaptiveTransformer, states: Sequence[Tensor], n: int, first: int = 1) -> float:
        liked = (model.classifier(first) @ states[first]).tolist()
        chosen = sorted(range(len(liked)), key=lambda word: -liked[word])[:words] if n > first else range(len(liked))
        return float(softmax((model.classifier(n) @ states[n])[list(chosen)]).max().item())

    return signal


def halt_probability(model: AdaptiveTransformer, states: Sequence[Tensor], n: int, first: int = 1) -> float:
    assert isinstance(model.halting, GeometricHalting)
    return stop_probability(model.halting, states[n]).item()


def threshold_exit(
    model: AdaptiveTransformer, states: Sequence[Tensor], signal: Signal, thresholds: Sequence[float]
) -> int:
    """0 always stops and 1 never does; the others ask the signal, which may depend on who asked
    first."""
    first = next((n for n, threshold in enumerate(thresholds, 1) if 0 < threshold < 1), 1)
    for n, threshold in enumerate(thresholds, 1):
        if threshold == 0:
            return n
        if threshold < 1 and signal(model, states, n, first) > threshold:
            return n
    return len(thresholds) + 1


def ibm_model_1(pairs: Sequence[tuple[Sequence[int], Sequence[int]]], rounds: int) -> dict[int, dict[int, float]]:
    """p(target | source) by expectation maximization from equal probabilities; -1 is the source word
    NULL, which every pair has once (Brown et al., 1993)."""
    found: dict[int, dict[int, float]] = {}
    for number in range(rounds):
        counts: dict[int, dict[int, float]] = {}
        for source, target in pairs:
            for word in target:
                scores = [1.0 if number == 0 else found[piece].get(word, 0.0) for piece in [*source, -1]]
                for piece, score in zip([*source, -1], scores, strict=True):
                    row = counts.setdefault(piece, {})
                    row[word] = row.get(word, 0.0) + score / sum(scores)
        found = {
            piece: {word: count / sum(row.values()) for word, count in row.items()} for piece, row in counts.items()
        }
    return found
