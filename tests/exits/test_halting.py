"""Halting modules against the printed formulas; probabilities near 0 and 1; padding; the exits that
inference takes."""

import itertools
import math

import pytest
import reference
import torch
from tiny import BATCH, BLOCKS, DIM, ENCODER_DIM, SOURCE, TIME, random_exits, tiny_batch, tiny_config, tiny_model
from torch import Tensor
from torch.nn import functional as F

from anydepth.exits.halting import (
    GeometricHalting,
    Halting,
    MultinomialHalting,
    SequenceHalting,
    exit_loss,
    first_exits,
    geometric_log_probs,
    make_halting,
)
from anydepth.model.transformer import Transformer

KINDS = ["sequence", "multinomial", "geometric"]


def halting_of(kind: str, *, blocks: int = BLOCKS, seed: int = 1) -> Halting:
    """A halting module whose probabilities are far from even."""
    halting = make_halting(tiny_config(f"exits.halting={kind}", f"model.blocks={blocks}"))
    assert halting is not None
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in halting.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return halting


def random_states(*, blocks: int = BLOCKS, seed: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """States of all blocks, a memory and its mask."""
    generator = torch.Generator().manual_seed(seed)
    mask = torch.arange(SOURCE) < torch.tensor([SOURCE, 3, 5])[:, None]
    states = torch.randn(blocks, BATCH, TIME, DIM, generator=generator)
    return states, torch.randn(BATCH, SOURCE, ENCODER_DIM, generator=generator), mask


def logits_for(count: int, *, spread: float, seed: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return spread * torch.randn(BLOCKS - 1, count, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_q_is_the_printed_formula_at_every_position(kind: str) -> None:
    halting, (states, memory, mask) = halting_of(kind), random_states()
    log_probs = halting.exit_log_probs(states, memory, mask)
    assert log_probs.shape == (BLOCKS, BATCH, TIME)
    for row, t in itertools.product(range(BATCH), range(TIME)):
        expected = reference.exit_probabilities(
            halting, [torch.zeros(DIM), *states[:, row, t]], list(memory[row][mask[row]])
        )
        torch.testing.assert_close(log_probs[:, row, t].exp(), expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("spread", [0.1, 3.0, 30.0])
def test_geometric_probabilities_add_up_to_one(spread: float) -> None:
    total = geometric_log_probs(logits_for(200, spread=spread)).exp().sum(dim=0)
    torch.testing.assert_close(total, torch.ones(200, dtype=torch.float64))


def test_geometric_probabilities_are_the_product_of_equation_13() -> None:
    logits = logits_for(50, spread=3.0)
    expected = torch.stack([reference.geometric(list(column)) for column in logits.sigmoid().t()], dim=1)
    torch.testing.assert_close(geometric_log_probs(logits).exp(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [100.0, 1000.0])
def test_loss_and_gradient_are_right_where_a_product_of_probabilities_would_be_zero(
    size: float, dtype: torch.dtype
) -> None:
    signs = torch.tensor(list(itertools.product([-1.0, 1.0], repeat=BLOCKS - 1)), dtype=dtype).t()  # (decision, place)
    for n in range(1, BLOCKS + 1):
        logits = (size * signs).requires_grad_()
        oracle = torch.full((1, signs.shape[1]), n)
        loss = exit_loss(geometric_log_probs(logits).unsqueeze(1), oracle, torch.ones_like(oracle, dtype=torch.bool))
        # -log sigmoid(x) is |x| where x is far below 0, and nothing where it is far above
        expected = size * ((signs[: n - 1] > 0).sum() + (signs[n - 1 : n] < 0).sum())
        torch.testing.assert_close(loss.item(), float(expected))
        (gradient,) = torch.autograd.grad(loss, logits)
        chi = logits.detach().sigmoid()
        wanted = torch.zeros_like(chi)
        wanted[: n - 1] = chi[: n - 1]
        wanted[n - 1 : n] = chi[n - 1 : n] - 1  # nothing for n = N
        assert gradient.isfinite().all()
        torch.testing.assert_close(gradient, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_one_block_is_certain(kind: str) -> None:
    halting, (states, memory, mask) = halting_of(kind, blocks=1), random_states(blocks=1)
    log_probs = halting.exit_log_probs(states, memory, mask)
    assert log_probs.shape == (1, BATCH, TIME)
    assert not log_probs.any()
    assert (halting.default_exits(log_probs) == 1).all()
    loss = exit_loss(log_probs, torch.ones(BATCH, TIME, dtype=torch.long), torch.ones(BATCH, TIME, dtype=torch.bool))
    torch.autograd.backward(loss)
    assert loss.item() == 0
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in halting.parameters())


def test_geometric_halting_has_one_vector_and_one_bias_for_all_blocks() -> None:
    shapes = {kind: {name: tuple(p.shape) for name, p in halting_of(kind).named_parameters()} for kind in KINDS}
    assert shapes == {
        "sequence": {"sentence_scores.weight": (BLOCKS, ENCODER_DIM), "sentence_scores.bias": (BLOCKS,)},
        "multinomial": {"token_scores.weight": (BLOCKS, DIM), "token_scores.bias": (BLOCKS,)},
        "geometric": {"stop_score.weight": (1, DIM), "stop_score.bias": (1,)},
    }
    halting, (states, _, _) = halting_of("geometric"), random_states()
    assert isinstance(halting, GeometricHalting)
    for n in range(BLOCKS):
        expected = states[n] @ halting.stop_score.weight[0] + halting.stop_score.bias
        torch.testing.assert_close(halting.halt_logits(states)[n], expected)


def test_without_a_halting_module_the_model_is_a_plain_transformer() -> None:
    plain, config = tiny_model(), tiny_config()
    assert plain.halting is None
    expected = Transformer(config.model, source_vocab=19, target_vocab=23, is_joint=False)
    assert [name for name, _ in plain.named_parameters()] == [name for name, _ in expected.named_parameters()]


def test_adding_a_halting_module_leaves_the_other_fresh_weights_as_they_were() -> None:
    plain, halting = (
        dict(tiny_model().named_parameters()),
        dict(tiny_model("exits.halting=geometric").named_parameters()),
    )
    assert halting.keys() - plain.keys() == {"halting.stop_score.weight", "halting.stop_score.bias"}
    assert all(halting[name].equal(plain[name]) for name in plain if plain[name].ndim > 1)


@torch.no_grad()
def test_multinomial_halting_sees_block_1_alone_and_geometric_all_but_the_last() -> None:
    states, memory, mask = random_states()
    others, _, _ = random_states(seed=9)
    for kind, seen in (("multinomial", 1), ("geometric", BLOCKS - 1), ("sequence", 0)):
        halting = halting_of(kind)
        mixed = torch.cat([states[:seen], others[seen:]])
        assert halting.exit_log_probs(mixed, memory, mask).equal(halting.exit_log_probs(states, memory, mask))
        if seen:
            other = halting.exit_log_probs(torch.cat([states[: seen - 1], others[seen - 1 :]]), memory, mask)
            assert not other.equal(halting.exit_log_probs(states, memory, mask))


@torch.no_grad()
def test_the_mean_of_the_source_leaves_padding_out() -> None:
    halting, (states, memory, mask) = halting_of("sequence"), random_states()
    expected = halting.exit_log_probs(states, memory, mask)
    junk = torch.where(mask.unsqueeze(-1), memory, 1e6)
    torch.testing.assert_close(halting.exit_log_probs(states, junk, mask), expected)
    wide = halting.exit_log_probs(states, F.pad(memory, (0, 0, 0, 4), value=-7.0), F.pad(mask, (0, 4)))
    torch.testing.assert_close(wide, expected)
    for row, length in enumerate(mask.sum(dim=1).tolist()):
        alone = halting.exit_log_probs(states[:, [row]], memory[[row], :length], mask[[row], :length])
        torch.testing.assert_close(alone, expected[:, [row]])


@torch.no_grad()
def test_q_of_a_sentence_in_a_model_does_not_depend_on_padding() -> None:
    model, batch = tiny_model("exits.halting=sequence"), tiny_batch()
    assert model.halting is not None
    states = torch.zeros(BLOCKS, BATCH, TIME, DIM)
    expected = model.halting.exit_log_probs(states, model.encode(batch.source, batch.source_mask), batch.source_mask)
    source, mask = F.pad(batch.source, (0, 5)), F.pad(batch.source_mask, (0, 5))
    torch.testing.assert_close(
        model.halting.exit_log_probs(states, model.encode(source, mask), mask), expected, atol=1e-6, rtol=1e-5
    )


@pytest.mark.parametrize(
    "halting", [MultinomialHalting(DIM, BLOCKS), SequenceHalting(ENCODER_DIM, BLOCKS)], ids=["multinomial", "sequence"]
)
def test_the_default_exit_of_a_multinomial_is_the_most_probable_and_the_lowest_of_equals(halting: Halting) -> None:
    log_probs = logits_for(300, spread=2.0).new_zeros(BLOCKS, 300)
    log_probs[:-1] = logits_for(300, spread=2.0)
    expected = [max(range(1, BLOCKS + 1), key=lambda n: (column[n - 1], -n)) for column in log_probs.t().tolist()]
    assert halting.default_exits(log_probs).tolist() == expected
    assert set(expected) == set(range(1, BLOCKS + 1))
    assert halting.default_exits(torch.zeros(BLOCKS, 2, 3)).tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spread", [0.01, 1.0, 200.0])
def test_the_default_exit_of_geometric_halting_is_the_first_with_chi_above_one_half(
    spread: float, dtype: torch.dtype
) -> None:
    logits = logits_for(400, spread=spread).to(dtype)
    exits = GeometricHalting(DIM).default_exits(geometric_log_probs(logits))
    expected = [next((n for n, logit in enumerate(column, 1) if logit > 0), BLOCKS) for column in logits.t().tolist()]
    assert exits.tolist() == expected
    assert set(expected) == set(range(1, BLOCKS + 1))


def test_units_between_the_state_and_the_decision_are_rectified_and_shared_by_all_blocks() -> None:
    halting = GeometricHalting(DIM, units=3)
    hidden = torch.randn(BLOCKS, 2, 5, DIM, generator=torch.Generator().manual_seed(1))
    assert halting.features is not None
    w, b, v, c = (
        parameter.detach() for parameter in (*halting.features.parameters(), *halting.stop_score.parameters())
    )
    expected = (torch.einsum("nbtd,ud->nbtu", hidden, w) + b).clamp(min=0) @ v[0] + c
    torch.testing.assert_close(halting.halt_logits(hidden).detach(), expected)
    assert GeometricHalting(DIM).features is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("decisions", range(8))
def test_chi_of_exactly_one_half_goes_on(decisions: int, dtype: torch.dtype) -> None:
    logits = torch.zeros(decisions, 1, dtype=dtype)
    assert GeometricHalting(DIM).default_exits(geometric_log_probs(logits)).tolist() == [decisions + 1]


def test_the_first_exit_is_the_first_decision_to_stop_else_one_beyond_them() -> None:
    would_stop = torch.tensor(list(itertools.product([False, True], repeat=BLOCKS - 1))).t()
    expected = [next((n for n, stops in enumerate(column, 1) if stops), BLOCKS) for column in would_stop.t().tolist()]
    assert first_exits(would_stop).tolist() == expected
    assert first_exits(torch.zeros(0, 3, dtype=torch.bool)).tolist() == [1, 1, 1]


def test_the_exit_loss_is_the_cross_entropy_over_real_positions() -> None:
    halting, (states, memory, source_mask) = halting_of("geometric"), random_states()
    log_probs = halting.exit_log_probs(states, memory, source_mask)
    oracle, mask = random_exits(BATCH, TIME, seed=5), torch.arange(TIME) < torch.tensor([2, TIME, 4])[:, None]
    places = [(row, t) for row, t in itertools.product(range(BATCH), range(TIME)) if mask[row, t]]
    expected = -sum(log_probs[oracle[row, t] - 1, row, t] for row, t in places)
    assert len(places) == 12
    loss = exit_loss(log_probs, oracle, mask)
    torch.testing.assert_close(loss, expected)
    spoiled = torch.where(mask, log_probs, math.nan)
    assert exit_loss(spoiled, torch.where(mask, oracle, BLOCKS + 1 - oracle), mask).equal(loss)


def test_a_sentence_counts_as_often_as_it_has_targets_in_the_loss_of_sequence_halting() -> None:
    halting, (states, memory, source_mask) = halting_of("sequence"), random_states()
    assert isinstance(halting, SequenceHalting)
    log_probs = halting.exit_log_probs(states, memory, source_mask)
    chosen, lengths = [2, 4, 1], [2, TIME, 4]
    loss = exit_loss(
        log_probs,
        torch.tensor(chosen)[:, None].expand(BATCH, TIME),
        torch.arange(TIME) < torch.tensor(lengths)[:, None],
    )
    with torch.no_grad():
        logits = halting.sentence_logits(memory, source_mask)
    expected = sum(
        length * F.cross_entropy(logits[row], torch.tensor(n - 1))
        for row, (n, length) in enumerate(zip(chosen, lengths, strict=True))
    )
    torch.testing.assert_close(loss.detach(), expected)
