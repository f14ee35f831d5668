"""Halting modules: the distribution q over the exits of a sentence or a token (section 3 of the
paper)."""

from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from anydepth.config.schema import Config

States: TypeAlias = Float[Tensor, "block batch time dim"]
Memory: TypeAlias = Float[Tensor, "batch source encoder_dim"]
SourceMask: TypeAlias = Bool[Tensor, "batch source"]
ExitLogProbs: TypeAlias = Float[Tensor, "block batch time"]


class SequenceHalting(nn.Module):
    """One exit for all tokens of a sentence: q(n | x) = softmax(W_h s + b_h), s the mean of the
    encoder's output (Eq. 8)."""

    def __init__(self, encoder_dim: int, blocks: int) -> None:
        super().__init__()
        self.sentence_scores = _linear(encoder_dim, blocks)

    def sentence_logits(self, memory: Memory, source_mask: SourceMask) -> Float[Tensor, "batch block"]:
        """W_h s + b_h (Eq. 8). Departure: s is the mean over real tokens (the paper has no
        padding)."""
        real = source_mask.unsqueeze(-1).to(memory.dtype)
        mean = (memory * real).sum(dim=1) / real.sum(dim=1)  # (batch, encoder_dim)
        logits: Tensor = self.sentence_scores(mean)
        return logits

    def exit_log_probs(self, states: States, memory: Memory, source_mask: SourceMask) -> ExitLogProbs:
        """log q(n | x), the same at every position (Eq. 8)."""
        log_probs = self.sentence_logits(memory, source_mask).log_softmax(dim=-1)  # (batch, block)
        return log_probs.t().unsqueeze(-1).expand(states.shape[:3])

    def default_exits(self, exit_log_probs: Float[Tensor, "block *place"]) -> Int[Tensor, "*place"]:
        """The most probable exit, which inference takes (section 3.1)."""
        return most_probable_exits(exit_log_probs)


class MultinomialHalting(nn.Module):
    """The exit of a token, chosen after block 1: q_t(n) = softmax(W_h h_t^1 + b_h) (Eq. 11)."""

    def __init__(self, dim: int, blocks: int) -> None:
        super().__init__()
        self.token_scores = _linear(dim, blocks)

    def token_logits(self, hidden: Float[Tensor, "*place dim"]) -> Float[Tensor, "*place block"]:
        """W_h h_t^1 + b_h (Eq. 11) for the states of block 1."""
        logits: Tensor = self.token_scores(hidden)
        return logits

    def exit_log_probs(self, states: States, memory: Memory, source_mask: SourceMask) -> ExitLogProbs:
        """log q_t(n) at every position (Eq. 11)."""
        return self.token_logits(states[0]).log_softmax(dim=-1).movedim(-1, 0)

    def default_exits(self, exit_log_probs: Float[Tensor, "block *place"]) -> Int[Tensor, "*place"]:
        """The most probable exit, which inference takes (section 3.2)."""
        return most_probable_exits(exit_log_probs)


class GeometricHalting(nn.Module):
    """A decision to stop after each block, with one vector w_h and one bias for all blocks (Eqs.
    12-13).

    Beyond the paper, `units` rectified units between the state and w_h, the same for all blocks
    too: what separates a sure word from a guess is not linear in the state.
    """

    def __init__(self, dim: int, units: int = 0) -> None:
        super().__init__()
        self.units = units
        self.features = nn.Linear(dim, units) if units else None
        self.stop_score = _linear(units or dim, 1)

    def halt_logits(self, hidden: Float[Tensor, "*place dim"]) -> Float[Tensor, "*place"]:
        """w_h h_t^n + b_h, whose sigmoid is the probability chi_t^n of stopping here (Eq. 12); w_h
        relu(W h_t^n + b) + b_h with units."""
        seen = hidden if self.features is None else F.relu(self.features(hidden))
        return F.linear(seen, self.stop_score.weight, self.stop_score.bias).squeeze(-1)

    def exit_log_probs(self, states: States, memory: Memory, source_mask: SourceMask) -> ExitLogProbs:
        """log q_t(n) at every position (Eq. 13)."""
        return geometric_log_probs(self.halt_logits(states[:-1]))

    def default_exits(self, exit_log_probs: Float[Tensor, "block *place"]) -> Int[Tensor, "*place"]:
        """The first exit n < N with chi^n > 0.5, else N (section 3.2).

        chi^n > 0.5 says that stopping at n is more probable than all later exits together: q needs
        no second look at the states.
        """
        later = exit_log_probs.flip(0).logcumsumexp(dim=0).flip(0)[1:]  # (block - 1, ...)
        would_stop = exit_log_probs[:-1] > later
        return first_exits(would_stop)


Halting = SequenceHalting | MultinomialHalting | GeometricHalting


def make_halting(config: Config) -> Halting | None:
    """The untrained halting module that `config` names, if any."""
    dim, blocks = config.model.decoder.dim, config.model.blocks
    match config.exits.halting:
        case "sequence":
            return SequenceHalting(config.model.encoder.dim, blocks)
        case "multinomial":
            return MultinomialHalting(dim, blocks)
        case "geometric":
            return GeometricHalting(dim, config.exits.halting_units)
        case "none":
            return None


def geometric_log_probs(halt_logits: Float[Tensor, "decision *place"]) -> Float[Tensor, "block *place"]:
    """log q(n) of the geometric-like distribution over N exits from its N - 1 halting logits (Eq.
    13), finite for any finite logits.

    log q(n) = log chi^n + sum_{n' < n} log(1 - chi^n'), by log-sigmoids alone; the last exit has no
    decision of its own.
    """
    last = halt_logits.new_zeros(1, *halt_logits.shape[1:])
    stop = torch.cat([F.logsigmoid(halt_logits), last])
    survived = torch.cat([last, F.logsigmoid(-halt_logits).cumsum(dim=0)])
    return stop + survived


def exit_loss(
    exit_log_probs: ExitLogProbs,
    oracle_exits: Int[Tensor, "batch time"],
    mask: Bool[Tensor, "batch time"],
) -> Float[Tensor, ""]:
    """L_exit, the cross-entropy of q against the oracle's Dirac, summed over real positions (Eq.
    6)."""
    chosen = exit_log_probs.gather(0, (oracle_exits - 1).unsqueeze(0))[0]  # (batch, time)
    return -chosen[mask].sum()


def most_probable_exits(exit_log_probs: Float[Tensor, "block *place"]) -> Int[Tensor, "*place"]:
    """The most probable exit, 1..N."""
    return exit_log_probs.argmax(dim=0) + 1


def first_exits(would_stop: Bool[Tensor, "decision *place"]) -> Int[Tensor, "*place"]:
    """The first exit whose decision is to stop, 1..N; N, one more than there are decisions, if none
    is."""
    always = would_stop.new_ones(1, *would_stop.shape[1:])
    return torch.cat([would_stop, always]).byte().argmax(dim=0) + 1


def _linear(dim: int, outputs: int) -> nn.Linear:
    linear = nn.Linear(dim, outputs)
    nn.init.normal_(linear.weight, std=0.02)
    nn.init.zeros_(linear.bias)
    return linear
