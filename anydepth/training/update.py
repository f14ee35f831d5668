"""One optimizer update: forward and backward over a global batch, clip, step."""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from anydepth.config.schema import TrainingConfig
from anydepth.exits.oracles import UnscoredError
from anydepth.text.batches import Batch
from anydepth.training.distributed import Workers
from anydepth.training.objective import BatchSums


@dataclass(frozen=True)
class UpdateSums:
    """Sums over the target tokens of a global batch: what was minimised, and each exit's negative
    log-likelihood and rows.

    `batch_losses` are this worker's own, one for each of its batches. With a halting module: its
    loss, and how many tokens its oracle and it itself send to each exit. Where the oracle of any
    worker could not choose, the sums are not numbers and nobody has a whole gradient.
    """

    tokens: float
    loss: float
    likelihoods: list[float]
    rows: list[float]
    batch_losses: list[float]
    exit_loss: float = 0.0
    oracle_exits: list[float] = field(default_factory=list)
    halting_exits: list[float] = field(default_factory=list)

    @property
    def is_finite(self) -> bool:
        """Whether all of them are numbers; every worker gives the same answer."""
        return all(math.isfinite(each) for each in (self.loss, self.exit_loss, *self.likelihoods))


class UnscoredBatch(Exception):  # noqa: N818
    """A batch whose likelihoods are not numbers, so that the oracle of some worker could not
    choose."""

    def __init__(self, *, is_own: bool) -> None:
        self.is_own = is_own


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
    parts: list[Tensor] = []
    for turn, batch in enumerate(batches):
        randomness = batch_seed(seed, update, turn * workers.world + workers.rank)
        torch.manual_seed(randomness)
        with _keep_gradients_here(objective) if turn + 1 < len(batches) else nullcontext():
            try:
                sums = agreed_sums(
                    objective, batch.to(workers.device), workers, seeds=(randomness, batch_seed(seed, update, 0))
                )
            except UnscoredBatch as unscored:
                known = [*(part[0].item() for part in parts), math.nan if unscored.is_own else 0.0]
                own = known + [0.0] * (len(batches) - len(known))
                return UpdateSums(tokens.item(), math.nan, [], [], own)
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

    Where one worker's oracle cannot choose, every worker hears of it. Were the others not to, they
    would wait for its gradient.
    """
    sums: BatchSums | None = None
    with suppress(UnscoredError):
        sums = objective(batch, *seeds)
    unscored = workers.sum(torch.tensor(float(sums is None), device=workers.device))
    if sums is None or unscored.item() > 0:
        raise UnscoredBatch(is_own=sums is None)
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


def bad_slots(sums: UpdateSums, workers: Workers) -> list[int]:
    """The places in the global batch of the batches whose loss is not a number; none where the
    gradient alone is to blame. Every worker gives the same answer."""
    bad = torch.zeros(len(sums.batch_losses) * workers.world, device=workers.device)
    for turn, loss in enumerate(sums.batch_losses):
        bad[turn * workers.world + workers.rank] = float(not math.isfinite(loss))
    return workers.sum(bad).nonzero()[:, 0].tolist()


def described_failure(batches: Sequence[Iterable[int]], bad: Sequence[int], text_of: Callable[[int], str]) -> str:
    """What is not a number in an update: the loss of its `bad` batches of pairs, which are named,
    or the gradient of all."""
    what, suspects = ("loss", [batches[slot] for slot in bad]) if bad else ("gradient", batches)
    pairs = sorted(int(index) for batch in suspects for index in batch)
    shown = ", ".join(f"{index + 1:,}" for index in pairs[:20]) + (
        f" and {len(pairs) - 20} more" if len(pairs) > 20 else ""
    )
    return (
        f"the {what} is not a number in the batch of training pairs {shown} (numbered as prepared; the first is "
        f"{text_of(pairs[0])!r})"
    )


def batch_seed(seed: int, update: int, slot: int) -> int:
    """A seed for one batch of one update, the same however many workers there are."""
    return int(np.random.SeedSequence([seed, update, slot]).generate_state(1, np.uint64)[0] >> 1)


def _keep_gradients_here(objective: nn.Module) -> AbstractContextManager[None]:
    """A context without the exchange of gradients, for all but the last batch of an update."""
    no_sync: AbstractContextManager[None] = (
        objective.no_sync() if isinstance(objective, DistributedDataParallel) else nullcontext()
    )
    return no_sync
