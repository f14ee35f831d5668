"""The decoding loss at every exit, without ever holding more than one chunk of logits."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, eq=False)
class Teacher:
    """A classifier whose distributions others are drawn to, with what it sees; none of it learns from
    that."""

    scored: Float[Tensor, "row dim"]
    classifier: Float[Tensor, "vocab dim"]
    bias: Float[Tensor, " vocab"] | None
    weight: float

    def distributions(self, rows: slice, dtype: torch.dtype) -> Float[Tensor, "row vocab"]:
        """The probabilities of all words for some of the rows."""
        logits = torch.mm(self.scored[rows].to(dtype), self.classifier.to(dtype).t())
        if self.bias is not None:
            logits += self.bias.to(dtype)
        return torch.softmax(logits, dim=1, out=logits)


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Loss and gradient in one pass over chunks of rows.

    With p = softmax(W h + b) and smoothing e over V words the gradient of a row's loss by its
    logits is p - (1 - e) onehot(y) - e / V. Only p needs the size of the vocabulary: the other two
    terms reach h and W as a row of W, the mean of W and a sum of h, so each chunk costs three
    matrix products, one softmax and nothing else of that size. b, where there is one, may ban
    words, which then have no share of the smoothing either.

    A teacher's distribution r adds w times the cross-entropy of p against r to a row's loss, and w
    (p - r) to that gradient. Rows come in blocks of as many as the teacher has, so that a chunk of
    r serves the rows of all blocks. What needs no gradient has none made.
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
        teacher: Teacher | None,
    ) -> tuple[Tensor | None, ...]:
        gradients = _Gradients(ctx.needs_input_grad, hidden, classifier, bias, smoothing, precision)
        # an oracle chooses by differences that bfloat16 does not have
        scoring = classifier if is_for_oracle else gradients.matrix
        mean_word, mean_bias = gradients.mean_word, gradients.mean_bias
        own_bias = None if bias is None else bias.to(scoring.dtype)
        log_likelihoods, losses = hidden.new_empty(len(hidden)), hidden.new_empty(len(hidden))
        correct = torch.empty_like(targets, dtype=torch.bool) if is_for_oracle else None
        block = len(hidden) if teacher is None else len(teacher.scored)
        rows_per_chunk = max(1, min(block, CHUNK_ELEMENTS // len(classifier)))
        memory = hidden.new_empty(rows_per_chunk, len(classifier), dtype=scoring.dtype)
        for rows, taught in _chunks(len(hidden), block, rows_per_chunk, teacher, scoring.dtype):
            h, y = hidden[rows], targets[rows]
            logits = torch.mm(h.to(scoring.dtype), scoring.t(), out=memory[: len(h)])  # (row, word)
            if taught is not None:
                expected = _expected_scores(taught, logits, bias).to(hidden.dtype)
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
            if teacher is not None and taught is not None:
                losses[rows] += teacher.weight * (log_normaliser - expected)
                p.mul_(1 + teacher.weight).sub_(taught, alpha=teacher.weight)
            gradients.add(rows, p, y, gradient_weights[rows, None])
        gradients.subtract_targets(targets, gradient_weights)
        ctx.save_for_backward(gradients.by_hidden, gradients.by_classifier, gradients.by_bias)
        ctx.mark_non_differentiable(losses, log_likelihoods, *([] if correct is None else [correct]))
        return (weights * losses).sum(), losses, log_likelihoods, correct

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *others: Tensor | None) -> tuple[Tensor | None, ...]:
        by_hidden, by_classifier, by_bias = (None if each is None else each * gradient for each in ctx.saved_tensors)
        return by_hidden, by_classifier, by_bias, None, None, None, None, None, None, None


class _Gradients:
    """The gradients by hidden states, classifier and bias, those that are `needed`, from the gradient
    by logits of one chunk after the other."""

    def __init__(
        self,
        needed: Sequence[bool],
        hidden: Tensor,
        classifier: Tensor,
        bias: Tensor | None,
        smoothing: float,
        precision: torch.dtype,
    ) -> None:
        self.hidden, self.classifier, self.smoothing = hidden, classifier, smoothing
        self.matrix = classifier.to(precision)
        self.mean_word, self.mean_bias, self.shares = _smoothed_words(classifier, bias)
        self.by_hidden = torch.empty_like(hidden) if needed[0] else None
        self.by_classifier = torch.zeros_like(classifier) if needed[1] else None
        self.by_bias = torch.zeros_like(bias) if bias is not None and needed[2] else None

    def add(self, rows: slice, p: Tensor, targets: Tensor, weights: Tensor) -> None:
        """Adds what `p`, the part of the gradient that has the size of the vocabulary, gives."""
        p, precision = p.to(self.matrix.dtype), self.matrix.dtype
        if self.by_hidden is not None:
            own = self.by_hidden[rows]
            own.copy_(torch.mm(p, self.matrix))
            own.sub_(self.classifier[targets], alpha=1 - self.smoothing).sub_(self.mean_word, alpha=self.smoothing)
            own.mul_(weights)
        if self.by_classifier is not None:
            _add_product(self.by_classifier, p.t(), (self.hidden[rows] * weights).to(precision))
        if self.by_bias is not None:
            _add_product(self.by_bias[:, None], p.t(), weights.to(precision))

    def subtract_targets(self, targets: Tensor, weights: Tensor) -> None:
        """Takes the smoothed targets of all rows off the gradients by words."""
        if self.by_classifier is not None:
            parts = self.hidden * weights[:, None]
            _subtract_targets(self.by_classifier, parts, targets, self.shares, self.smoothing)
        if self.by_bias is not None:
            _subtract_targets(self.by_bias, weights, targets, self.shares, self.smoothing)


def _chunks(
    count: int, block: int, rows_per_chunk: int, teacher: Teacher | None, dtype: torch.dtype
) -> Iterator[tuple[slice, Tensor | None]]:
    """The rows of each chunk, and the teacher's distributions for them, made once for the chunks at
    the same place of all blocks."""
    for start in range(0, block, rows_per_chunk):
        stop = min(start + rows_per_chunk, block)
        taught = None if teacher is None else teacher.distributions(slice(start, stop), dtype)
        for first in range(0, count, block):
            yield slice(first + start, first + stop), taught


def _expected_scores(taught: Tensor, products: Tensor, bias: Tensor | None) -> Tensor:
    """The mean score of the words under the teacher's distributions; banned words, which have no
    share there, do not count."""
    expected = torch.bmm(taught[:, None], products[:, :, None])[:, 0, 0]
    if bias is None:
        return expected
    return expected + taught @ bias.masked_fill(bias <= BANNING_BIAS, 0).to(taught.dtype)


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
    teacher: Teacher | None = None,
) -> RowLosses:
    """The weighted sum of the rows' label-smoothed losses, and without gradient each row's loss and
    log-likelihood.

    The terms of Eq. 4 for all rows that share a classifier; `bias` is added to its scores, and a
    word that it bans has no share of the smoothing. `gradient_weights`, where given, replace
    `weights` in the gradient alone: the scaling of appendix A. `precision` is that of the
    matrix products, the logits and their softmax (bfloat16 leaves a loss about three digits); sums
    stay in the precision of `hidden`. `is_for_oracle` makes the logits in the precision of
    `hidden`, too, whatever that of the gradient's products, and returns in which rows the target is
    the argmax, of equal words the first. Row i of a `teacher` of T rows teaches rows i, T + i,
    2 T + i, ...
    """
    gradient_weights = weights if gradient_weights is None else gradient_weights
    tensors = (hidden, classifier, bias, targets, weights, gradient_weights)
    settings = (label_smoothing, precision, is_for_oracle, teacher)
    assert teacher is None or len(hidden) % max(len(teacher.scored), 1) == 0, "rows come in whole blocks"
    return RowLosses(*_ChunkedCrossEntropy.apply(*tensors, *settings))  # type: ignore[no-untyped-call]
