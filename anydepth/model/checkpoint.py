"""Weights on disk: safetensors with a checksum, so that a damaged file is named and never used."""

import hashlib
import json
import os
import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from anydepth.errors import RunError
from anydepth.files.reading import check_regular
from anydepth.files.seal import replacing, seal_of

CHECKSUM = "sha256"
OUTPUT_BIAS = "output_bias"  # the one tensor that may have -inf, which bans a word


def save_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None) -> None:
    """Writes tensors and `notes` as one safetensors file, whole or not at all; a file of a sealed
    run is sealed with it."""
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = dict(notes or {})
    metadata[CHECKSUM] = _checksum(stored, metadata)
    with replacing(path) as temporary:
        try:
            save_file(stored, temporary, metadata=metadata)
        except SafetensorError as error:  # it tells the system's reason in its text only
            number = re.search(r"os error (\d+)", str(error))
            raise (OSError(int(number[1]), os.strerror(int(number[1]))) if number else OSError(str(error))) from error


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and notes of a file that `save_tensors` wrote; a damaged one is refused by name.

    A file of a sealed run must be the one that the seal lists, which tells it from another run's,
    too. That is as good as its own checksum.
    """
    seal = seal_of(path)
    if seal is None:
        return own_tensors(path)
    seal.check(path)
    tensors, metadata = _stored(path)
    metadata.pop(CHECKSUM, None)
    return tensors, metadata


def own_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and notes of a file by its own checksum, whatever a seal says of it."""
    tensors, metadata = _stored(path)
    expected = metadata.pop(CHECKSUM, None)
    if expected != _checksum(tensors, metadata):
        raise RunError(
            f"{path} does not have the contents that were saved (its checksum differs); restore it from a copy or "
            "train again"
        )
    return tensors, metadata


def _stored(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file."""
    if not path.exists():
        raise RunError(f"there is no {path}")
    try:
        check_regular(path)
        with safe_open(path, framework="pt") as file:
            metadata = dict(file.metadata() or {})
            return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, struct.error) as error:
        raise RunError(f"{path} is damaged or cut short ({error}); restore it from a copy or train again") from error


def load_notes(path: Path) -> dict[str, str]:
    """The notes of a file that `save_tensors` wrote, without its tensors."""
    try:
        check_regular(path)
        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError, ValueError, struct.error) as error:
        raise RunError(f"{path} is damaged or cut short ({error}); restore it from a copy or train again") from error


def stored_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors of a file by their names, from its header alone: no tensor is read.

    A file of a sealed run must be the one that the seal lists.
    """
    if (seal := seal_of(path)) is not None:
        seal.check(path)
    try:
        check_regular(path)
        with safe_open(path, framework="pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise RunError(f"there is no {path}") from None
    except (SafetensorError, OSError, ValueError, struct.error) as error:
        raise RunError(f"{path} is damaged or cut short ({error}); restore it from a copy or train again") from error


def load_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The weights and notes of a file that `save_tensors` wrote; one with numbers that are none is
    refused, too."""
    tensors, notes = load_tensors(path)
    if bad := not_finite(tensors):
        raise RunError(
            f"{path} has weights that are not numbers ({bad}); train again with a lower training.learning_rate"
        )
    return tensors, notes


def not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of the first tensor that has a NaN or an infinity, but for the -inf of banned words;
    None if all are numbers."""
    return next((name for name in sorted(tensors) if not _is_sound(name, tensors[name])), None)


def _is_sound(name: str, tensor: Tensor) -> bool:
    return bool(((tensor < torch.inf) if name == OUTPUT_BIAS else torch.isfinite(tensor)).all())


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The parameters by name, each once even where modules share it."""
    return {name: parameter.data for name, parameter in model.named_parameters()}


def fill_model(model: nn.Module, tensors: Mapping[str, Tensor], origin: Path) -> None:
    """Copies `tensors` into the parameters of the same names; any difference in names or shapes is
    an error."""
    parameters = model_tensors(model)
    if missing := sorted(parameters.keys() ^ tensors.keys()):
        raise RunError(f"{origin} does not fit its configuration: {missing[0]} is in only one of them")
    for name, parameter in parameters.items():
        if parameter.shape != tensors[name].shape:
            raise RunError(
                f"{origin} does not fit its configuration: {name} is {tuple(tensors[name].shape)} in the file "
                f"and {tuple(parameter.shape)} in the model"
            )
        parameter.copy_(tensors[name])


def average_tensors(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights in several checkpoints (section 4.1: the last ten on WMT)."""
    total: dict[str, Tensor] = {}
    for path in paths:
        tensors = load_weights(path)[0]
        if total and {name: tensor.shape for name, tensor in tensors.items()} != {
            name: tensor.shape for name, tensor in total.items()
        }:
            raise RunError(
                f"{path} is not a checkpoint of the same model as {paths[0]}, so they have no average; restore it "
                "from a copy"
            )
        for name, tensor in tensors.items():
            total[name] = total[name] + tensor.double() if name in total else tensor.double()
    return {name: (tensor / len(paths)).to(torch.float32) for name, tensor in total.items()}


def _checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(sorted(metadata.items())).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
