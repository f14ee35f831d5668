"""Whether a model of some shape can be held at all, found out before any memory is taken."""

import os

import torch

from anydepth.config.model_settings import ModelConfig
from anydepth.errors import ConfigError
from anydepth.model.transformer import Transformer

FLOAT = 4
TRAINED = 4  # times the weights: gradients and two moments of Adam come with them


def check_memory(
    config: ModelConfig, *, source_vocab: int, target_vocab: int, is_joint: bool, copies: int = TRAINED
) -> None:
    """Refuses a model of which `copies` would take more memory than this machine has, where that
    can be known.

    Where there is a GPU, training happens there, and only the weights are made here.
    """
    with torch.device("meta"):
        model = Transformer(config, source_vocab=source_vocab, target_vocab=target_vocab, is_joint=is_joint)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    needed, there = FLOAT * parameters * (1 if torch.cuda.is_available() else copies), memory_bytes()
    if there is not None and needed > there:
        raise ConfigError(
            f"a model of these settings has {parameters:,} weights, which takes {needed / 2**30:,.1f} GB, and this "
            f"machine has {there / 2**30:,.1f} GB; lower model.blocks, model.encoder.dim or model.decoder.dim"
        )


def memory_bytes() -> int | None:
    """The memory of this machine; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no such call, and others no such name
        return None
