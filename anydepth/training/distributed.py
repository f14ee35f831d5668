"""One process or many: the same calls, which do nothing when there is one.

An error that ends training is reported by one worker; the others end with `OtherWorkerReports`,
which the command turns into an exit code without a message. A worker that dies takes the others
with it: whoever exchanges something with it next ends, too, and is started again with it where
torchrun may do so.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, distributed, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from anydepth.errors import AnydepthError, OtherWorkerReports, WorkerLost
from anydepth.training.signals import ending_on_signal

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
    group = Workers(rank, world, device)
    with ending_on_signal(signal.SIGTERM):  # by which torchrun ends those that are left; the loop asks to hear of it
        try:
            join_group("nccl" if device.type == "cuda" else "gloo", rank, world)
            _held.append(distributed.group.WORLD)
            yield group
        except RuntimeError as error:
            if not is_lost_worker(error):
                raise
            lost = WorkerLost(
                "another worker of this training has ended, so all end; torchrun starts them again where "
                "--max-restarts allows it, else go on with --resume"
            )
            raise group.reported_by_main(lost) from error
        finally:
            if distributed.is_initialized():
                distributed.destroy_process_group()


def join_group(backend: str, rank: int, world: int) -> None:
    """Makes this process one of the group.

    torchrun keeps the store in which workers find each other while it starts them again and again,
    so that they would find the addresses of those that died. Each attempt has keys of its own.
    """
    store, _, _ = next(rendezvous("env://", rank, world))
    attempt = f"{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')} of {world}"
    distributed.init_process_group(backend, store=PrefixStore(f"attempt {attempt}", store), rank=rank, world_size=world)


def is_lost_worker(error: RuntimeError) -> bool:
    """Whether an exchange failed because another worker is gone: torch has errors of its own for
    some of these, and gloo tells the others in its text."""
    return isinstance(error, distributed.DistError) or any(
        sign in str(error) for sign in ("/gloo/", "Connection closed by peer", "Connection reset by peer")
    )
