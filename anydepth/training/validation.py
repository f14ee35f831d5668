"""The loss of every exit on held-out text."""

import torch
from torch.nn import functional as F

from anydepth.model.transformer import Transformer
from anydepth.text.batches import ordered_batches
from anydepth.text.tokens import TokenPairs
from anydepth.training.objective import real_positions

ROWS = 1024


@torch.inference_mode()
def validation_losses(model: Transformer, pairs: TokenPairs, *, batch_tokens: int) -> list[float]:
    """The mean negative log-likelihood per target token at each exit, aligned (-LL^n / |y|, Eq. 4), without label smoothing."""
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
                totals[place] += F.cross_entropy(F.linear(rows, model.classifier(n)), answers, reduction="sum").item()
        tokens += batch.tokens
    return (totals / tokens).tolist()
