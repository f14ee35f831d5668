"""Sentences decoded at every exit of a model, each encoded once for all of them."""

from collections.abc import Sequence

import numpy as np
import torch

from anydepth.errors import UsageError
from anydepth.exits.policies import FixedExit, ForcedExits
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.native.native_engine import SENTENCES, NativeEngine
from anydepth.search.beam import Hypothesis, SearchSettings, search
from anydepth.text.batches import batch_plan, make_source


def search_every_exit(
    engine: Engine, sequences: Sequence[Sequence[int]], settings: SearchSettings, *, batch_tokens: int
) -> list[list[Hypothesis]]:
    """The best hypothesis of each sentence, given as tokens without EOS, at each exit: those that
    fixed:n finds, as [sentence][n - 1].

    The native engine takes N copies of a sentence, which it encodes once; any other is left to the
    plain step of its model.
    """
    if engine.model.config.exits != "all":
        raise UsageError(
            "this model has one exit, after its last block, so there is nothing to choose; train one with "
            'model.exits = "all"'
        )
    if not sequences:
        return []
    if isinstance(engine, NativeEngine):
        return _native_search(engine, sequences, settings, batch_tokens=batch_tokens)
    return _plain_search(engine, sequences, settings, batch_tokens=batch_tokens)


def _native_search(
    engine: NativeEngine, sequences: Sequence[Sequence[int]], settings: SearchSettings, *, batch_tokens: int
) -> list[list[Hypothesis]]:
    blocks = engine.model.blocks
    copies = [ids for ids in sequences for _ in range(blocks)]
    exits = torch.arange(1, blocks + 1).repeat(len(sequences))[:, None]
    # A block runs for about half of the copies, so this many of them make products of the size that
    # a search for one exit has.
    found = engine.search(
        copies,
        ForcedExits(exits, model_blocks=blocks),
        settings,
        batch_tokens=max(1, blocks // 2) * batch_tokens,
        batch_sentences=max(1, blocks // 2) * SENTENCES,
    )
    return [[hypotheses[0] for hypotheses in found[start : start + blocks]] for start in range(0, len(found), blocks)]


def _plain_search(
    engine: Engine, sequences: Sequence[Sequence[int]], settings: SearchSettings, *, batch_tokens: int
) -> list[list[Hypothesis]]:
    model = engine.model
    device, lengths = (
        model.target_embedding.weight.device,
        np.array([len(ids) + 1 for ids in sequences], dtype=np.int64),
    )
    found: list[list[Hypothesis]] = [[] for _ in sequences]
    for planned in batch_plan(lengths, np.arange(len(sequences)), max_tokens=batch_tokens // settings.beam):
        source, mask = (tensor.to(device) for tensor in make_source([sequences[number] for number in planned]))
        with torch.inference_mode():
            memory = model.encode(source, mask)
        for n in model.config.classifier_exits:
            hypotheses = search(model, source, mask, FixedExit(n, model.blocks), settings, memory=memory)
            for number, (best, *_) in zip(planned, hypotheses, strict=True):
                found[number].append(best)
    return found
