"""The losses of every exit and of the halting module on held-out text."""

import torch
from torch import Tensor
from torch.nn import functional as F

from anydepth.bleu_oracle.oracle import score_oracle_targets
from anydepth.bleu_oracle.table import ScoreTable
from anydepth.config.schema import ExitsConfig
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.halting import exit_loss
from anydepth.exits.oracles import oracle_exits
from anydepth.model.transformer import Transformer
from anydepth.text.batches import Batch, ordered_batches
from anydepth.text.tokens import TokenPairs
from anydepth.training.objective import real_positions

ROWS = 1024


@torch.inference_mode()
def validation_losses(model: Transformer, pairs: TokenPairs, *, batch_tokens: int) -> list[float]:
    """The mean negative log-likelihood per target token at each exit, aligned (-LL^n / |y|, Eq. 4),
    without label smoothing."""
    device = model.target_embedding.weight.device
    exits = model.config.classifier_exits
    totals, tokens = torch.zeros(len(exits), dtype=torch.float64), 0
    for batch in ordered_batches(pairs, max_tokens=batch_tokens):
        batch = batch.cut(model.config.max_length).to(device)
        states = model.decode(batch.target_inputs, model.encode(batch.source, batch.source_mask), batch.source_mask)
        targets, real = batch.targets[batch.target_mask], real_positions(batch.target_mask)
        for place, n in enumerate(exits):
            hidden = states[n - 1].flatten(0, 1)[real]
            for rows, answers in zip(torch.split(hidden, ROWS), torch.split(targets, ROWS), strict=True):
                totals[place] += F.cross_entropy(model.logits_at(n, rows), answers, reduction="sum").item()
        tokens += batch.tokens
    return (totals / tokens).tolist()


@torch.inference_mode()
def validation_exit_loss(
    model: AdaptiveTransformer,
    pairs: TokenPairs,
    config: ExitsConfig,
    *,
    batch_tokens: int,
    scores: ScoreTable | None = None,
) -> float:
    """The mean exit loss per target token (L_exit / |y|, Eq. 6), against the oracle of the held-out
    text.

    With the BLEU oracle, which chooses by `scores`, that is over the pairs that have some.
    """
    assert model.halting is not None
    device = model.target_embedding.weight.device
    total, tokens = 0.0, 0
    for batch in ordered_batches(pairs, max_tokens=batch_tokens):
        batch = batch.cut(model.config.max_length).to(device)
        memory = model.encode(batch.source, batch.source_mask)
        states = model.decode(batch.target_inputs, memory, batch.source_mask)
        if scores is None:
            has_oracle = batch.target_mask
            oracle = oracle_exits(config, *_target_scores(model, batch, states), has_oracle)
        else:
            oracle, has_oracle = score_oracle_targets(batch, scores, exit_penalty=config.exit_penalty)
        total += exit_loss(model.halting.exit_log_probs(states, memory, batch.source_mask), oracle, has_oracle).item()
        tokens += int(has_oracle.sum())
    return total / max(tokens, 1)


def _target_scores(model: AdaptiveTransformer, batch: Batch, states: Tensor) -> tuple[Tensor, Tensor]:
    """The log-likelihood of each target at each exit, and whether it is the best word there: both
    (block, batch, time)."""
    likelihoods = states.new_zeros(states.shape[:3])
    correct = torch.zeros_like(likelihoods, dtype=torch.bool)
    for n, hidden in enumerate(states, 1):
        for sentence, row in enumerate(hidden):
            logits = model.logits_at(n, row)  # (time, vocab)
            likelihoods[n - 1, sentence] = -F.cross_entropy(logits, batch.targets[sentence], reduction="none")
            correct[n - 1, sentence] = logits.argmax(dim=-1) == batch.targets[sentence]
    return likelihoods, correct
