"""One process or many: the same calls, which do nothing when there is one.

An error that ends training is reported by one worker; the others end with `OtherWorkerReports`,
which the command turns into an exit code without a message.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from anydepth.errors import AnydepthError, OtherWorkerReports

# Were DistributedDataParallel the last to let go of the group, its end could wait forever for a
# thread that waits for Python (https://github.com/pytorch/pytorch/issues/56297), so the group is
# held here until the process ends.
_held: list[object] = []


@dataclass(frozen=True)
class Workers:
    """This process among those that `torchrun` started."""

    rank: int
    world: int
    device: torch.device

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum of `values` over all workers."""
        if self.world > 1:
            distributed.all_reduce(values)
        return values

    def wait(self) -> None:
        """Returns when every worker has come here."""
        if self.world > 1:
            distributed.barrier()

    def stop_together(self, error: Exception | None) -> None:
        """Returns where no worker has an `error`; else it is raised in the worker that has it, and
        the others end silently."""
        has_any = self.sum(torch.tensor(float(error is not None), device=self.device)).item() > 0
        if error is not None:
            raise error
        if has_any:
            raise OtherWorkerReports

    def reported_by_main(self, error: AnydepthError) -> AnydepthError:
        """What to raise for an `error` that all workers have: the main one reports it, the others
        end silently with its exit code."""
        return error if self.is_main else OtherWorkerReports(error.exit_code)

    def wrap(self, objective: nn.Module) -> nn.Module:
        """`objective`, whose gradients are averaged over the workers where there are several."""
        return DistributedDataParallel(objective) if self.world > 1 else objective


@contextmanager
def workers() -> Iterator[Workers]:
    """The group of processes that `torchrun` describes in the environment; one process without
    it."""
    world, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    device = (
        torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        if torch.cuda.is_available()
        else torch.device("cpu")
    )
    if world == 1:
        yield Workers(0, 1, device)
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    _held.append(distributed.group.WORLD)
    try:
        yield Workers(rank, world, device)
    finally:
        distributed.destroy_process_group()
