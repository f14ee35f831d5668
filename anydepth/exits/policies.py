"""Policies: where each token leaves the decoder while translating (section 3 of the paper)."""

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from anydepth.errors import UsageError
from anydepth.exits.flops import (
    DecisionCost,
    geometric_decision,
    multinomial_decision,
    no_decision,
    sequence_decision,
    units_decision,
)
from anydepth.exits.halting import GeometricHalting, MultinomialHalting, SequenceHalting, most_probable_exits
from anydepth.model.source import EncodedSource
from anydepth.vocabulary.selection import CandidateWords


@runtime_checkable
class Decisions(Protocol):
    """What a policy decides, and may remember, during one time step of a batch of rows."""

    def revise(self, n: int, hidden: Float[Tensor, "row dim"], planned: Int[Tensor, " row"]) -> Int[Tensor, " row"]:
        """The plans of the rows still running after block n, whose states are `hidden`; a row
        planned at n leaves now.

        Called for n = 0 (with the embedded inputs), 1, 2, ...; each time with the rows that the
        call before sent beyond its n.
        """

    def word_logits(self, hidden: Float[Tensor, "row dim"], exits: Int[Tensor, " row"]) -> Float[Tensor, "row word"]:
        """The scores of the words of all rows of the step, from their states h_t^{n_t} and exits
        n_t."""


@runtime_checkable
class Policy(Protocol):
    """Decides exits: `plan` before the first token of a batch of sentences, `decisions` for each
    time step.

    A sentence's exits must not depend on its neighbours, on padding, or on `limit`: a longer plan
    begins like a shorter one.
    """

    @property
    def blocks(self) -> int:
        """The number of decoder blocks, N."""

    @property
    def name(self) -> str:
        """The policy in the words of a recipe, such as "fixed:3"."""

    @property
    def cost(self) -> DecisionCost:
        """What its decisions cost by appendix B, output projection included."""

    def plan(self, source: EncodedSource, *, limit: int) -> Int[Tensor, "sentence limit"]:
        """The planned exit of every future token; all hypotheses of a sentence share its plan."""

    def decisions(self, words: CandidateWords) -> Decisions:
        """Fresh decisions for one time step, whose rows choose among `words`."""


@dataclass
class PlannedDecisions:
    """Decisions that leave every plan as it is."""

    words: CandidateWords

    def revise(self, n: int, hidden: Float[Tensor, "row dim"], planned: Int[Tensor, " row"]) -> Int[Tensor, " row"]:
        """`planned` as it was."""
        return planned

    def word_logits(self, hidden: Float[Tensor, "row dim"], exits: Int[Tensor, " row"]) -> Float[Tensor, "row word"]:
        """The classifiers' scores."""
        return self.words.exit_logits(hidden, exits)


class PlanKeepingPolicy:
    """The part of a policy that keeps to its plan: nothing is decided while decoding."""

    def decisions(self, words: CandidateWords) -> Decisions:
        """Nothing to decide."""
        return PlannedDecisions(words)

    @property
    def cost(self) -> DecisionCost:
        """The output projection alone."""
        return no_decision


class BlockwisePolicy:
    """The part of a policy that plans the last block and decides after the blocks below it."""

    blocks: int

    def plan(self, source: EncodedSource, *, limit: int) -> Int[Tensor, "sentence limit"]:
        """N everywhere."""
        return torch.tensor(self.blocks, device=source.tokens.device).expand(len(source), limit)


@dataclass(frozen=True)
class FixedExit(PlanKeepingPolicy):
    """Every token leaves after block n (section 4.2)."""

    n: int
    blocks: int

    def __post_init__(self) -> None:
        if not 1 <= self.n <= self.blocks:
            raise UsageError(f"fixed:{self.n}: this model has exits 1 to {self.blocks}")

    @property
    def name(self) -> str:
        """The policy in the words of a recipe."""
        return f"fixed:{self.n}"

    def plan(self, source: EncodedSource, *, limit: int) -> Int[Tensor, "sentence limit"]:
        """n everywhere."""
        return torch.tensor(self.n, device=source.tokens.device).expand(len(source), limit)


@dataclass(frozen=True)
class UniformExit(PlanKeepingPolicy):
    """Every token leaves after a block drawn from U{1..N}; the draw is a function of the seed, the
    source tokens and t (section 4.2)."""

    seed: int
    blocks: int

    @property
    def name(self) -> str:
        """The policy in the words of a recipe."""
        return f"uniform:seed={self.seed}"

    def plan(self, source: EncodedSource, *, limit: int) -> Int[Tensor, "sentence limit"]:
        """A row of draws for every sentence."""
        sentences = zip(source.tokens.tolist(), source.mask.tolist(), strict=True)
        drawn = [
            self._draw([token for token, is_real in zip(*pair, strict=True) if is_real], limit) for pair in sentences
        ]
        return torch.tensor(drawn, dtype=torch.long, device=source.tokens.device).view(len(source), limit)

    def _draw(self, tokens: list[int], limit: int) -> list[int]:
        # Of all generators at hand only Python's promises the same numbers in every version, and a
        # prefix that no length changes.
        digest = hashlib.sha256(repr((self.seed, tokens)).encode()).digest()
        randomness = random.Random(int.from_bytes(digest, "big"))
        return [1 + int(self.blocks * randomness.random()) for _ in range(limit)]


