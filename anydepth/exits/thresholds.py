"""Policies that stop at the first block whose signal exceeds its threshold (section 3.2, and three
signals beyond the paper)."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor
from torch.nn import functional as F

from anydepth.errors import UsageError
from anydepth.exits.flops import DecisionCost, ThresholdCost
from anydepth.exits.halting import GeometricHalting
from anydepth.exits.policies import BlockwisePolicy, Decisions
from anydepth.vocabulary.selection import CandidateWords


@runtime_checkable
class Signal(Protocol):
    """What is compared with the thresholds in one time step: a number from 0 to 1 for each running
    row after each block that decides."""

    depends_on_first: bool  # whether it is another one if another exit is the first that decides

    def start(self, inputs: Float[Tensor, "row dim"]) -> None:
        """Looks at the embedded inputs of all rows, before the first block."""

    def after(self, n: int, hidden: Float[Tensor, "row dim"]) -> Float[Tensor, " row"]:
        """The signal of the running rows, whose states after block n are `hidden`."""

    def pass_by(self, hidden: Float[Tensor, "row dim"]) -> None:
        """Looks at the states of the running rows after a block that decides nothing; all of them
        go on."""

    def leave(self, is_leaving: Bool[Tensor, " row"]) -> None:
        """Notes which of the running rows leave now; the others go on to the next block."""

    def word_logits(
        self, words: CandidateWords, hidden: Float[Tensor, "row dim"], exits: Int[Tensor, " row"]
    ) -> Float[Tensor, "row word"]:
        """The scores of the words of all rows, without computing again what the signal was computed
        from."""


@dataclass(frozen=True, eq=False)
class ThresholdExit(BlockwisePolicy):
    """Each token leaves at the first n < N whose signal exceeds tau_n, else at N (section 3.2).

    `family` is the policy without its thresholds, such as "confidence". Every signal is above 0, if
    not in floating point, so a threshold of 0 always stops; none is above 1, so a threshold of 1
    never does. Neither asks for a signal, and none is computed.
    """

    family: str
    thresholds: tuple[float, ...]
    new_signal: Callable[[CandidateWords], Signal]
    decision_cost: ThresholdCost
    halting: GeometricHalting | None = None  # the module that the signal comes from, if it comes from one
    blocks: int = field(init=False)

    def __post_init__(self) -> None:
        for threshold in self.thresholds:
            if not 0 <= threshold <= 1:
                raise UsageError(
                    f"{self.family}: the threshold {threshold} is not between 0 (always stop) and 1 (never stop)"
                )
        object.__setattr__(self, "blocks", len(self.thresholds) + 1)

    @property
    def name(self) -> str:
        """The policy in the words of a recipe; one number where all thresholds are the same."""
        return f"{self.family}:{describe_thresholds(self.thresholds)}"

    @property
    def cost(self) -> DecisionCost:
        """What its decisions cost."""
        return self.cost_with(self.thresholds)

    def cost_with(self, thresholds: Sequence[float]) -> DecisionCost:
        """What decisions of this family cost with other thresholds: the formula as printed where
        all of them decide, else that of those."""
        deciding = deciding_exits(thresholds)
        return (
            self.decision_cost if len(deciding) == len(thresholds) else partial(self.decision_cost, deciding=deciding)
        )

    def decisions(self, words: CandidateWords) -> Decisions:
        """The comparisons of one time step."""
        return ThresholdDecisions(words, self.thresholds, self.new_signal(words))


def deciding_exits(thresholds: Sequence[float]) -> tuple[int, ...]:
    """The exits at which a signal decides where each token leaves, 1..N - 1."""
    return tuple(n for n, decides in enumerate(is_deciding(np.asarray(thresholds)).tolist(), 1) if decides)


def is_deciding(thresholds: Num[np.ndarray, "*candidate decision"]) -> Bool[np.ndarray, "*candidate decision"]:
    """Which thresholds decide: those with 0 < tau < 1 before the first tau = 0, where every token
    that is left leaves.

    They are looked at in float32, as all engines compare them.
    """
    compared = thresholds.astype(np.float32)
    is_reached: Bool[np.ndarray, "*candidate decision"] = np.logical_and.accumulate(compared > 0, axis=-1)
    return is_reached & (compared < 1)


def describe_thresholds(thresholds: Sequence[float]) -> str:
    """The thresholds with commas between, or the one number that they all are; every digit that it
    takes to read them back."""
    distinct = [repr(float(threshold)).removesuffix(".0") for threshold in thresholds]
    return ",".join(distinct if len(set(distinct)) > 1 else distinct[:1] or ["1"])


@dataclass
class ThresholdDecisions:
    """The comparisons of one time step: stop after block n if signal > tau_n (section 3.2)."""

    words: CandidateWords
    thresholds: tuple[float, ...]
    signal: Signal

    def revise(self, n: int, hidden: Float[Tensor, "row dim"], planned: Int[Tensor, " row"]) -> Int[Tensor, " row"]:
        """n for the rows that stop now, for the others their plan."""
        if n == 0:
            self.signal.start(hidden)
            return planned
        if n > len(self.thresholds):
            return planned
        threshold = np.float32(self.thresholds[n - 1]).item()
        if threshold <= 0:
            return torch.full_like(planned, n)
        if threshold >= 1:
            self.signal.pass_by(hidden)
            return planned
        is_leaving = self.signal.after(n, hidden) > threshold
        self.signal.leave(is_leaving)
        return torch.where(is_leaving, n, planned)

    def word_logits(self, hidden: Float[Tensor, "row dim"], exits: Int[Tensor, " row"]) -> Float[Tensor, "row word"]:
        """The words' scores, from the signal where it has them."""
        return self.signal.word_logits(self.words, hidden, exits)


