"""All that training needs to resume exactly where it was: weights, optimizer moments, counters,
place in the data."""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import torch
from torch import Tensor, nn

from anydepth.config.schema import Config
from anydepth.errors import RunError
from anydepth.files.reading import Unreadable, checked, parse_json
from anydepth.model.checkpoint import fill_model, load_weights, model_tensors, save_tensors
from anydepth.runs.models import HALTING
from anydepth.text.batches import Position

MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass
class TrainingProgress:
    """How far training has come. Randomness needs no state: it is a function of seed, update and
    batch."""

    update: int = 0
    position: Position = field(default_factory=Position)
    seconds: float = 0.0
    best: float | None = None
    best_update: int = 0
    validations_since_best: int = 0
    validated_update: int = 0
    left_out: int = 0
    left_out_in_a_row: int = 0
    workers: int = 0  # 0 in states of versions that did not note it, as accumulation
    accumulation: int = 0


# What a state of every version has
ALWAYS = {each.name for each in fields(TrainingProgress)} - {
    "left_out",
    "left_out_in_a_row",
    "workers",
    "accumulation",
}


def make_optimizer(model: nn.Module, config: Config) -> torch.optim.Optimizer:
    """Adam(0.9, 0.98) as in section 4.1; weight decay, where set, is decoupled.

    The halting module, where there is one, is a group of its own, whose learning rate is
    `exits.rate_factor` times that of the rest. What is frozen has no place in it.
    """
    parameters = trained_parameters(model)
    halting = [parameter for name, parameter in parameters.items() if name.startswith(HALTING)]
    others = [parameter for name, parameter in parameters.items() if not name.startswith(HALTING)]
    groups = [
        {"params": params, "factor": factor}
        for params, factor in ((others, 1.0), (halting, config.exits.rate_factor))
        if params
    ]
    return torch.optim.AdamW(
        groups, lr=0.0, betas=(0.9, 0.98), eps=1e-9, weight_decay=config.training.weight_decay, fused=True
    )


def trained_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that training changes, by name: all that are not frozen."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def save_state(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, progress: TrainingProgress) -> None:
    """Writes everything as one file, so that no kill can leave two halves of different moments."""
    save_tensors(path, state_tensors(model, optimizer), {"progress": json.dumps(asdict(progress), allow_nan=False)})


def state_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The weights and the moments of Adam by name; before its first step these are zeros, with
    which it begins."""
    tensors = {f"model.{name}": tensor for name, tensor in model_tensors(model).items()}
    for name, parameter in trained_parameters(model).items():
        moments = optimizer.state.get(parameter) or {moment: torch.zeros_like(parameter) for moment in MOMENTS}
        tensors |= {f"{moment}.{name}": moments[moment] for moment in MOMENTS}
    return tensors


def load_state(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> TrainingProgress:
    """Fills model and optimizer from `path` and returns how far the run had come."""
    tensors, notes = load_weights(path)
    try:
        values = parse_json(notes["progress"])
        known = {each.name for each in fields(TrainingProgress)}
        if not isinstance(values, dict) or not ALWAYS <= values.keys() <= known:
            raise Unreadable("it does not tell how far it is")
        progress = checked(TrainingProgress, values)
    except (KeyError, Unreadable) as error:
        raise RunError(f"{path} is no training state ({error}); train again") from error
    fill_model(model, _part(tensors, "model"), path)
    moments = {moment: _part(tensors, moment) for moment in MOMENTS}
    steps = float(progress.update - progress.left_out)
    for name, parameter in trained_parameters(model).items():
        if not all(name in part and part[name].shape == parameter.shape for part in moments.values()):
            raise RunError(f"{path} is no training state (it lacks the moments of {name}); train again")
        state = {moment: moments[moment][name].to(parameter.device) for moment in MOMENTS}
        optimizer.state[parameter] = {"step": torch.tensor(steps, device=parameter.device), **state}
    return progress


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(f"{prefix}."): tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")
    }
