"""Replay: what thresholds would do, read off a record of what every exit says at every position,
without decoding again."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.flops import DecoderShape, adapter_flops, first_call_flops, no_decision, token_flops
from anydepth.exits.thresholds import Signal, ThresholdExit, is_deciding
from anydepth.model.source import EncodedSource
from anydepth.text.batches import Batch, ordered_batches
from anydepth.text.tokens import TokenPairs
from anydepth.vocabulary.selection import CandidateWords, WordSelection

BATCH_TOKENS = 4096
CHUNK_ELEMENTS = 4_000_000


@dataclass(frozen=True)
class ReplayRecord:
    """What every exit says at each position of some target sentences, which stand one after the
    other.

    States are those of full depth: that a token attends to copies of states that left early is not
    replayed.
    """

    signals: Float[np.ndarray, "decision position"]  # where exit 1 decides
    # where exit 2, 3, ... is the first that does; none if that is the same
    later_signals: Float[np.ndarray, "later decision position"]
    log_likelihoods: Float[np.ndarray, "block position"]  # of the target among all words, LL_t^n
    words: Int[np.ndarray, " position"]  # how many the signals were computed among
    # of leaving at that block, by appendix B without decisions and first calls
    flops: Float[np.ndarray, "block position"]
    starts: Int[np.ndarray, " sentence"]  # the position of each sentence's first token
    first_call_flops: Float[np.ndarray, " sentence"]  # of one block
    selection_flops: float  # of choosing the words of all sentences
    full_flops: float  # of leaving at the last block everywhere, with all words and without any decision
    policy: ThresholdExit  # whose signals these are
    shape: DecoderShape


@dataclass(frozen=True)
class Replayed:
    """What each candidate would give on a record."""

    average_exits: Float[np.ndarray, " candidate"]
    flops_shares: Float[np.ndarray, " candidate"]
    log_likelihoods: Float[np.ndarray, " candidate"]  # a token
    looks: Float[np.ndarray, " candidate"]  # signals computed, a token
    copies: Float[
        np.ndarray, " candidate"
    ]  # blocks with own keys that the sentence reached and the token did not, a token
    word_flops: Float[np.ndarray, " candidate"]  # of decisions and words, a token


@torch.inference_mode()
def record(
    model: AdaptiveTransformer, pairs: TokenPairs, policy: ThresholdExit, selection: WordSelection | None = None
) -> ReplayRecord:
    """One pass over `pairs` by teacher forcing, with the signal of `policy` after each block but
    the last, whatever its thresholds.

    Signals are those among the words of `selection`. Likelihoods are always those among all words:
    a reference may have words that were not selected.
    """
    shape = DecoderShape.of(model.config, model.target_embedding.num_embeddings)
    batches = ordered_batches(pairs, max_tokens=BATCH_TOKENS)
    parts = [_record_batch(model, batch, policy, selection) for batch in batches]
    signals, likelihoods = (torch.cat([part[number] for part in parts], dim=-1) for number in (0, 1))
    lengths, sources, sizes = (torch.cat([part[number] for part in parts]) for number in (2, 3, 4))  # (sentence,)
    times = torch.cat([torch.arange(1, length + 1) for length in lengths.tolist()])
    words = sizes.repeat_interleave(lengths)  # (position,)
    full = _flops_table(shape, times, sources.repeat_interleave(lengths))
    table = full - 2 * shape.dim * (shape.vocab - words)
    one_call = first_call_flops(shape, torch.ones_like(sources), sources)
    return ReplayRecord(
        signals=signals[0].numpy(),
        later_signals=signals[1:].numpy(),
        log_likelihoods=likelihoods.numpy(),
        words=words.numpy(),
        flops=table.numpy(),
        starts=(lengths.cumsum(0) - lengths).numpy(),
        first_call_flops=one_call.double().numpy(),
        selection_flops=float(0 if selection is None else selection.flops() * len(sizes)),
        full_flops=float(full[-1].sum() + shape.last_key_block * one_call.sum()),
        policy=policy,
        shape=shape,
    )


def replay(record: ReplayRecord, candidates: Float[np.ndarray, "candidate decision"]) -> Replayed:
    """The average exit, FLOPs and likelihood of every candidate's thresholds on the record, all
    candidates together."""
    positions, size, blocks = record.signals.shape[1], len(candidates), record.shape.blocks
    exits, flops, likelihoods, looks, copies, word_flops = (np.empty(size) for _ in range(6))
    lengths = np.diff(record.starts, append=positions)
    plain = 2.0 * record.shape.dim * record.words.sum()
    step = max(1, CHUNK_ELEMENTS // max(positions, 1))
    for start in range(0, size, step):
        chunk = slice(start, start + step)
        left = recorded_exits(record, candidates[chunk])  # (candidate, position)
        exits[chunk] = left.mean(axis=1)
        likelihoods[chunk] = _chosen(record.log_likelihoods, left).mean(axis=1)
        made = np.minimum(left, record.shape.last_key_block)  # blocks that made keys and values of their own
        highest = np.maximum.reduceat(made, record.starts, axis=1)  # (candidate, sentence)
        flops[chunk] = _chosen(record.flops, left).sum(axis=1, dtype=np.float64) + highest @ record.first_call_flops
        counts = np.stack([(left == n).sum(axis=1) for n in range(1, blocks + 1)], axis=1)  # (candidate, block)
        decisions = decision_flops(record, candidates[chunk], left, counts)
        flops[chunk] += decisions + record.selection_flops
        looks[chunk] = (counts * looks_made(candidates[chunk])).sum(axis=1)
        copies[chunk] = highest @ lengths - made.sum(axis=1, dtype=np.int64)
        word_flops[chunk] = plain + adapter_flops(record.shape) * counts[:, :-1].sum(axis=1) + decisions
    a_token = 1 / max(positions, 1)
    return Replayed(
        exits, flops / record.full_flops, likelihoods, looks * a_token, copies * a_token, word_flops * a_token
    )


def recorded_exits(
    record: ReplayRecord, candidates: Float[np.ndarray, "candidate decision"]
) -> Int[np.ndarray, "candidate position"]:
    """The exits that every candidate takes on the record, by the signals that its own first
    decision gives."""
    if not len(record.later_signals):
        return chosen_exits(record.signals, candidates)
    firsts = is_deciding(candidates).argmax(axis=1)  # 0 is exit 1, or no decision at all
    left = np.empty((len(candidates), record.signals.shape[1]), dtype=np.int8)
    for first in np.unique(firsts).tolist():
        signals = record.later_signals[first - 1] if first else record.signals
        left[firsts == first] = chosen_exits(signals, candidates[firsts == first])
    return left


def looks_made(candidates: Float[np.ndarray, "candidate decision"]) -> Int[np.ndarray, "candidate block"]:
    """How many signals were computed for a token of each candidate that leaves at each block."""
    made = is_deciding(candidates).cumsum(axis=1)
    table: Int[np.ndarray, "candidate block"] = np.concatenate([made, made.max(axis=1, initial=0)[:, None]], axis=1)
    return table


def decision_flops(
    record: ReplayRecord,
    candidates: Float[np.ndarray, "candidate decision"],
    left: Int[np.ndarray, "candidate position"],
    counts: Int[np.ndarray, "candidate block"],
) -> Float[np.ndarray, " candidate"]:
    """What its decisions cost each candidate whose tokens `left` there, beside what leaving costs
    anyway.

    The formulas are linear in the number of words (a shortlist's, as long as it is shorter), so two
    numbers of words tell the costs of all.
    """
    fewest, most = int(record.words.min(initial=record.shape.vocab)), int(record.words.max(initial=0))
    table = decision_table(record, candidates, words=fewest)
    total: Float[np.ndarray, " candidate"] = (counts * table).sum(axis=1)
    if most > fewest:
        slope = (decision_table(record, candidates, words=most) - table) / (most - fewest)
        beyond = record.words - fewest
        for n in range(1, record.shape.blocks + 1):
            total += ((left == n) @ beyond) * slope[:, n - 1]
    return total


def decision_table(
    record: ReplayRecord, candidates: Float[np.ndarray, "candidate decision"], *, words: int
) -> Float[np.ndarray, "candidate block"]:
    """What its decisions among so many words cost a token of each candidate that leaves at each
    block, beside what leaving there costs anyway."""
    exits, shape = torch.arange(1, record.shape.blocks + 1), replace(record.shape, vocab=words)
    plain = no_decision(shape, exits, torch.ones_like(exits))
    _, examples, kinds = np.unique(is_deciding(candidates), axis=0, return_index=True, return_inverse=True)
    costs = [record.policy.cost_with(candidates[number].tolist()) for number in examples.tolist()]
    rows = torch.stack([cost(shape, exits, torch.ones_like(exits)) - plain for cost in costs])
    table: Float[np.ndarray, "candidate block"] = rows.double().numpy()[kinds.reshape(-1)]
    return table


def chosen_exits(
    signals: Float[np.ndarray, "decision position"], candidates: Float[np.ndarray, "candidate decision"]
) -> Int[np.ndarray, "candidate position"]:
    """The first exit whose signal exceeds its threshold, else the last (section 3.2), for every
    candidate at every position."""
    blocks = len(signals) + 1
    candidates = candidates.astype(signals.dtype)  # the precision in which a policy compares
    left = np.full((len(candidates), signals.shape[1]), blocks, dtype=np.int8)
    for n in reversed(range(1, blocks)):
        thresholds = candidates[:, n - 1 : n]
        left[(signals[n - 1] > thresholds) | (thresholds <= 0)] = n
    return left


def _chosen(
    table: Float[np.ndarray, "block position"], left: Int[np.ndarray, "candidate position"]
) -> Float[np.ndarray, "candidate position"]:
    """The table's figures at the exits taken."""
    taken = np.broadcast_to(table[-1], left.shape).copy()
    for n, figures in enumerate(table[:-1], 1):
        np.copyto(taken, figures, where=left == n)
    return taken


def _record_batch(
    model: AdaptiveTransformer, batch: Batch, policy: ThresholdExit, selection: WordSelection | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Signals (first, decision, position), log-likelihoods (block, position), target lengths,
    source lengths and numbers of words (sentence) of one batch."""
    memory = model.encode(batch.source, batch.source_mask)
    # (block, position, dim)
    states = model.decode(batch.target_inputs, memory, batch.source_mask)[:, batch.target_mask]
    inputs = model.embed_targets(batch.target_inputs)[batch.target_mask]
    targets = batch.targets[batch.target_mask]
    likelihoods = torch.stack(
        [_log_likelihoods(model, n, states[n - 1], targets) for n in model.config.classifier_exits]
    )
    selected = CandidateWords.of_batch(model, selection, EncodedSource(batch.source, batch.source_mask, memory))
    words = selected.of_rows(batch.target_mask.nonzero()[:, 0])
    sizes = selected.sizes() or [model.target_embedding.num_embeddings] * len(batch.source)
    firsts = range(1, max(model.blocks, 2)) if policy.new_signal(words).depends_on_first else range(1, 2)
    signals = torch.stack([signals_of(policy.new_signal(words), inputs, states, first=first) for first in firsts])
    lengths, sources = batch.target_mask.sum(dim=1), batch.source_mask.sum(dim=1)
    return signals, likelihoods, lengths, sources, torch.tensor(sizes)


def signals_of(
    signal: Signal,
    inputs: Float[Tensor, "position dim"],
    states: Float[Tensor, "block position dim"],
    *,
    first: int = 1,
) -> Float[Tensor, "decision position"]:
    """The signal after every block but the last, as if no row had left before; 0 below the `first`
    block that decides."""
    signal.start(inputs)
    values = []
    for n, hidden in enumerate(states[:-1], 1):
        if n < first:
            signal.pass_by(hidden)
            values.append(hidden.new_zeros(len(hidden)))
            continue
        values.append(signal.after(n, hidden))
        signal.leave(torch.zeros(len(hidden), dtype=torch.bool, device=hidden.device))
    return torch.stack(values) if values else inputs.new_zeros(0, len(inputs))


def _log_likelihoods(model: AdaptiveTransformer, n: int, hidden: Tensor, targets: Tensor) -> Tensor:
    logits = F.linear(model.scored_states(n, hidden), model.classifier(n), model.output_bias)
    return -F.cross_entropy(logits, targets, reduction="none")


def _flops_table(shape: DecoderShape, times: Tensor, sources: Tensor) -> Tensor:
    """The FLOPs of leaving at each block where nothing is decided, (block, position)."""
    rows = [
        token_flops(shape, torch.full_like(times, n), times, sources, no_decision) for n in range(1, shape.blocks + 1)
    ]
    return torch.stack(rows).double()
