"""Oracles q*: the exit that each sentence or token of the training text should have taken (section
3 of the paper)."""

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor

from anydepth.config.schema import ExitsConfig
from anydepth.errors import UsageError

TARGET_ORACLES = ("likelihood", "correctness")  # those that choose by what the exits say of the targets


class OracleError(UsageError):
    """Scores that no oracle can choose from."""


class UnscoredError(OracleError):
    """Scores that are not numbers."""


def oracle_exits(
    config: ExitsConfig,
    log_likelihoods: Float[Tensor, "block batch time"],
    correct: Bool[Tensor, "block batch time"],
    mask: Bool[Tensor, "batch time"],
) -> Int[Tensor, "batch time"]:
    """The oracle's exit (1..N) at every position by the settings of `config`; padded positions have
    one too, which means nothing.

    The BLEU oracle does not look at what the exits say of the targets: it is in the room
    bleu_oracle.
    """
    scores: Tensor
    match config.oracle:
        case "likelihood":
            scores = log_likelihoods
        case "correctness":
            scores = correct
        case other:
            raise OracleError(
                f"the oracle {other!r} does not choose by what the exits say of the targets; those that do: "
                f"{', '.join(TARGET_ORACLES)}"
            )
    match config.halting:
        case "sequence":
            return sequence_oracle(scores, mask, exit_penalty=config.exit_penalty)
        case "multinomial" | "geometric":
            return token_oracle(scores, mask, exit_penalty=config.exit_penalty, kernel_width=config.kernel_width)
        case kind:
            raise OracleError(
                f"there is no oracle for the halting module {kind!r}; there is one for sequence, multinomial and "
                "geometric"
            )


def sequence_oracle(
    scores: Num[Tensor, "block batch time"] | Bool[Tensor, "block batch time"],
    mask: Bool[Tensor, "batch time"],
    *,
    exit_penalty: float,
) -> Int[Tensor, "batch time"]:
    """The exit with the highest sum of scores over the sentence minus exit_penalty * n, repeated at
    every position.

    Eq. 9 (Seq-LL) for log-likelihoods, Eq. 10 (Seq-C) for correctness; ties go to the lower exit.
    """
    totals = _masked_scores(scores, mask).sum(dim=-1)  # (block, batch)
    return penalised_exits(totals, exit_penalty).unsqueeze(-1).expand(mask.shape)


def token_oracle(
    scores: Num[Tensor, "block batch time"] | Bool[Tensor, "block batch time"],
    mask: Bool[Tensor, "batch time"],
    *,
    exit_penalty: float,
    kernel_width: float,
) -> Int[Tensor, "batch time"]:
    """The exit with the highest smoothed score minus exit_penalty * n at each position; ties go to
    the lower exit.

    Eqs. 14-15 (Tok-LL) for log-likelihoods, Eqs. 16-17 (Tok-C) for correctness. Departure: padded
    positions get kernel weight 0 (the paper has no padding).
    """
    real = _masked_scores(scores, mask)
    smoothed = real if kernel_width == 0 else real @ rbf_kernel(mask.shape[1], kernel_width).to(mask.device)
    return penalised_exits(smoothed, exit_penalty)


def rbf_kernel(length: int, kernel_width: float) -> Float[Tensor, "time time"]:
    """kappa(t, t') = exp(-(t - t')^2 / sigma), not normalised (Eq. 15). sigma = 0, where it would
    be the identity, needs no kernel."""
    if kernel_width <= 0:
        raise UsageError(f"exits.kernel_width = {kernel_width} must not be negative; 0 looks at the token alone")
    times = torch.arange(length, dtype=torch.float64)
    return torch.exp(-((times[:, None] - times[None, :]) ** 2) / kernel_width)


def penalised_exits(scores: Float[Tensor, "block *place"], exit_penalty: float) -> Int[Tensor, "*place"]:
    """argmax over n of scores^n - exit_penalty * n, 1..N; scores that differ by rounding alone
    count as equal, and the lowest wins."""
    if exit_penalty < 0:
        raise UsageError(
            f"exits.exit_penalty = {exit_penalty} must not be negative; 0 asks for the best exit at any cost"
        )
    if bool(scores.isnan().any()):
        block, *place = scores.isnan().nonzero()[0].tolist()
        raise UnscoredError(
            f"the score of exit {block + 1} at {place} is not a number, so no exit can be called the best"
        )
    numbers = torch.arange(1, len(scores) + 1, dtype=scores.dtype, device=scores.device).view(
        -1, *[1] * (scores.dim() - 1)
    )
    penalised = scores - exit_penalty * numbers
    best = penalised.amax(dim=0)
    is_best = penalised >= best - 1e-9 * (1 + best.abs())
    return is_best.byte().argmax(dim=0) + 1


def _masked_scores(scores: Tensor, mask: Tensor) -> Tensor:
    """The scores in double precision, with nothing at padded positions."""
    return torch.where(mask, scores.double(), 0.0)
