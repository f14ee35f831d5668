"""Models of every policy, walked along given targets position by position; and the states that each
position had to choose from."""

from itertools import product

import reference
import torch
from tiny import tiny_batch, tiny_model
from torch import Tensor

from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.halting import GeometricHalting, MultinomialHalting, SequenceHalting
from anydepth.exits.policies import Policy
from anydepth.model.cache import DecoderCache
from anydepth.model.source import EncodedSource
from anydepth.text.batches import Batch
from anydepth.vocabulary.selection import CandidateWords

TRAINED = ("sequence", "multinomial", "geometric")
# policies that stop at the first block whose signal exceeds its threshold; for the models of
# `model_for` all exits occur
THRESHOLD_POLICIES: dict[str, reference.Signal] = {
    "geometric:0.6,0.4,0.5": reference.halt_probability,
    "confidence:0.7,0.5,0.6": reference.confidence,
    "margin:0.6,0.3,0.5": reference.margin,
    "similarity:0.74,0.7,0.8": reference.similarity,
    "shortlist:5:0.7,0.6,0.65": reference.shortlist(5),
}
# Every way in which each of the three thresholds is what it is above, 0 (always stop) or 1 (never)
PATTERNS = ["".join(letters) for letters in product("t01", repeat=3)]
SOME_PATTERNS = ["1tt", "t1t", "tt1", "11t", "1t1", "t0t", "1t0", "10t", "111", "0tt"]
POLICIES = ["fixed:3", "uniform:7", "sequence", "multinomial", *THRESHOLD_POLICIES]
FEW_EXITS = ("fixed:3",)  # of POLICIES: those that take no more than two exits
ONE_BLOCK = {"fixed:3": "fixed:1"}  # what a model of one block has instead of one of POLICIES


def model_for(policy: str, *changes: str, seed: int = 1) -> AdaptiveTransformer:
    """A model that has what the policy of that text needs, sure of its words and of its exits often
    enough."""
    name = policy.partition(":")[0]
    halting = [f"exits.halting={name}"] if name in TRAINED else []
    model = tiny_model(*halting, *changes, seed=seed)
    with torch.no_grad():
        for classifier in {model.classifier(n) for n in model.config.classifier_exits}:
            classifier *= 3
        if model.halting is not None:
            spread_exits(model)
    return model


def with_ends(policy: str, pattern: str) -> str:
    """The threshold policy `policy` with 0 and 1 in the places where `pattern` has them, as
    "confidence:0.7,1,0.6" for "t1t"."""
    family, _, values = policy.rpartition(":")
    own = zip(pattern, values.split(","), strict=True)
    return f"{family}:{','.join(value if letter == 't' else letter for letter, value in own)}"


def spread_exits(model: AdaptiveTransformer) -> None:
    """Makes the scores of the halting module large, and even on average over a batch."""
    batch = tiny_batch()
    memory = model.encode(batch.source, batch.source_mask)
    if isinstance(model.halting, SequenceHalting):
        linear, seen = model.halting.sentence_scores, memory[batch.source_mask]
    else:
        states = model.decode(batch.target_inputs, memory, batch.source_mask)
        if isinstance(model.halting, GeometricHalting):
            linear, seen = model.halting.stop_score, states[:-1].flatten(0, 2)
            seen = seen if model.halting.features is None else model.halting.features(seen).relu()
        else:
            assert isinstance(model.halting, MultinomialHalting)
            linear, seen = model.halting.token_scores, states[0].flatten(0, 1)
    linear.weight *= 50
    linear.bias.copy_(-(linear.weight @ seen.mean(dim=0)))


@torch.no_grad()
def walk(model: AdaptiveTransformer, batch: Batch, policy: Policy) -> tuple[Tensor, Tensor]:
    """The exits (batch, time) that `policy` takes along the targets, and the scores of all words
    (batch, time, vocab) there."""
    memory = model.encode(batch.source, batch.source_mask)
    cache, length = DecoderCache.start(memory, batch.source_mask), batch.target_inputs.shape[1]
    planned = policy.plan(EncodedSource(batch.source, batch.source_mask, memory), limit=length)
    exits, logits = [], []
    for t in range(length):
        decisions = policy.decisions(CandidateWords(model))
        hidden, left = model.step(batch.target_inputs[:, t], cache, planned[:, t], decisions.revise)
        exits.append(left)
        logits.append(decisions.word_logits(hidden, left))
    return torch.stack(exits, dim=1), torch.stack(logits, dim=1)


@torch.no_grad()
def choices(model: AdaptiveTransformer, source: list[int], inputs: list[int], exits: list[int]) -> list[list[Tensor]]:
    """The states h_t^0..h_t^N of every position t of a sentence, by teacher forcing, had only t
    itself gone through all blocks."""
    memory = model.encode(torch.tensor([source]), torch.ones(1, len(source), dtype=torch.bool))
    mask = torch.ones(1, len(source), dtype=torch.bool)
    embedded = reference.embed(model.target_embedding, inputs)
    every = []
    for t in range(len(inputs)):
        states = model.decode(
            torch.tensor([inputs[: t + 1]]), memory, mask, exits=torch.tensor([[*exits[:t], model.blocks]])
        )
        every.append([embedded[t], *states[:, 0, t]])
    return every
