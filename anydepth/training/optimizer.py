"""What moves the weights: Adam as in the paper, or Muon for the matrices of the blocks and Adam for the
rest."""

from collections.abc import Callable, Mapping

import torch
from torch import nn

from anydepth.config.schema import Config, TrainingConfig
from anydepth.runs.models import HALTING
from anydepth.training.muon import Muon
from anydepth.training.precisions import PRECISIONS

ADAM_MOMENTS = ("exp_avg", "exp_avg_sq")
MUON_MOMENTS = ("momentum_buffer",)
MATRICES = ("encoder.", "decoder.", "exit_adapters.")  # whose linear maps Muon moves


class MuonAndAdam(torch.optim.Optimizer):
    """Two optimizers as one: the groups and the states of both are those of this one."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        super().__init__([group for part in parts for group in part.param_groups], {})
        self.parts = parts
        for part in parts:
            part.state = self.state

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step of each."""
        assert closure is None, "the gradients are there already"
        for part in self.parts:
            part.step()


def make_optimizer(model: nn.Module, config: Config) -> torch.optim.Optimizer:
    """Adam(0.9, 0.98) as in section 4.1, or Muon beside it; weight decay, where set, is decoupled.

    A group's learning rate is `factor` times that of the schedule: `exits.rate_factor` for the
    halting module, where there is one, and `training.matrix_rate` for what Muon moves. What is
    frozen has no place in it.
    """
    groups: dict[str, list[nn.Parameter]] = {"matrices": [], "others": [], "halting": []}
    for name, parameter in trained_parameters(model).items():
        groups[group_of(name, parameter, config.training)].append(parameter)
    adam = torch.optim.AdamW(
        [
            {"params": params, "factor": factor, "moments": ADAM_MOMENTS}
            for params, factor in ((groups["others"], 1.0), (groups["halting"], config.exits.rate_factor))
            if params
        ],
        lr=0.0,
        betas=(0.9, 0.98),
        eps=1e-9,
        weight_decay=config.training.weight_decay,
        fused=True,
    )
    if not groups["matrices"]:
        return adam
    matrices = {"params": groups["matrices"], "factor": config.training.matrix_rate, "moments": MUON_MOMENTS}
    precision = PRECISIONS[config.training.block_precision]
    return MuonAndAdam(Muon([matrices], weight_decay=config.training.weight_decay, precision=precision), adam)


def group_of(name: str, parameter: nn.Parameter, config: TrainingConfig) -> str:
    """The group of a parameter."""
    if name.startswith(HALTING):
        return "halting"
    is_matrix = config.optimizer == "muon" and parameter.ndim == 2 and name.startswith(MATRICES)
    return "matrices" if is_matrix else "others"


def moments_of(optimizer: torch.optim.Optimizer) -> Mapping[nn.Parameter, tuple[str, ...]]:
    """What the optimizer keeps of each parameter between two updates."""
    return {parameter: group["moments"] for group in optimizer.param_groups for parameter in group["params"]}


def trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that training changes, by name: all that are not frozen."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
