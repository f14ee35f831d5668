"""One optimizer update: forward and backward over a global batch, clip, step."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from anydepth.config import TrainingConfig
from anydepth.errors import TrainingError
from anydepth.text.batches import Batch
from anydepth.training.distributed import Workers


@dataclass(frozen=True)
class UpdateSums:
    """Sums over the target tokens of a global batch: what was minimised, and each exit's negative log-likelihood and rows."""

    tokens: Tensor
    loss: Tensor
    likelihoods: Tensor
    rows: Tensor

    def __add__(self, other: "UpdateSums") -> "UpdateSums":
        return UpdateSums(self.tokens + other.tokens, self.loss + other.loss, self.likelihoods + other.likelihoods, self.rows + other.rows)


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
    sums = workers.sum(torch.stack(parts).sum(dim=0))
    likelihoods, rows = sums[1:].chunk(2)
    return UpdateSums(tokens, sums[0], likelihoods, rows)


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


def failure(objective: nn.Module, batches: Sequence[Batch], workers: Workers, *, update: int, advice: str) -> TrainingError:
    """The error for a loss or gradient that is not a number, naming the pairs of the batch that caused it."""
    with torch.no_grad():
        bad = [batch for batch in batches if not torch.isfinite(objective(batch.to(workers.device), 0)[0])]
    pairs = sorted(index + 1 for batch in bad or batches for index in batch.indices)
    shown = ", ".join(map(str, pairs[:20])) + (f" and {len(pairs) - 20} more" if len(pairs) > 20 else "")
    what = "loss" if bad else "gradient"
    return TrainingError(f"the {what} is not a number at update {update}, in the batch of training pairs {shown}; {advice}")


def batch_seed(seed: int, update: int, slot: int) -> int:
    """A seed for one batch of one update, the same however many workers there are."""
    return int(np.random.SeedSequence([seed, update, slot]).generate_state(1, np.uint64)[0] >> 1)


def _keep_gradients_here(objective: nn.Module) -> AbstractContextManager[None]:
    """A context without the exchange of gradients, for all but the last batch of an update."""
    no_sync: AbstractContextManager[None] = objective.no_sync() if isinstance(objective, DistributedDataParallel) else nullcontext()
    return no_sync
