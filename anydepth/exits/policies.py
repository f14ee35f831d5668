"""Policies: where each token leaves the decoder while translating (section 3 of the paper)."""

import difflib
import hashlib
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from anydepth.errors import UsageError

POLICY_FORMS = {"fixed": "fixed:N", "uniform": "uniform[:SEED]"}
DEFAULT_SEED = 1


@runtime_checkable
class Policy(Protocol):
    """Decides exits: `plan` before the first token of a batch of sentences, `revise` after each block of each token.

    A sentence's exits must not depend on its neighbours, on padding, or on `limit`: a longer plan begins like a shorter one.
    """

    @property
    def blocks(self) -> int:
        """The number of decoder blocks, N."""

    @property
    def name(self) -> str:
        """The policy in the words of a recipe, such as "fixed:3"."""

    def plan(
        self,
        source: Int[Tensor, "sentence source"],
        source_mask: Bool[Tensor, "sentence source"],
        memory: Float[Tensor, "sentence source encoder_dim"],
        *,
        limit: int,
    ) -> Int[Tensor, "sentence limit"]:
        """The planned exit of every future token; all hypotheses of a sentence share its plan."""

    def revise(self, n: int, hidden: Float[Tensor, "row dim"], planned: Int[Tensor, " row"]) -> Int[Tensor, " row"]:
        """The plans of the rows still running after block n, whose states are `hidden`; a row planned at n leaves now."""


class Unrevised:
    """The part of a policy that keeps to its plan."""

    def revise(self, n: int, hidden: Float[Tensor, "row dim"], planned: Int[Tensor, " row"]) -> Int[Tensor, " row"]:
        """`planned` as it was."""
        return planned


@dataclass(frozen=True)
class FixedExit(Unrevised):
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

    def plan(
        self,
        source: Int[Tensor, "sentence source"],
        source_mask: Bool[Tensor, "sentence source"],
        memory: Float[Tensor, "sentence source encoder_dim"],
        *,
        limit: int,
    ) -> Int[Tensor, "sentence limit"]:
        """n everywhere."""
        return torch.tensor(self.n, device=source.device).expand(len(source), limit)


@dataclass(frozen=True)
class UniformExit(Unrevised):
    """Every token leaves after a block drawn from U{1..N}; the draw is a function of the seed, the source tokens and t (section 4.2)."""

    seed: int
    blocks: int

    @property
    def name(self) -> str:
        """The policy in the words of a recipe."""
        return f"uniform:seed={self.seed}"

    def plan(
        self,
        source: Int[Tensor, "sentence source"],
        source_mask: Bool[Tensor, "sentence source"],
        memory: Float[Tensor, "sentence source encoder_dim"],
        *,
        limit: int,
    ) -> Int[Tensor, "sentence limit"]:
        """A row of draws for every sentence."""
        sentences = zip(source.tolist(), source_mask.tolist(), strict=True)
        drawn = [self._draw([token for token, is_real in zip(*pair, strict=True) if is_real], limit) for pair in sentences]
        return torch.tensor(drawn, dtype=torch.long, device=source.device).view(len(source), limit)

    def _draw(self, tokens: list[int], limit: int) -> list[int]:
        # Of all generators at hand only Python's promises the same numbers in every version, and a prefix that no length changes.
        digest = hashlib.sha256(repr((self.seed, tokens)).encode()).digest()
        randomness = random.Random(int.from_bytes(digest, "big"))
        return [1 + int(self.blocks * randomness.random()) for _ in range(limit)]


@dataclass(frozen=True, eq=False)
class ForcedExits(Unrevised):
    """Given exits, one row for each sentence of the batch (analysis only); the last column goes on for ever."""

    table: Int[Tensor, "sentence time"]

    def __post_init__(self) -> None:
        if self.table.numel() == 0 or int(self.table.min()) < 1:
            raise UsageError(f"forced exits are numbers from 1 on, at least one a sentence, but the table is {self.table.tolist()}")

    @property
    def blocks(self) -> int:
        """The highest exit in the table."""
        return int(self.table.max())

    @property
    def name(self) -> str:
        """The policy in the words of a recipe."""
        return "forced"

    def plan(
        self,
        source: Int[Tensor, "sentence source"],
        source_mask: Bool[Tensor, "sentence source"],
        memory: Float[Tensor, "sentence source encoder_dim"],
        *,
        limit: int,
    ) -> Int[Tensor, "sentence limit"]:
        """The table, cut or drawn out to `limit`."""
        if len(self.table) != len(source):
            raise UsageError(f"forced exits for {len(self.table)} sentences met a batch of {len(source)}; give one row for each sentence")
        times = torch.arange(limit).clamp(max=self.table.shape[1] - 1)
        return self.table[:, times.to(self.table.device)].to(source.device)


def parse_policy(text: str, *, exits: Sequence[int], blocks: int) -> Policy:
    """The policy that `text` names, as in "fixed:3", "uniform" or "uniform:7", for a model with classifiers at `exits`."""
    name, _, argument = text.strip().partition(":")
    if name == "fixed":
        return _fixed(text, argument, exits, blocks)
    if name == "uniform":
        if len(exits) < blocks:
            raise UsageError(f"{text}: drawing exits needs one after every block, but {_exits_of(exits)}; use fixed:{exits[-1]}")
        return UniformExit(_seed(text, argument), blocks)
    near = difflib.get_close_matches(name, POLICY_FORMS, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UsageError(f"there is no policy {text!r}; {hint}known: {', '.join(POLICY_FORMS.values())}")


def _fixed(text: str, argument: str, exits: Sequence[int], blocks: int) -> FixedExit:
    if not re.fullmatch(r"-?[0-9]+", argument):
        raise UsageError(f"{text}: a fixed exit is a block number, as in fixed:{exits[-1]}")
    if int(argument) not in exits:
        raise UsageError(f"{text}: {_exits_of(exits)}")
    return FixedExit(int(argument), blocks)


def _seed(text: str, argument: str) -> int:
    """The seed in "7" or "seed=7" (the form that recipes print)."""
    digits = argument.removeprefix("seed=")
    if argument and not re.fullmatch(r"[0-9]+", digits):
        raise UsageError(f"{text}: the seed is a whole number from 0 on, as in uniform:{DEFAULT_SEED}")
    return int(digits) if argument else DEFAULT_SEED


def _exits_of(exits: Sequence[int]) -> str:
    if len(exits) == 1:
        return f"this model has exit {exits[0]} only"
    return f"this model has exits {exits[0]} to {exits[-1]}"
