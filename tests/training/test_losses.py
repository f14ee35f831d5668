"""The chunked loss, against plain cross-entropy over whole logits."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from variations import BANS

from anydepth.training import losses
from anydepth.training.losses import Teacher, chunked_cross_entropy

ROWS, DIM, VOCAB = 13, 12, 29


def problem(
    *, rows: int = ROWS, dtype: torch.dtype = torch.float64, scale: float = 1.0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(rows, DIM, generator=generator, dtype=dtype).mul_(scale).requires_grad_()
    classifier = torch.randn(VOCAB, DIM, generator=generator, dtype=dtype).requires_grad_()
    targets = torch.randint(VOCAB, (rows,), generator=generator)
    weights = torch.rand(rows, generator=generator, dtype=dtype) + 0.1
    return hidden, classifier, targets, weights


def plain(
    hidden: Tensor,
    classifier: Tensor,
    targets: Tensor,
    weights: Tensor,
    smoothing: float,
    bias: Tensor | float = 0.0,
) -> Tensor:
    return (
        weights * F.cross_entropy(hidden @ classifier.t() + bias, targets, label_smoothing=smoothing, reduction="none")
    ).sum()


def some_bias(dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(VOCAB, generator=torch.Generator().manual_seed(5), dtype=dtype).requires_grad_()


@pytest.mark.parametrize("rows_per_chunk", [1, 4, ROWS - 1, ROWS, ROWS + 1])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_value_and_gradients_equal_plain_cross_entropy_for_any_chunk(
    monkeypatch: pytest.MonkeyPatch, rows_per_chunk: int, smoothing: float
) -> None:
    monkeypatch.setattr(losses, "CHUNK_ELEMENTS", rows_per_chunk * VOCAB)
    hidden, classifier, targets, weights = problem()
    expected = plain(hidden, classifier, targets, weights, smoothing)
    scored = chunked_cross_entropy(
        hidden, classifier, targets, weights, label_smoothing=smoothing, precision=torch.float64
    )
    torch.testing.assert_close(scored.total, expected)
    by_plain = torch.autograd.grad(expected * 1.7, (hidden, classifier))
    torch.testing.assert_close(torch.autograd.grad(scored.total * 1.7, (hidden, classifier)), by_plain)
    each = F.cross_entropy(hidden @ classifier.t(), targets, label_smoothing=smoothing, reduction="none")
    torch.testing.assert_close(scored.losses, each.detach())


@pytest.mark.parametrize("rows_per_chunk", [1, 4, ROWS])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_with_a_bias_value_and_gradients_equal_plain_cross_entropy(
    monkeypatch: pytest.MonkeyPatch, rows_per_chunk: int, smoothing: float
) -> None:
    monkeypatch.setattr(losses, "CHUNK_ELEMENTS", rows_per_chunk * VOCAB)
    hidden, classifier, targets, weights = problem()
    bias, others = some_bias(), weights.flip(0) * 3
    scored = chunked_cross_entropy(
        hidden,
        classifier,
        targets,
        weights,
        label_smoothing=smoothing,
        bias=bias,
        gradient_weights=others,
        precision=torch.float64,
    )
    torch.testing.assert_close(scored.total, plain(hidden, classifier, targets, weights, smoothing, bias))
    by_plain = torch.autograd.grad(
        1.7 * plain(hidden, classifier, targets, others, smoothing, bias), (hidden, classifier, bias)
    )
    torch.testing.assert_close(torch.autograd.grad(scored.total * 1.7, (hidden, classifier, bias)), by_plain)


@pytest.mark.parametrize("low", BANS)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_words_that_a_bias_bans_are_as_if_they_were_not_there(low: float, smoothing: float) -> None:
    hidden, classifier, targets, weights = problem()
    bias, banned = some_bias(), [7, 28]
    kept = [word for word in range(VOCAB) if word not in banned]
    targets = torch.tensor(kept)[targets % len(kept)]
    with torch.no_grad():
        bias[banned] = low
    among = torch.tensor([kept.index(target) for target in targets.tolist()])
    expected = plain(hidden, classifier[kept], among, weights, smoothing, bias[kept])
    scored = chunked_cross_entropy(
        hidden, classifier, targets, weights, label_smoothing=smoothing, bias=bias, precision=torch.float64
    )
    torch.testing.assert_close(scored.total, expected)
    torch.testing.assert_close(
        torch.autograd.grad(scored.total, (hidden, classifier, bias)),
        torch.autograd.grad(expected, (hidden, classifier, bias)),
    )
    assert scored.log_likelihoods.isfinite().all()


def test_the_bias_of_bfloat16_products_is_within_a_few_percent_and_survives_a_ban() -> None:
    hidden, classifier, targets, weights = problem(rows=200, dtype=torch.float32)
    bias = some_bias(torch.float32)
    scored = chunked_cross_entropy(
        hidden, classifier, targets, weights, label_smoothing=0.1, bias=bias, precision=torch.bfloat16
    )
    exact = torch.autograd.grad(plain(hidden, classifier, targets, weights, 0.1, bias), bias)[0]
    (found,) = torch.autograd.grad(scored.total, bias)
    assert found.dtype == torch.float32
    assert (found - exact).norm() < 0.02 * exact.norm()
    with torch.no_grad():
        bias[targets.bincount(minlength=VOCAB).argmin()] = -torch.inf
    scored = chunked_cross_entropy(
        hidden, classifier, targets, weights, label_smoothing=0.1, bias=bias, precision=torch.bfloat16
    )
    assert not torch.autograd.grad(scored.total, bias)[0].isnan().any()


def test_the_gradient_equals_finite_differences() -> None:
    hidden, classifier, targets, weights = problem()

    def total(hidden: Tensor, classifier: Tensor) -> Tensor:
        return chunked_cross_entropy(
            hidden, classifier, targets, weights, label_smoothing=0.1, precision=torch.float64
        ).total

    assert torch.autograd.gradcheck(total, (hidden, classifier))


def test_single_precision_is_the_default_and_close_to_double() -> None:
    hidden, classifier, targets, weights = problem(dtype=torch.float32)
    scored = chunked_cross_entropy(hidden, classifier, targets, weights, label_smoothing=0.1)
    expected = plain(hidden, classifier, targets, weights, 0.1)
    torch.testing.assert_close(scored.total, expected)
    torch.testing.assert_close(
        torch.autograd.grad(scored.total, (hidden, classifier)),
        torch.autograd.grad(expected, (hidden, classifier)),
        atol=1e-5,
        rtol=1e-4,
    )


def test_gradient_weights_replace_the_weights_in_the_gradient_alone() -> None:
    hidden, classifier, targets, weights = problem()
    others = weights.flip(0) * 3
    scored = chunked_cross_entropy(
        hidden, classifier, targets, weights, label_smoothing=0.1, gradient_weights=others, precision=torch.float64
    )
    torch.testing.assert_close(scored.total, plain(hidden, classifier, targets, weights, 0.1))
    expected = torch.autograd.grad(plain(hidden, classifier, targets, others, 0.1), (hidden, classifier))
    torch.testing.assert_close(torch.autograd.grad(scored.total, (hidden, classifier)), expected)


def test_no_rows_cost_nothing_and_send_no_gradient() -> None:
    hidden, classifier, targets, weights = problem(rows=0)
    scored = chunked_cross_entropy(hidden, classifier, targets, weights, label_smoothing=0.1, precision=torch.float64)
    scored.total.backward()
    assert scored.total.item() == 0
    assert len(scored.losses) == len(scored.log_likelihoods) == 0
    assert scored.correct is None
    assert hidden.grad.shape == (0, DIM)
    assert not classifier.grad.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logits_of_ten_thousand_stay_finite_and_right(dtype: torch.dtype) -> None:
    hidden, classifier, targets, weights = problem(dtype=dtype, scale=2500.0)
    assert (hidden @ classifier.t()).abs().max() > 1e4
    scored = chunked_cross_entropy(hidden, classifier, targets, weights, label_smoothing=0.1, precision=dtype)
    gradients = torch.autograd.grad(scored.total, (hidden, classifier))
    expected = plain(hidden, classifier, targets, weights, 0.1)
    torch.testing.assert_close(scored.total, expected, rtol=1e-4, atol=0)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected, (hidden, classifier)), rtol=1e-3, atol=1e-1)
    assert scored.log_likelihoods.isfinite().all()


def test_log_likelihoods_have_no_smoothing_and_correct_is_the_argmax() -> None:
    hidden, classifier, targets, weights = problem()
    logits = (hidden @ classifier.t()).detach()
    targets[::2] = logits.argmax(dim=1)[::2]
    scored = chunked_cross_entropy(
        hidden, classifier, targets, weights, label_smoothing=0.3, precision=torch.float64, is_for_oracle=True
    )
    torch.testing.assert_close(
        scored.log_likelihoods, torch.log_softmax(logits, dim=1).gather(1, targets[:, None])[:, 0]
    )
    assert scored.correct.equal(logits.argmax(dim=1) == targets)
    assert scored.correct.any()
    assert not scored.correct.all()
    assert not scored.losses.requires_grad
    assert not scored.log_likelihoods.requires_grad


def test_bfloat16_products_are_within_a_few_percent() -> None:
    hidden, classifier, targets, weights = problem(rows=200, dtype=torch.float32)
    scored = chunked_cross_entropy(hidden, classifier, targets, weights, label_smoothing=0.1, precision=torch.bfloat16)
    expected = plain(hidden, classifier, targets, weights, 0.1)
    torch.testing.assert_close(scored.total, expected, rtol=0.01, atol=0)
    for found, exact in zip(
        torch.autograd.grad(scored.total, (hidden, classifier)),
        torch.autograd.grad(expected, (hidden, classifier)),
        strict=True,
    ):
        assert found.dtype == torch.float32
        assert (found - exact).norm() < 0.02 * exact.norm()


def test_of_equal_words_only_the_first_is_correct() -> None:
    hidden, classifier, _, weights = problem(dtype=torch.float32)
    with torch.no_grad():
        classifier[20] = classifier[7]  # the same word twice
        hidden[:] = 3 * classifier[7]
    for target, is_correct in ((7, True), (20, False)):
        targets = torch.full((ROWS,), target)
        scored = chunked_cross_entropy(hidden, classifier, targets, weights, label_smoothing=0.1, is_for_oracle=True)
        assert scored.correct.tolist() == [is_correct] * ROWS
        assert (hidden @ classifier.t()).argmax(dim=1).tolist() == [7] * ROWS


def test_for_an_oracle_bfloat16_keeps_the_log_likelihoods_and_the_argmax_of_float32_and_its_gradient() -> None:
    hidden, classifier, targets, weights = problem(rows=400, dtype=torch.float32)
    exact, rough, for_oracle = (
        chunked_cross_entropy(
            hidden, classifier, targets, weights, label_smoothing=0.1, precision=precision, is_for_oracle=is_for_oracle
        )
        for precision, is_for_oracle in ((torch.float32, True), (torch.bfloat16, False), (torch.bfloat16, True))
    )
    assert (rough.log_likelihoods - exact.log_likelihoods).abs().max() > 0.01, "else this shows little"
    torch.testing.assert_close(for_oracle.log_likelihoods, exact.log_likelihoods, atol=1e-5, rtol=1e-5)
    assert for_oracle.correct.equal(exact.correct)
    for found, expected in zip(
        torch.autograd.grad(for_oracle.total, (hidden, classifier)),
        torch.autograd.grad(exact.total, (hidden, classifier)),
        strict=True,
    ):
        assert (found - expected).norm() < 0.02 * expected.norm()


class LogitsSeen(TorchDispatchMode):
    """Remembers the memory of every tensor whose last axis has the size of the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_by_address: dict[int, int] = {}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, Tensor) and tensor.ndim > 1 and tensor.shape[-1] == VOCAB and tensor.shape[0] != DIM:
                storage = tensor.untyped_storage()
                self.bytes_by_address[storage.data_ptr()] = storage.nbytes()
        return result


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_one_chunk_of_logits_is_all_that_ever_exists(monkeypatch: pytest.MonkeyPatch, precision: torch.dtype) -> None:
    rows_per_chunk = 5
    monkeypatch.setattr(losses, "CHUNK_ELEMENTS", rows_per_chunk * VOCAB + 3)
    hidden, classifier, targets, weights = problem(rows=64, dtype=torch.float32)
    with LogitsSeen() as seen:
        chunked_cross_entropy(
            hidden, classifier, targets, weights, label_smoothing=0.1, precision=precision
        ).total.backward()
    assert list(seen.bytes_by_address.values()) == [rows_per_chunk * VOCAB * precision.itemsize]
    with LogitsSeen() as seen:
        plain(hidden, classifier, targets, weights, 0.1).backward()
    assert max(seen.bytes_by_address.values()) == 64 * VOCAB * 4


