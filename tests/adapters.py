"""Tiny models whose exits below the last have adapters that do something."""

import torch
from walks import model_for

from anydepth.exits.adaptive import AdaptiveTransformer

WIDTH = 5
ADAPTER = f"model.exit_adapter={WIDTH}"


def adapted_model(policy: str, *changes: str, seed: int = 3) -> AdaptiveTransformer:
    """A model that has what the policy of that text needs, and no fresh adapter."""
    model = model_for(policy, ADAPTER, *changes, seed=seed)
    stir(model)
    return model


@torch.no_grad()
def stir(model: AdaptiveTransformer) -> None:
    """Gives the adapters weights with which they change what is said."""
    for parameter in model.exit_adapters.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(5)), alpha=0.6)
