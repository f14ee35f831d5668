"""Replay: what thresholds would do, read off a record of what every exit says at every position, without decoding again."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.flops import DecisionCost, DecoderShape, first_call_flops, no_decision, token_flops
from anydepth.exits.thresholds import Signal, ThresholdExit
from anydepth.text.batches import Batch, ordered_batches
from anydepth.text.tokens import TokenPairs

BATCH_TOKENS = 4096
CHUNK_ELEMENTS = 4_000_000


@dataclass(frozen=True)
class Record:
    """What every exit says at each position of some target sentences, which stand one after the other.

    States are those of full depth: that a token attends to copies of states that left early is not replayed.
    """

    signals: Float[np.ndarray, "decision position"]
    log_likelihoods: Float[np.ndarray, "block position"]  # of the target, LL_t^n
    flops: Float[np.ndarray, "block position"]  # of leaving at that block, by appendix B without first calls
    starts: Int[np.ndarray, " sentence"]  # the position of each sentence's first token
    first_call_flops: Float[np.ndarray, " sentence"]  # of one block
    full_flops: float  # of leaving at the last block everywhere, without any decision


@dataclass(frozen=True)
class Replayed:
    """What each candidate would give on a record."""

    average_exits: Float[np.ndarray, " candidate"]
    flops_shares: Float[np.ndarray, " candidate"]
    log_likelihoods: Float[np.ndarray, " candidate"]  # a token


@torch.inference_mode()
def record(model: AdaptiveTransformer, pairs: TokenPairs, policy: ThresholdExit) -> Record:
    """One pass over `pairs` by teacher forcing, with the signal of `policy` after each block but the last."""
    shape = DecoderShape.of(model.config, model.target_embedding.num_embeddings)
    parts = [_record_batch(model, batch, policy) for batch in ordered_batches(pairs, max_tokens=BATCH_TOKENS)]
    signals, likelihoods = (torch.cat([part[number] for part in parts], dim=1) for number in (0, 1))
    lengths, sources = (torch.cat([part[number] for part in parts]) for number in (2, 3))  # (sentence,)
    times = torch.cat([torch.arange(1, length + 1) for length in lengths.tolist()])
    table = _flops_table(shape, times, sources.repeat_interleave(lengths), policy.cost)
    plain = _flops_table(shape, times, sources.repeat_interleave(lengths), no_decision)
    one_call = first_call_flops(shape, torch.ones_like(sources), sources)
    return Record(
        signals=signals.numpy(),
        log_likelihoods=likelihoods.numpy(),
        flops=table.numpy(),
        starts=(lengths.cumsum(0) - lengths).numpy(),
        first_call_flops=one_call.double().numpy(),
        full_flops=float(plain[-1].sum() + shape.blocks * one_call.sum()),
    )


def replay(record: Record, candidates: Float[np.ndarray, "candidate decision"]) -> Replayed:
    """The average exit, FLOPs and likelihood of every candidate's thresholds on the record, all candidates together."""
    positions, size = record.signals.shape[1], len(candidates)
    exits, flops, likelihoods = np.empty(size), np.empty(size), np.empty(size)
    step = max(1, CHUNK_ELEMENTS // max(positions, 1))
    for start in range(0, size, step):
        chunk = slice(start, start + step)
        left = chosen_exits(record.signals, candidates[chunk])  # (candidate, position)
        exits[chunk] = left.mean(axis=1)
        likelihoods[chunk] = _chosen(record.log_likelihoods, left).mean(axis=1)
        highest = np.maximum.reduceat(left, record.starts, axis=1)  # (candidate, sentence)
        flops[chunk] = _chosen(record.flops, left).sum(axis=1, dtype=np.float64) + highest @ record.first_call_flops
    return Replayed(exits, flops / record.full_flops, likelihoods)


def chosen_exits(
    signals: Float[np.ndarray, "decision position"], candidates: Float[np.ndarray, "candidate decision"]
) -> Int[np.ndarray, "candidate position"]:
    """The first exit whose signal exceeds its threshold, else the last (section 3.2), for every candidate at every position."""
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


def _record_batch(model: AdaptiveTransformer, batch: Batch, policy: ThresholdExit) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Signals (decision, position), log-likelihoods (block, position), target lengths and source lengths (sentence) of one batch."""
    memory = model.encode(batch.source, batch.source_mask)
    states = model.decode(batch.target_inputs, memory, batch.source_mask)[:, batch.target_mask]  # (block, position, dim)
    inputs = model.embed_targets(batch.target_inputs)[batch.target_mask]
    targets = batch.targets[batch.target_mask]
    likelihoods = torch.stack([_log_likelihoods(model, n, states[n - 1], targets) for n in model.config.classifier_exits])
    signals = signals_of(policy.new_signal(), inputs, states)
    return signals, likelihoods, batch.target_mask.sum(dim=1), batch.source_mask.sum(dim=1)


def signals_of(
    signal: Signal, inputs: Float[Tensor, "position dim"], states: Float[Tensor, "block position dim"]
) -> Float[Tensor, "decision position"]:
    """The signal after every block but the last, as if no row had left before."""
    signal.start(inputs)
    values = []
    for n, hidden in enumerate(states[:-1], 1):
        values.append(signal.after(n, hidden))
        signal.leave(torch.zeros(len(hidden), dtype=torch.bool, device=hidden.device))
    return torch.stack(values) if values else inputs.new_zeros(0, len(inputs))


def _log_likelihoods(model: AdaptiveTransformer, n: int, hidden: Tensor, targets: Tensor) -> Tensor:
    return -F.cross_entropy(F.linear(hidden, model.classifier(n)), targets, reduction="none")


def _flops_table(shape: DecoderShape, times: Tensor, sources: Tensor, cost: DecisionCost) -> Tensor:
    """The FLOPs of leaving at each block, (block, position)."""
    rows = [token_flops(shape, torch.full_like(times, n), times, sources, cost) for n in range(1, shape.blocks + 1)]
    return torch.stack(rows).double()