@pytest.mark.parametrize("low", [None, *BANS])
@pytest.mark.parametrize("rows_per_chunk", [1, 4, 5, ROWS])
def test_with_a_teacher_value_and_gradients_equal_plain_cross_entropy_against_its_distribution(
    monkeypatch: pytest.MonkeyPatch, rows_per_chunk: int, low: float | None
) -> None:
    """Two blocks of rows, which one teacher teaches; words may be banned."""
    monkeypatch.setattr(losses, "CHUNK_ELEMENTS", rows_per_chunk * VOCAB)
    hidden, classifier, targets, weights = problem(rows=2 * ROWS)
    bias, seen, others = some_bias(), problem(scale=0.7)[0].detach().flip(0), weights.flip(0) * 3
    if low is not None:
        with torch.no_grad():
            bias[[7, 28]] = low
        targets = targets % 7
    taught = (seen @ classifier.t() + bias).detach().softmax(dim=1).repeat(2, 1)
    is_free = (bias > -1e4).detach()

    def expected(weights: Tensor) -> Tensor:
        log_probs = (hidden @ classifier.t() + bias)[:, is_free].log_softmax(dim=1)
        soft = -(taught[:, is_free] * log_probs).sum(dim=1)
        return plain(hidden, classifier, targets, weights, 0.0, bias) + (1.5 * weights * soft).sum()

    scored = chunked_cross_entropy(
        hidden,
        classifier,
        targets,
        weights,
        label_smoothing=0.0,
        bias=bias,
        gradient_weights=others,
        precision=torch.float64,
        teacher=Teacher(seen, classifier.detach(), bias.detach(), 1.5),
    )
    torch.testing.assert_close(scored.total, expected(weights))
    torch.testing.assert_close(
        torch.autograd.grad(scored.total * 1.7, (hidden, classifier, bias)),
        torch.autograd.grad(expected(others) * 1.7, (hidden, classifier, bias)),
    )