@dataclass(frozen=True, eq=False)
class ForcedExits:
    """Given exits, one row for each sentence of the batch (analysis only); the last column is
    repeated for later tokens.

    With `halting` the module is evaluated wherever it would decide, after each block below the last
    of `model_blocks`, and its output is ignored: for timing models whose module is untrained.
    """

    table: Int[Tensor, "sentence time"]
    halting: GeometricHalting | None = None
    model_blocks: int | None = None

    def __post_init__(self) -> None:
        if self.table.numel() == 0 or int(self.table.min()) < 1:
            raise UsageError(
                f"forced exits are numbers from 1 on, at least one per sentence, but the table is {self.table.tolist()}"
            )
        if self.model_blocks is not None and int(self.table.max()) > self.model_blocks:
            raise UsageError(
                f"forced exits go up to {int(self.table.max())}, but the model has {self.model_blocks} blocks; lower "
                "them"
            )

    @property
    def blocks(self) -> int:
        """The number of the model's blocks where it was given, else the highest exit in the
        table."""
        return self.model_blocks or int(self.table.max())

    @property
    def cost(self) -> DecisionCost:
        """The output projection, and the decisions that are computed and ignored."""
        if self.halting is None:
            return no_decision
        return units_decision(self.halting.units) if self.halting.units else geometric_decision

    def decisions(self, words: CandidateWords) -> Decisions:
        """Nothing to decide, or a module that is evaluated and ignored."""
        return PlannedDecisions(words) if self.halting is None else IgnoredDecisions(words, self.halting, self.blocks)

    @property
    def name(self) -> str:
        """The policy in the words of a recipe."""
        return "forced"

    def of_sentences(self, numbers: Sequence[int], count: int) -> "ForcedExits":
        """The policy of some of `count` sentences, in this order."""
        self._check_rows(count)
        return replace(self, table=self.table[torch.tensor(numbers)], model_blocks=self.blocks)

    def plan(self, source: EncodedSource, *, limit: int) -> Int[Tensor, "sentence limit"]:
        """The table, cut or drawn out to `limit`."""
        self._check_rows(len(source))
        times = torch.arange(limit).clamp(max=self.table.shape[1] - 1)
        return self.table[:, times.to(self.table.device)].to(source.tokens.device)

    def _check_rows(self, count: int) -> None:
        if len(self.table) != count:
            raise UsageError(
                f"forced exits for {len(self.table)} sentences met a batch of {count}; give one row for each sentence"
            )


@dataclass
class IgnoredDecisions(PlannedDecisions):
    """The geometric-like decisions of one time step, computed and ignored."""

    halting: GeometricHalting
    blocks: int

    def revise(self, n: int, hidden: Float[Tensor, "row dim"], planned: Int[Tensor, " row"]) -> Int[Tensor, " row"]:
        """`planned` as it was, after the module has seen the rows that still run."""
        if 0 < n < self.blocks:
            self.halting.halt_logits(hidden)
        return planned


@dataclass(frozen=True, eq=False)
class SequenceExit(PlanKeepingPolicy):
    """All tokens of a sentence leave at the argmax of q(n | x) (section 3.1)."""

    halting: SequenceHalting
    blocks: int
    name: str = field(default="sequence", init=False)

    @property
    def cost(self) -> DecisionCost:
        """One decision per sentence."""
        return sequence_decision

    def plan(self, source: EncodedSource, *, limit: int) -> Int[Tensor, "sentence limit"]:
        """The most probable exit of each sentence, at every position (Eq. 8)."""
        exits = most_probable_exits(self.halting.sentence_logits(source.memory, source.mask).t())
        return exits.unsqueeze(-1).expand(len(source), limit)


@dataclass(frozen=True, eq=False)
class MultinomialExit(BlockwisePolicy):
    """Each token leaves at the argmax of q_t, which is decided after block 1 (section 3.2)."""

    halting: MultinomialHalting
    blocks: int
    name: str = field(default="multinomial", init=False)

    @property
    def cost(self) -> DecisionCost:
        """One decision per token."""
        return multinomial_decision

    def decisions(self, words: CandidateWords) -> Decisions:
        """The choice after block 1."""
        return MultinomialDecisions(words, self.halting)


@dataclass
class MultinomialDecisions(PlannedDecisions):
    """The argmax of q_t after block 1 (Eq. 11)."""

    halting: MultinomialHalting

    def revise(self, n: int, hidden: Float[Tensor, "row dim"], planned: Int[Tensor, " row"]) -> Int[Tensor, " row"]:
        """The most probable exits, at block 1; later, the plan."""
        return most_probable_exits(self.halting.token_logits(hidden).t()) if n == 1 else planned
