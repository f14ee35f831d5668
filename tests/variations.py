"""Settings in which models vary as MarianMT's do, and weights for what they add."""

from itertools import product

import torch

from anydepth.model.transformer import Transformer

ACTIVATIONS = ("relu", "gelu", "swish")
MARIAN = ("model.activation=swish", "model.positions=marian", "model.output_bias=true", "model.encoder.heads=2")
VARIATIONS = [
    (
        f"model.activation={activation}",
        f"model.positions={positions}",
        f"model.scale_embeddings={scale}",
        f"model.output_bias={bias}",
        "model.encoder.heads=2",
    )
    for activation, positions, scale, bias in product(
        ACTIVATIONS, ("sinusoidal", "marian"), ("true", "false"), ("true", "false")
    )
]
BANS = (-torch.inf, -1e9)


def named(changes: tuple[str, ...]) -> str:
    """The values alone, for the names of tests."""
    return "-".join(change.partition("=")[2] for change in changes)


def ban(model: Transformer, *words: int, bias: float) -> None:
    """Gives `words` a bias with which they must never be produced."""
    assert model.output_bias is not None, "there is no bias to ban by"
    with torch.no_grad():
        model.output_bias[list(words)] = bias
