"""What searches for translations: one contract, and its plain form in PyTorch."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.policies import Policy
from anydepth.search.beam import Hypothesis, SearchSettings, search
from anydepth.text.batches import batch_plan, make_source


@runtime_checkable
class Engine(Protocol):
    """Finds the hypotheses of source sentences. The plain step of the model is the specification:
    same tokens, same exits."""

    model: AdaptiveTransformer

    @property
    def name(self) -> str:
        """The engine in the words of a recipe, such as "torch"."""

    def search(
        self,
        sequences: Sequence[Sequence[int]],
        policy: Policy,
        settings: SearchSettings,
        *,
        batch_tokens: int,
        batch_sentences: int | None = None,
    ) -> list[list[Hypothesis]]:
        """The best hypotheses of each sentence, given as tokens without EOS, in the order of
        `sequences`.

        At any time as many sentences are searched together as fit: sentences * beam * longest
        source <= `batch_tokens`, and no more than `batch_sentences`.
        """


class TorchEngine:
    """Search over the plain step of a model, similar lengths together."""

    name = "torch"

    def __init__(self, model: AdaptiveTransformer) -> None:
        self.model = model

    def search(
        self,
        sequences: Sequence[Sequence[int]],
        policy: Policy,
        settings: SearchSettings,
        *,
        batch_tokens: int,
        batch_sentences: int | None = None,
    ) -> list[list[Hypothesis]]:
        """The best hypotheses of each sentence."""
        lengths, device = (
            np.array([len(ids) + 1 for ids in sequences], dtype=np.int64),
            self.model.target_embedding.weight.device,
        )
        found: list[list[Hypothesis]] = [[] for _ in sequences]
        for planned in batch_plan(lengths, np.arange(len(sequences)), max_tokens=batch_tokens // settings.beam):
            size = batch_sentences or len(planned)
            for batch in (planned[start : start + size] for start in range(0, len(planned), size)):
                source, mask = make_source([sequences[number] for number in batch])
                hypotheses = search(self.model, source.to(device), mask.to(device), policy, settings)
                for number, each in zip(batch, hypotheses, strict=True):
                    found[number] = each
        return found
