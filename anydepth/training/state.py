"""All that training needs to resume exactly where it was: weights, optimizer moments, counters,
place in the data."""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

import torch
from torch import Tensor, nn

from anydepth.errors import RunError
from anydepth.files.reading import Unreadable, checked, parse_json
from anydepth.model.checkpoint import fill_model, load_weights, model_tensors, save_tensors
from anydepth.text.batches import Position
from anydepth.training.optimizer import ADAM_MOMENTS, moments_of, trained_parameters


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


def save_state(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, progress: TrainingProgress) -> None:
    """Writes everything as one file, so that no kill can leave two halves of different moments."""
    save_tensors(path, state_tensors(model, optimizer), {"progress": json.dumps(asdict(progress), allow_nan=False)})


def state_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The weights and the moments of the optimizer by name; before its first step these are zeros,
    with which it begins."""
    tensors, kept = {f"model.{name}": tensor for name, tensor in model_tensors(model).items()}, moments_of(optimizer)
    for name, parameter in trained_parameters(model).items():
        state, moments = optimizer.state.get(parameter), kept[parameter]
        tensors |= {f"{moment}.{name}": state[moment] if state else torch.zeros_like(parameter) for moment in moments}
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
    steps, kept = float(progress.update - progress.left_out), moments_of(optimizer)
    for name, parameter in trained_parameters(model).items():
        found = {moment: tensors.get(f"{moment}.{name}") for moment in kept[parameter]}
        own = {moment: part.to(parameter.device) for moment, part in found.items() if part is not None}
        if len(own) < len(found) or any(part.shape != parameter.shape for part in own.values()):
            raise RunError(f"{path} is no training state (it lacks the moments of {name}); train again")
        counted = {"step": torch.tensor(steps, device=parameter.device)} if kept[parameter] == ADAM_MOMENTS else {}
        optimizer.state[parameter] = {**counted, **own}
    return progress


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(f"{prefix}."): tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")
    }
