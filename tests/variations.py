"""Settings in which models vary as MarianMT's do, and weights for what they add."""

from itertools import product

import pytest
import torch

from anydepth.model.transformer import Transformer

ACTIVATIONS = ("relu", "gelu", "swish")
MARIAN = ("model.activation=swish", "model.positions=marian", "model.output_bias=true", "model.encoder.heads=2")
# Every pair of values is in one of these; the soak tries all combinations.
PAIRS = {
    ("relu", "sinusoidal", "true", "true"),
    ("relu", "marian", "false", "false"),
    ("gelu", "sinusoidal", "false", "true"),
    ("gelu", "marian", "true", "false"),
    ("swish", "sinusoidal", "true", "false"),
    ("swish", "marian", "false", "true"),
}


def settings_of(activation: str, positions: str, scale: str, bias: str) -> tuple[str, ...]:
    """The changes that make such a model."""
    return (
        f"model.activation={activation}",
        f"model.positions={positions}",
        f"model.scale_embeddings={scale}",
        f"model.output_bias={bias}",
        "model.encoder.heads=2",
    )


VARIATIONS = [
    pytest.param(settings_of(*values), marks=() if values in PAIRS else pytest.mark.soak)
    for values in product(ACTIVATIONS, ("sinusoidal", "marian"), ("true", "false"), ("true", "false"))
]
APART = ("model.attended_states=first", "model.attended_states=shared")
VARIATIONS += [pytest.param((attended,)) for attended in APART]
VARIATIONS += [pytest.param((attended, *MARIAN), marks=pytest.mark.soak) for attended in APART]
BANS = (-torch.inf, -1e9)


def named(changes: tuple[str, ...]) -> str:
    """The values alone, for the names of tests."""
    return "-".join(change.partition("=")[2] for change in changes)


def ban(model: Transformer, *words: int, bias: float) -> None:
    """Gives `words` a bias with which they must never be produced."""
    assert model.output_bias is not None, "there is no bias to ban by"
    with torch.no_grad():
        model.output_bias[list(words)] = bias
