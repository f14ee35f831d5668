"""The decoding loss at every exit, without ever holding more than one chunk of logits."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from anydepth.model.transformer import BANNING_BIAS

CHUNK_ELEMENTS = 8_000_000


class RowLosses(NamedTuple):
    """What a classifier says of each row; only `total` carries a gradient."""

    total: Float[Tensor, ""]
    losses: Float[Tensor, " row"]
    log_likelihoods: Float[Tensor, " row"]
    correct: Bool[Tensor, " row"] | None  # None where no oracle looks at it


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Loss and gradient in one pass over chunks of rows.

    With p = softmax(W h + b) and smoothing e over V words the gradient of a row's loss by its
    logits is p - (1 - e) onehot(y) - e / V. Only p needs the size of the vocabulary: the other two
    terms reach h and W as a row of W, the mean of W and a sum of h, so each chunk costs three
    matrix products, one softmax and nothing else of that size. b, where there is one, may ban
    words, which then have no share of the smoothing either.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        classifier: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        weights: Tensor,
        gradient_weights: Tensor,
        smoothing: float,
        precision: torch.dtype,
        is_for_oracle: bool,
    ) -> tuple[Tensor | None, ...]:
        words, matrix = len(classifier), classifier.to(precision)
        # an oracle chooses by differences that bfloat16 does not have
        scoring = classifier if is_for_oracle else matrix
        mean_word, mean_bias, shares = _smoothed_words(classifier, bias)
        own_bias = None if bias is None else bias.to(scoring.dtype)
        bias_gradient = None if bias is None else torch.zeros_like(bias)
        log_likelihoods, losses = hidden.new_empty(len(hidden)), hidden.new_empty(len(hidden))
        correct = torch.empty_like(targets, dtype=torch.bool) if is_for_oracle else None
        hidden_gradient, classifier_gradient = torch.empty_like(hidden), torch.zeros_like(classifier)
        rows_per_chunk = max(1, min(len(hidden), CHUNK_ELEMENTS // words))
        memory = hidden.new_empty(rows_per_chunk, words, dtype=scoring.dtype)
        for start in range(0, len(hidden), rows_per_chunk):
            rows = slice(start, min(start + rows_per_chunk, len(hidden)))
            h, y, weight = hidden[rows], targets[rows], gradient_weights[rows, None]
            logits = torch.mm(h.to(scoring.dtype), scoring.t(), out=memory[: len(h)])  # (row, word)
            if own_bias is not None:
                logits += own_bias
            if correct is not None:
                correct[rows] = logits.argmax(dim=1) == y
            target_logits = logits.gather(1, y[:, None])[:, 0].to(hidden.dtype)
            top = logits.amax(dim=1).to(hidden.dtype)
            p = torch.softmax(logits, dim=1, out=logits)
            log_normaliser = top - p.amax(dim=1).to(hidden.dtype).log()
            log_likelihoods[rows] = target_logits - log_normaliser
            mean_logits = h @ mean_word if mean_bias is None else h @ mean_word + mean_bias
            losses[rows] = -(1 - smoothing) * log_likelihoods[rows] + smoothing * (log_normaliser - mean_logits)
            p = p.to(precision)
            hidden_gradient[rows] = torch.mm(p, matrix)
            hidden_gradient[rows].sub_(classifier[y], alpha=1 - smoothing).sub_(mean_word, alpha=smoothing).mul_(weight)
            _add_product(classifier_gradient, p.t(), (h * weight).to(precision))
            if bias_gradient is not None:
                _add_product(bias_gradient[:, None], p.t(), weight.to(precision))
        weighted = hidden * gradient_weights[:, None]
        for gradient, parts in ((classifier_gradient, weighted), (bias_gradient, gradient_weights)):
            if gradient is not None:
                _subtract_targets(gradient, parts, targets, shares, smoothing)
        ctx.save_for_backward(hidden_gradient, classifier_gradient, bias_gradient)
        ctx.mark_non_differentiable(losses, log_likelihoods, *([] if correct is None else [correct]))
        return (weights * losses).sum(), losses, log_likelihoods, correct

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *others: Tensor | None) -> tuple[Tensor | None, ...]:
        by_hidden, by_classifier, by_bias = (None if each is None else each * gradient for each in ctx.saved_tensors)
        return by_hidden, by_classifier, by_bias, None, None, None, None, None, None


def _smoothed_words(classifier: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The mean of the classifier's rows and of the bias over the words that the smoothing is spread
    over, and the share of each word; no shares where all have the same."""
    is_banned = None if bias is None else bias <= BANNING_BIAS
    if bias is None or is_banned is None or not bool(is_banned.any()):
        return classifier.mean(dim=0), None if bias is None else bias.mean(), None
    shares = (~is_banned).to(classifier.dtype) / (~is_banned).sum()
    return shares @ classifier, bias.masked_fill(is_banned, 0) @ shares, shares


def _subtract_targets(
    gradient: Tensor, parts: Tensor, targets: Tensor, shares: Tensor | None, smoothing: float
) -> None:
    """Takes the smoothed targets off a gradient by words, to which each row contributes `parts`."""
    gradient.index_add_(0, targets, parts, alpha=-(1 - smoothing))
    total = parts.sum(dim=0)
    if shares is None:
        gradient.sub_(total, alpha=smoothing / len(gradient))
    else:
        gradient.sub_(shares.view(-1, *[1] * total.ndim) * total, alpha=smoothing)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Adds left @ right to `total`, which may be of a higher precision."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total.add_(torch.mm(left, right))


def chunked_cross_entropy(
    hidden: Float[Tensor, "row dim"],
    classifier: Float[Tensor, "vocab dim"],
    targets: Int[Tensor, " row"],
    weights: Float[Tensor, " row"],
    *,
    label_smoothing: float,
    bias: Float[Tensor, " vocab"] | None = None,
    gradient_weights: Float[Tensor, " row"] | None = None,
    precision: torch.dtype = torch.float32,
    is_for_oracle: bool = False,
) -> RowLosses:
    """The weighted sum of the rows' label-smoothed losses, and without gradient each row's loss and
    log-likelihood.

    The terms of Eq. 4 for all rows that share a classifier; `bias` is added to its scores, and a
    word that it bans has no share of the smoothing. `gradient_weights`,
    where given,
    replace `weights` in the gradient alone: the scaling of appendix A. `precision` is that of the
    matrix products, the logits and their softmax (bfloat16 leaves a loss about three digits); sums
    stay in the precision of `hidden`. `is_for_oracle` makes the logits in the precision of
    `hidden`, too, whatever that of the gradient's products, and returns in which rows the target is
    the argmax, of equal words the first.
    """
    gradient_weights = weights if gradient_weights is None else gradient_weights
    tensors = (hidden, classifier, bias, targets, weights, gradient_weights)
    settings = (label_smoothing, precision, is_for_oracle)
    return RowLosses(*_ChunkedCrossEntropy.apply(*tensors, *settings))  # type: ignore[no-untyped-call]
