"""One optimizer update: forward and backward over a global batch, clip, step."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from anydepth.config.schema import TrainingConfig
from anydepth.errors import TrainingError
from anydepth.exits.oracles import OracleError
from anydepth.text.batches import Batch
from anydepth.training.distributed import Workers
from anydepth.training.objective import BatchSums


@dataclass(frozen=True)
class UpdateSums:
    """Sums over the target tokens of a global batch: what was minimised, and each exit's negative
    log-likelihood and rows.

    `batch_losses` are this worker's own, one for each of its batches. With a halting module: its
    loss, and how many tokens its oracle and it itself send to each exit.
    """

    tokens: float
    loss: float
    likelihoods: list[float]
    rows: list[float]
    batch_losses: list[float]
    exit_loss: float = 0.0
    oracle_exits: list[float] = field(default_factory=list)
    halting_exits: list[float] = field(default_factory=list)


def accumulate_gradients(
    objective: nn.Module, batches: Sequence[Batch], workers: Workers, *, seed: int, update: int
) -> UpdateSums:
    """Adds the gradient of the global mean loss to the parameters, and returns this global batch's
    sums.

    The loss is a sum over the tokens of all batches of all workers divided by their number, so that
    neither workers nor accumulation change the gradient. Random choices depend on seed, update and
    the batch's place in the global batch alone.
    """
    tokens = workers.sum(torch.tensor(float(sum(batch.tokens for batch in batches)), device=workers.device))
    parts = []
    for turn, batch in enumerate(batches):
        randomness = batch_seed(seed, update, turn * workers.world + workers.rank)
        torch.manual_seed(randomness)
        with _keep_gradients_here(objective) if turn + 1 < len(batches) else nullcontext():
            sums = agreed_sums(
                objective, batch.to(workers.device), workers, seeds=(randomness, batch_seed(seed, update, 0))
            )
            torch.autograd.backward(sums.loss * (workers.world / tokens))
        figures = [sums.likelihoods, sums.rows, sums.oracle_exits, sums.halting_exits]
        parts.append(torch.cat([sums.loss.detach()[None], sums.exit_loss[None], *figures]))
    mine = torch.stack(parts)
    summed = workers.sum(mine.sum(dim=0))
    loss, exit_loss, *rest = torch.split(summed, [1, 1, *(len(figure) for figure in figures)])
    likelihoods, rows, oracle_exits, halting_exits = (part.tolist() for part in rest)
    batch_losses = mine[:, 0].tolist()
    return UpdateSums(
        tokens.item(), loss.item(), likelihoods, rows, batch_losses, exit_loss.item(), oracle_exits, halting_exits
    )


def agreed_sums(objective: nn.Module, batch: Batch, workers: Workers, *, seeds: tuple[int, int]) -> BatchSums:
    """What `objective` says of a batch, given the seeds of the batch and of the update.

    A batch that one worker's oracle refuses ends every worker, and that one reports why. Were the
    others not to hear of it, they would wait for its gradient.
    """
    refusal: OracleError | None = None
    try:
        sums: BatchSums = objective(batch, *seeds)
    except OracleError as error:
        refusal = error
    workers.stop_together(refusal)
    return sums


def clip_and_step(
    optimizer: torch.optim.Optimizer, parameters: Sequence[nn.Parameter], config: TrainingConfig, rate: float
) -> bool:
    """Clips the gradient's norm and moves the parameters; False, and nothing moved, if the gradient
    is not finite."""
    norm = nn.utils.clip_grad_norm_(parameters, config.clip_norm)
    if not torch.isfinite(norm):
        return False
    for group in optimizer.param_groups:
        group["lr"] = rate * group["factor"]
    optimizer.step()
    optimizer.zero_grad()
    return True


def end_training(
    batches: Sequence[Batch],
    losses: Sequence[float],
    workers: Workers,
    *,
    update: int,
    text_of: Callable[[int], str],
    advice: str,
) -> NoReturn:
    """Raises the error for a loss or gradient that is not a number, naming the pairs of the batch
    that caused it.

    With several workers those report whose own loss is bad; if none is, the gradient is to blame
    and the main worker reports.
    """
    bad = [batch for batch, loss in zip(batches, losses, strict=True) if not math.isfinite(loss)]
    what, suspects = ("loss", bad) if bad else ("gradient", batches)
    error = TrainingError(
        f"the {what} is not a number at update {update:,}, in the batch of training pairs "
        f"{described_pairs(suspects, text_of)}; {advice}"
    )
    workers.stop_together(error if bad else None)
    raise workers.reported_by_main(error)


def described_pairs(batches: Sequence[Batch], text_of: Callable[[int], str]) -> str:
    """The numbers of the pairs of some batches, and the text of the first."""
    pairs = sorted(index for batch in batches for index in batch.indices)
    shown = ", ".join(f"{index + 1:,}" for index in pairs[:20]) + (
        f" and {len(pairs) - 20} more" if len(pairs) > 20 else ""
    )
    return f"{shown} (numbered as prepared; the first is {text_of(pairs[0])!r})"


def batch_seed(seed: int, update: int, slot: int) -> int:
    """A seed for one batch of one update, the same however many workers there are."""
    return int(np.random.SeedSequence([seed, update, slot]).generate_state(1, np.uint64)[0] >> 1)


def _keep_gradients_here(objective: nn.Module) -> AbstractContextManager[None]:
    """A context without the exchange of gradients, for all but the last batch of an update."""
    no_sync: AbstractContextManager[None] = (
        objective.no_sync() if isinstance(objective, DistributedDataParallel) else nullcontext()
    )
    return no_sync
