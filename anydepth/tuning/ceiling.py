"""What is left to gain: an oracle that leaves where the best word is that of full depth already."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from anydepth.errors import UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.policies import ForcedExits
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say
from anydepth.runs.run import Run
from anydepth.search.decoding import GREEDY
from anydepth.text.batches import Batch, ordered_batches
from anydepth.text.tokens import TokenPairs
from anydepth.tuning.decoded_points import DecodedPoints, TunedSearch
from anydepth.tuning.valid_text import validation_text

BATCH_TOKENS = 4096


@dataclass(frozen=True)
class Ceiling:
    """Greedy BLEU of full depth, and of exits that were forced to be the lowest at which the best
    word is full depth's, with their average; the decision itself is taken to be free."""

    full_depth_bleu: float
    oracle_bleu: float
    oracle_average_exit: float
    oracle_flops_share: float
    exit_shares: list[float]

    def describe(self) -> str:
        """The ceiling in one line."""
        shares = " / ".join(f"{100 * share:.0f}" for share in self.exit_shares)
        return (
            f"oracle that leaves where the best word is full depth's: BLEU {self.oracle_bleu:.2f} at AE "
            f"{self.oracle_average_exit:.2f}, {100 * self.oracle_flops_share:.0f}% of the FLOPs (exits {shares}%); "
            f"full depth: BLEU {self.full_depth_bleu:.2f}"
        )

    def to_json(self) -> str:
        """The ceiling as one JSON object."""
        return json.dumps(asdict(self), indent=1)


def run_ceiling(folder: Path, valid: str, *, int8: bool = False, say: Say) -> Ceiling:
    """The ceiling of the run at `folder` on PREFIX `valid`, by forced decoding.

    Full depth translates greedily; along its words the oracle finds its exits; these are forced in
    a second greedy translation, where later words see the copied states.
    """
    translator, run = Translator.load(folder, int8=int8), Run(folder)
    if translator.model.config.exits != "all" or translator.model.blocks == 1:
        raise UsageError("this model has one exit only, so there is no earlier one to leave at")
    decoded = DecodedPoints(translator, run, validation_text(run, valid, say), GREEDY, say)
    full, texts = decoded.full_depth()
    exits = agreeing_exits(translator.model, decoded.pairs(texts))
    table = torch.full((len(exits), max(map(len, exits))), translator.model.blocks)
    for row, own in zip(table, exits, strict=True):
        row[: len(own)] = own
    forced, _ = decoded.decode(TunedSearch(ForcedExits(table, model_blocks=translator.model.blocks)))
    every = torch.cat(exits)
    counts = [float((every == n).double().mean()) for n in range(1, translator.model.blocks + 1)]
    return Ceiling(full.bleu, forced.bleu, forced.average_exit, forced.flops_share, counts)


@torch.inference_mode()
def agreeing_exits(model: AdaptiveTransformer, pairs: TokenPairs) -> list[Int[Tensor, " time"]]:
    """For each pair the lowest exit at each target position whose best word is that of the last
    block, with states of full depth."""
    found: dict[int, Tensor] = {}
    for batch in ordered_batches(pairs, max_tokens=BATCH_TOKENS):
        exits = _agreeing(model, batch)
        for row, mask, number in zip(exits, batch.target_mask, batch.indices, strict=True):
            found[number] = row[mask]
    return [found[number] for number in range(len(pairs))]


def _agreeing(model: AdaptiveTransformer, batch: Batch) -> Int[Tensor, "batch time"]:
    memory = model.encode(batch.source, batch.source_mask)
    states = model.decode(batch.target_inputs, memory, batch.source_mask)  # (block, batch, time, dim)
    flat = states.flatten(1, 2)
    words = torch.stack([model.logits_at(n, flat[n - 1]).argmax(dim=-1) for n in range(1, model.blocks + 1)])
    agrees = words == words[-1]  # the first block that agrees; the last one does
    return (1 + agrees.int().argmax(dim=0)).view(batch.targets.shape)