class StateSignal:
    """The part of a signal that is computed from states alone, so that the words' scores are
    computed for themselves."""

    depends_on_first = False

    def start(self, inputs: Float[Tensor, "row dim"]) -> None:
        """Nothing to keep."""

    def pass_by(self, hidden: Float[Tensor, "row dim"]) -> None:
        """Nothing to keep."""

    def leave(self, is_leaving: Bool[Tensor, " row"]) -> None:
        """Nothing to keep."""

    def word_logits(
        self, words: CandidateWords, hidden: Float[Tensor, "row dim"], exits: Int[Tensor, " row"]
    ) -> Float[Tensor, "row word"]:
        """The classifiers' scores."""
        return words.exit_logits(hidden, exits)


@dataclass
class HaltProbability(StateSignal):
    """chi_t^n, the halting module's probability of stopping (Eq. 12)."""

    halting: GeometricHalting

    def after(self, n: int, hidden: Float[Tensor, "row dim"]) -> Float[Tensor, " row"]:
        """sigmoid(w_h h_t^n + b_h)."""
        return self.halting.halt_logits(hidden).sigmoid()


@dataclass
class Similarity(StateSignal):
    """How little block n changed the state: (1 + cos(h_t^n, h_t^{n-1})) / 2. Beyond the paper."""

    below: Tensor = field(init=False)
    new: Tensor = field(init=False)

    def start(self, inputs: Float[Tensor, "row dim"]) -> None:
        """h_t^0, the embedded inputs."""
        self.below = inputs

    def pass_by(self, hidden: Float[Tensor, "row dim"]) -> None:
        """The states below the next block."""
        self.below = hidden

    def after(self, n: int, hidden: Float[Tensor, "row dim"]) -> Float[Tensor, " row"]:
        """The cosine with the state below, on a scale from 0 to 1."""
        self.new = hidden
        return ((1 + F.cosine_similarity(hidden, self.below, dim=-1)) / 2).clamp(0, 1)

    def leave(self, is_leaving: Bool[Tensor, " row"]) -> None:
        """Keeps the states of those that go on."""
        self.below = self.new[~is_leaving]


class WordSignal:
    """The part of a signal that is computed from the scores of the rows' words: those of rows that
    leave are kept, not computed twice."""

    depends_on_first = False
    logits: Tensor  # of the running rows, by the last `after`

    def __init__(self, words: CandidateWords) -> None:
        self.words = words

    def start(self, inputs: Float[Tensor, "row dim"]) -> None:
        """All rows run."""
        self.count = len(inputs)
        self.running = torch.arange(self.count, device=inputs.device)
        self.parts: list[tuple[Tensor, Tensor]] = []  # rows that left, and their logits

    def pass_by(self, hidden: Float[Tensor, "row dim"]) -> None:
        """Nothing to keep."""

    def leave(self, is_leaving: Bool[Tensor, " row"]) -> None:
        """Keeps the scores of the rows that leave."""
        if bool(is_leaving.any()):
            self.parts.append((self.running[is_leaving], self.logits[is_leaving]))
            self.running = self.running[~is_leaving]

    def running_logits(self, n: int, hidden: Float[Tensor, "row dim"]) -> Float[Tensor, "row word"]:
        """The words' scores of the running rows by the classifier of exit n."""
        return self.words.of_rows(self.running).logits_at(n, hidden)

    def word_logits(
        self, words: CandidateWords, hidden: Float[Tensor, "row dim"], exits: Int[Tensor, " row"]
    ) -> Float[Tensor, "row word"]:
        """The kept scores; those of rows that no signal stopped are computed now."""
        if len(self.running):
            left = words.of_rows(self.running).exit_logits(hidden[self.running], exits[self.running])
            self.parts.append((self.running, left))
        rows, logits = (torch.cat(parts) for parts in zip(*self.parts, strict=True))
        return logits.index_select(0, rows.argsort())


