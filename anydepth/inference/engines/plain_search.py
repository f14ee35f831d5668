"""The specification of every engine: search over the plain step of a model, similar lengths
together."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Int

from anydepth.exits.policies import FixedExit, ForcedExits, Policy
from anydepth.model.transformer import Transformer
from anydepth.search.beam import Hypothesis, search
from anydepth.search.decoding import SearchSettings
from anydepth.text.batches import batch_plan, make_source


def plain_search(
    model: Transformer, sequences: Sequence[Sequence[int]], policy: Policy, settings: SearchSettings
) -> list[list[Hypothesis]]:
    """The best hypotheses of each sentence, given as tokens without EOS, in the order of
    `sequences`."""
    device = model.target_embedding.weight.device
    found: list[list[Hypothesis]] = [[] for _ in sequences]
    for batch in planned_batches(sequences, settings):
        source, mask = (tensor.to(device) for tensor in make_source([sequences[number] for number in batch]))
        own = policy
        if isinstance(policy, ForcedExits):  # its rows are in the order of `sequences`
            own = policy.of_sentences(batch.tolist(), len(sequences))
        for number, hypotheses in zip(batch, search(model, source, mask, own, settings), strict=True):
            found[number] = hypotheses
    return found


def plain_search_every_exit(
    model: Transformer, sequences: Sequence[Sequence[int]], settings: SearchSettings
) -> list[list[Hypothesis]]:
    """The best hypothesis of each sentence at each exit, as [sentence][n - 1]; a sentence is
    encoded once for all exits."""
    device = model.target_embedding.weight.device
    found: list[list[Hypothesis]] = [[] for _ in sequences]
    for batch in planned_batches(sequences, settings):
        source, mask = (tensor.to(device) for tensor in make_source([sequences[number] for number in batch]))
        with torch.inference_mode():
            memory = model.encode(source, mask)
        for n in model.config.classifier_exits:
            hypotheses = search(model, source, mask, FixedExit(n, model.blocks), settings, memory=memory)
            for number, (best, *_) in zip(batch, hypotheses, strict=True):
                found[number].append(best)
    return found


def planned_batches(
    sequences: Sequence[Sequence[int]], settings: SearchSettings
) -> Iterator[Int[np.ndarray, " sentence"]]:
    """The numbers of the sentences that are searched together, within both limits of `settings`."""
    lengths = np.array([len(ids) + 1 for ids in sequences], dtype=np.int64)
    for planned in batch_plan(lengths, np.arange(len(sequences)), max_tokens=settings.batch_tokens // settings.beam):
        size = settings.batch_sentences or len(planned)
        yield from (planned[start : start + size] for start in range(0, len(planned), size))
