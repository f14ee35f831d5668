"""The training objective: from a batch to the sums that are minimised (section 2.2)."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from anydepth.config import Config, exit_weights
from anydepth.model.gradients import supervision_scales
from anydepth.model.transformer import Transformer
from anydepth.text.batches import Batch
from anydepth.training.losses import chunked_cross_entropy

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class ExitRows:
    """The states that one exit's classifier has to predict from, with what they should predict."""

    n: int
    hidden: Float[Tensor, "row dim"]
    targets: Int[Tensor, " row"]
    weight: float
    gradient_scale: float = 1.0


class TrainingObjective(nn.Module):
    """The one module that data-parallel training wraps: a batch in, sums of losses out.

    Everything returned is a sum over target tokens; the caller divides by the tokens of the whole global batch.
    """

    def __init__(self, model: Transformer, config: Config) -> None:
        super().__init__()
        self.model = model
        self.training_config = config.training
        self.exits = config.model.classifier_exits
        total = sum(exit_weights(config))
        self.weights = tuple(weight / total for weight in exit_weights(config))
        ratio = config.training.gradient_ratio
        self.supervision = (1.0,) * model.blocks if ratio is None else supervision_scales(ratio, model.blocks)
        self.between_blocks = None if ratio is None else tuple(1 / scale for scale in self.supervision[1:])

    def forward(self, batch: Batch, seed: int) -> tuple[Float[Tensor, ""], Float[Tensor, " exit"], Int[Tensor, " exit"]]:
        """The decoding loss, and without gradient each exit's summed negative log-likelihood and number of rows."""
        memory = self.model.encode(batch.source, batch.source_mask)
        rows = self.mixed_rows(batch, memory, seed) if self.training_config.mode == "mixed" else self.aligned_rows(batch, memory)
        return self.decoding_loss(rows)

    def aligned_rows(self, batch: Batch, memory: Tensor) -> list[ExitRows]:
        """Every exit predicts every target from states that all went through all blocks below (Eq. 4)."""
        # unbind, because the gradient of indexing would fill a tensor of all blocks for each of them
        states = self.model.decode(batch.target_inputs, memory, batch.source_mask, gradient_scales=self.between_blocks).unbind()
        real, targets = real_positions(batch.target_mask), batch.targets[batch.target_mask]
        return [
            ExitRows(n, states[n - 1].flatten(0, 1).index_select(0, real), targets, weight, self.supervision[n - 1])
            for n, weight in zip(self.exits, self.weights, strict=True)
        ]

    def mixed_rows(self, batch: Batch, memory: Tensor, seed: int) -> list[ExitRows]:
        """Every target is predicted at one random exit on each of M paths (Eq. 5), all paths in one pass over M copies."""
        paths, blocks = self.training_config.paths, self.model.blocks
        generator = torch.Generator().manual_seed(seed)
        exits = torch.randint(1, blocks + 1, (paths * len(batch.targets), batch.targets.shape[1]), generator=generator)
        exits = exits.to(memory.device)  # (path * batch, time)
        states = self.model.decode(
            batch.target_inputs.repeat(paths, 1), memory.repeat(paths, 1, 1), batch.source_mask.repeat(paths, 1), exits=exits
        )
        mask = batch.target_mask.repeat(paths, 1)
        hidden = states[-1].flatten(0, 1).index_select(0, real_positions(mask))  # (row, dim): h_t^{n_t}, copied up to the last block
        targets, exits = batch.targets.repeat(paths, 1)[mask], exits[mask]
        return [ExitRows(n, hidden[exits == n], targets[exits == n], 1 / paths) for n in self.exits]

    def decoding_loss(self, every: list[ExitRows]) -> tuple[Tensor, Tensor, Tensor]:
        """The weighted sum of the exits' losses (Eqs. 4 and 5); exits that share a classifier are scored together."""
        groups = [every] if self.model.config.classifiers != "untied" else [[rows] for rows in every]
        total = every[0].hidden.new_zeros(())
        likelihoods: list[Tensor] = []
        for group in groups:
            weights = torch.cat([rows.hidden.new_full((len(rows.hidden),), rows.weight) for rows in group])
            scales = torch.cat([rows.hidden.new_full((len(rows.hidden),), rows.gradient_scale) for rows in group])
            scored = chunked_cross_entropy(
                torch.cat([rows.hidden for rows in group]),
                self.model.classifier(group[0].n),
                torch.cat([rows.targets for rows in group]),
                weights,
                label_smoothing=self.training_config.label_smoothing,
                gradient_weights=weights * scales,
                precision=PRECISIONS[self.training_config.precision],
            )
            total = total + scored.total
            likelihoods += torch.split(scored.log_likelihoods, [len(rows.hidden) for rows in group])
        counts = torch.tensor([len(rows.hidden) for rows in every], device=total.device)
        return total, torch.stack([-part.sum() for part in likelihoods]), counts


def real_positions(mask: Bool[Tensor, "batch time"]) -> Int[Tensor, " row"]:
    """The numbers of the real tokens among the flattened positions."""
    return mask.flatten().nonzero()[:, 0]