class Confidence(WordSignal):
    """max_y p(y | h_t^n), the probability of the best word (section 3.2, confidence
    thresholding)."""

    def after(self, n: int, hidden: Float[Tensor, "row dim"]) -> Float[Tensor, " row"]:
        """The probability of the best word."""
        self.logits = self.running_logits(n, hidden)
        return best_probability(self.logits)


class Margin(WordSignal):
    """The difference between the probabilities of the two best words. Beyond the paper."""

    def after(self, n: int, hidden: Float[Tensor, "row dim"]) -> Float[Tensor, " row"]:
        """p(best) - p(second best)."""
        self.logits = self.running_logits(n, hidden)
        two = (self.logits.topk(2, dim=-1).values - self.logits.logsumexp(dim=-1, keepdim=True)).exp()
        return (two[:, 0] - two[:, 1]).clamp(0, 1)


class ShortlistConfidence(WordSignal):
    """Confidence among the K words that the first exit likes best, so that a later decision costs K
    d instead of V d. Beyond the paper.

    The first exit is exit 1 or, where that decides nothing, the first one that does. It sees the
    words that the sentence may use, as does the final choice of a word.
    """

    depends_on_first = True
    shortlists: Tensor | None  # (row, K): places of the words of each row that has not left, once there are any
    undecided: Tensor  # the rows that have not left after the first exit; `running` keeps those without full scores

    def __init__(self, words: CandidateWords, size: int) -> None:
        super().__init__(words)
        self.size = size

    def start(self, inputs: Float[Tensor, "row dim"]) -> None:
        """All rows run, without shortlists."""
        super().start(inputs)
        self.shortlists = None

    def after(self, n: int, hidden: Float[Tensor, "row dim"]) -> Float[Tensor, " row"]:
        """The probability of the best word of the row's shortlist, among those of the shortlist."""
        self.is_first = self.shortlists is None
        if self.shortlists is None:
            self.logits = self.running_logits(n, hidden)
            self.shortlists = self.logits.topk(min(self.size, self.logits.shape[1]), dim=-1).indices
            return best_probability(self.logits)
        return best_probability(self.words.of_rows(self.undecided).chosen_logits(n, hidden, self.shortlists))

    def leave(self, is_leaving: Bool[Tensor, " row"]) -> None:
        """Keeps the full scores of rows that leave at the first exit; of the others the
        shortlists."""
        assert self.shortlists is not None, "rows leave by a signal"
        if self.is_first:
            super().leave(is_leaving)
            self.undecided = self.running
        else:
            self.undecided = self.undecided[~is_leaving]
        self.shortlists = self.shortlists[~is_leaving]


def best_probability(logits: Float[Tensor, "row word"]) -> Float[Tensor, " row"]:
    """max softmax(logits), not above 1 even by rounding."""
    return (logits.amax(dim=-1) - logits.logsumexp(dim=-1)).exp().clamp(max=1.0)


def check_thresholds(text: str, values: Sequence[float], blocks: int) -> tuple[float, ...]:
    """One threshold for each block but the last; a single value stands for all of them."""
    for value in values:
        if not (math.isfinite(value) and 0 <= value <= 1):
            raise UsageError(f"{text}: the threshold {value} is not between 0 (always stop) and 1 (never stop)")
    if len(values) not in (1, blocks - 1):
        raise UsageError(
            f"{text}: {len(values)} thresholds for a model of {blocks} blocks; "
            f"give 1 for all blocks, or {blocks - 1}, one for each but the last"
        )
    return tuple(values) * (blocks - 1) if len(values) == 1 else tuple(values)