def test_two_chunks_of_logits_are_all_that_exists_with_a_teacher(monkeypatch: pytest.MonkeyPatch) -> None:
    rows_per_chunk = 5
    monkeypatch.setattr(losses, "CHUNK_ELEMENTS", rows_per_chunk * VOCAB + 3)
    hidden, classifier, targets, weights = problem(rows=64, dtype=torch.float32)
    teacher = Teacher(hidden.detach()[:32], classifier.detach(), None, 0.5)
    with LogitsSeen() as seen:
        scored = chunked_cross_entropy(hidden, classifier, targets, weights, label_smoothing=0.1, teacher=teacher)
        scored.total.backward()
    assert max(seen.bytes_by_address.values()) == rows_per_chunk * VOCAB * 4


@pytest.mark.parametrize("learns", [(True, False, False), (False, True, False), (False, False, True)])
def test_what_is_frozen_has_no_gradient_and_the_others_have_theirs(learns: tuple[bool, ...]) -> None:
    hidden, classifier, targets, weights = problem()
    tensors = (hidden, classifier, some_bias())
    expected = torch.autograd.grad(plain(hidden, classifier, targets, weights, 0.1, tensors[2]), tensors)
    for tensor, is_learning in zip(tensors, learns, strict=True):
        tensor.requires_grad_(is_learning)
    chunked_cross_entropy(
        hidden, classifier, targets, weights, label_smoothing=0.1, bias=tensors[2], precision=torch.float64
    ).total.backward()
    for tensor, is_learning, gradient in zip(tensors, learns, expected, strict=True):
        assert (tensor.grad is not None) == is_learning
        if is_learning:
            torch.testing.assert_close(tensor.grad, gradient)
