"""The number formats of products in training, by their names in the settings."""

import torch

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
