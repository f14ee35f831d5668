"""The model of a run: made fresh, loaded from its weights, or started from those of another run."""

import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from anydepth.config.model_settings import ModelConfig
from anydepth.errors import RunError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.model.checkpoint import fill_model, load_weights, model_tensors, stored_shapes
from anydepth.runs.run import Run

# What the names of their tensors begin with.
HALTING = "halting."
CLASSIFIERS = "classifiers."
ADAPTERS = "exit_adapters."
LAST_NORM = "feed_forward_norm."  # in a decoder block


def new_model(run: Run) -> AdaptiveTransformer:
    """A model of the run's shape with fresh weights."""
    source, target = run.tokenizers()
    return AdaptiveTransformer(run.config, source_vocab=source.size, target_vocab=target.size, is_joint=run.is_joint)


def load_model(run: Run) -> AdaptiveTransformer:
    """The trained model, ready to translate."""
    check_weights(run)
    model = new_model(run)
    fill_model(model, load_weights(run.weights_file)[0], run.weights_file)
    return model.eval()


def check_weights(run: Run) -> None:
    """Refuses a folder that is no run, a run without weights, and weights of a model of another shape."""
    config = run.config
    if not run.seal.has(run.weights_file):
        hint = (
            "its training has not ended; go on with `anydepth train --resume`"
            if run.state_file.exists()
            else "train it first"
        )
        raise RunError(f"{run.folder} has no model.safetensors: {hint} (updates asked for: {config.training.updates})")
    check_shape(run, run.weights_file)


def check_shape(run: Run, weights: Path, *, prefix: str = "") -> None:
    """Refuses settings of a model that is not that of the file `weights`, before memory is taken
    for any of it.

    `prefix` is what the names of the model's tensors begin with in that file.
    """
    shapes = {
        name.removeprefix(prefix): shape for name, shape in stored_shapes(weights).items() if name.startswith(prefix)
    }
    model, stored = run.config.model, sizes_of(shapes)
    asked = {
        "model.encoder.blocks": model.encoder.blocks,
        "model.encoder.dim": model.encoder.dim,
        "model.encoder.ffn_dim": model.encoder.ffn_dim,
        "model.blocks": model.blocks,
        "model.decoder.dim": model.decoder.dim,
        "model.decoder.ffn_dim": model.decoder.ffn_dim,
    }
    for setting, size in asked.items():
        if stored[setting] != size:
            raise RunError(
                f"{weights} does not fit its configuration: {setting} is {stored[setting]} in the file and {size} in "
                f"{run.config_file}"
            )


def sizes_of(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The sizes of the model whose tensors have these shapes, by the names of their settings; 0
    where there is no such tensor."""

    def size(name: str, axis: int) -> int:
        shape = shapes.get(name, ())
        return shape[axis] if axis < len(shape) else 0

    def blocks(side: str) -> int:
        return 1 + max(
            (int(found[1]) for name in shapes if (found := re.match(rf"{side}\.([0-9]{{1,6}})\.", name))), default=-1
        )

    return {
        "model.encoder.blocks": blocks("encoder"),
        "model.encoder.dim": size("encoder.0.feed_forward.inner.weight", 1),
        "model.encoder.ffn_dim": size("encoder.0.feed_forward.inner.weight", 0),
        "model.blocks": blocks("decoder"),
        "model.decoder.dim": size("target_embedding.weight", 1),
        "model.decoder.ffn_dim": size("decoder.0.feed_forward.inner.weight", 0),
    }


def start_from(model: AdaptiveTransformer, weights: Path) -> None:
    """Fills all of `model` that the file `weights` has; a halting module of another kind or size
    keeps its fresh weights, and exits that the file does not have start as `added_exits` says."""
    if not weights.exists():
        raise RunError(
            f"there is no {weights}, which this run was to start from; make the run again with --from and --overwrite"
        )
    own, loaded = model_tensors(model), load_weights(weights)[0]
    loaded |= added_exits(own, loaded)
    old, fresh = ({name: tensor for name, tensor in each.items() if name.startswith(HALTING)} for each in (loaded, own))
    is_same = {name: tensor.shape for name, tensor in old.items()} == {
        name: tensor.shape for name, tensor in fresh.items()
    }
    kept = {name: tensor for name, tensor in loaded.items() if name not in old}
    fill_model(model, kept | (old if is_same else fresh), weights)


def lowest_blocks(tensors: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """The tensors of a model without those that `config` has no place for: of decoder blocks above its
    lowest, and what makes keys and values in those that have none of their own."""
    block = re.compile(r"decoder\.(\d+)\.((?:self|source)_attention\.(?:key|value)\.)?")

    def has_place(name: str) -> bool:
        found = block.match(name)
        return found is None or int(found[1]) < (config.key_blocks if found[2] else config.blocks)

    return {name: tensor for name, tensor in tensors.items() if has_place(name)}


def added_exits(own: Mapping[str, Tensor], loaded: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What the exits of a model with the tensors `own` start from where `loaded` has the last one
    alone, or exits without adapters.

    Each classifier of its own is a copy of the last exit's. The norm of an adapter is a copy of the
    last one of the last decoder block, and the rest of it is as fresh as in `own`.
    """
    added: dict[str, Tensor] = {}
    classifiers = [name for name in own if name.startswith(CLASSIFIERS)]
    if classifiers and [name for name in loaded if name.startswith(CLASSIFIERS)] == classifiers[:1]:
        added |= dict.fromkeys(classifiers, loaded[classifiers[0]])
    if not any(name.startswith(ADAPTERS) for name in loaded):
        last = f"decoder.{sizes_of({name: tensor.shape for name, tensor in loaded.items()})['model.blocks'] - 1}"
        for name, tensor in own.items():
            if name.startswith(ADAPTERS):
                _, is_norm, part = name.partition(".norm.")
                added[name] = loaded.get(f"{last}.{LAST_NORM}{part}", tensor) if is_norm else tensor
    return added
