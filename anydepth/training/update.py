"""One optimizer update: forward and backward over a global batch, clip, step."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from anydepth.config import TrainingConfig
from anydepth.errors import TrainingError
from anydepth.text.batches import Batch
from anydepth.training.distributed import Workers


@dataclass(frozen=True)
class UpdateSums:
    """Sums over the target tokens of a global batch: what was minimised, and each exit's negative log-likelihood and rows.

    `batch_losses` are this worker's own, one for each of its batches.
    """

    tokens: float
    loss: float
    likelihoods: list[float]
    rows: list[float]
    batch_losses: list[float]


def accumulate_gradients(objective: nn.Module, batches: Sequence[Batch], workers: Workers, *, seed: int, update: int) -> UpdateSums:
    """Adds the gradient of the global mean loss to the parameters, and returns this global batch's sums.

    The loss is a sum over the tokens of all batches of all workers divided by their number, so that neither workers nor accumulation
    change the gradient. Random choices depend on seed, update and the batch's place in the global batch alone.
    """
    tokens = workers.sum(torch.tensor(float(sum(batch.tokens for batch in batches)), device=workers.device))
    parts = []
    for turn, batch in enumerate(batches):
        randomness = batch_seed(seed, update, turn * workers.world + workers.rank)
        torch.manual_seed(randomness)
        with _keep_gradients_here(objective) if turn + 1 < len(batches) else nullcontext():
            loss, likelihoods, rows = objective(batch.to(workers.device), randomness)
            (loss * (workers.world / tokens)).backward()
        parts.append(torch.cat([loss.detach()[None], likelihoods, rows]))
    mine = torch.stack(parts)
    total, *exits = workers.sum(mine.sum(dim=0)).tolist()
    half = len(exits) // 2
    return UpdateSums(tokens.item(), total, exits[:half], exits[half:], mine[:, 0].tolist())


def clip_and_step(optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter], config: TrainingConfig, rate: float) -> bool:
    """Clips the gradient's norm and moves the parameters; False, and nothing moved, if the gradient is not finite."""
    norm = nn.utils.clip_grad_norm_(parameters, config.clip_norm)
    if not torch.isfinite(norm):
        return False
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    optimizer.zero_grad()
    return True


def failure(
    batches: Sequence[Batch], losses: Sequence[float], workers: Workers, *, update: int, text_of: Callable[[int], str], advice: str
) -> TrainingError:
    """The error for a loss or gradient that is not a number, naming the pairs of the batch that caused it.

    With several workers only those speak whose own loss is bad; if none is, the gradient is to blame and the main worker speaks.
    """
    bad = [batch for batch, loss in zip(batches, losses, strict=True) if not math.isfinite(loss)]
    has_culprit = workers.sum(torch.tensor(float(len(bad)), device=workers.device)).item() > 0
    if not bad and (has_culprit or not workers.is_main):
        return TrainingError("")
    what, suspects = ("loss", bad) if bad else ("gradient", batches)
    pairs = sorted(index for batch in suspects for index in batch.indices)
    shown = ", ".join(f"{index + 1:,}" for index in pairs[:20]) + (f" and {len(pairs) - 20} more" if len(pairs) > 20 else "")
    return TrainingError(
        f"the {what} is not a number at update {update:,}, in the batch of training pairs {shown} "
        f"(numbered as prepared; the first is {text_of(pairs[0])!r}); {advice}"
    )


def batch_seed(seed: int, update: int, slot: int) -> int:
    """A seed for one batch of one update, the same however many workers there are."""
    return int(np.random.SeedSequence([seed, update, slot]).generate_state(1, np.uint64)[0] >> 1)


def _keep_gradients_here(objective: nn.Module) -> AbstractContextManager[None]:
    """A context without the exchange of gradients, for all but the last batch of an update."""
    no_sync: AbstractContextManager[None] = objective.no_sync() if isinstance(objective, DistributedDataParallel) else nullcontext()
    return no_sync
