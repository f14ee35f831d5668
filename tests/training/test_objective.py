"""The objective: aligned and mixed losses, against separate losses and a recursion over
positions."""

import math
from dataclasses import replace
from typing import Any

import pytest
import reference
import torch
from tiny import BATCH, BLOCKS, DIM, TARGET_VOCAB, TIME, tiny_batch, tiny_config, tiny_model
from torch import Tensor, nn
from torch.nn import functional as F
from variations import BANS, MARIAN, ban, named

from anydepth.model.transformer import Transformer
from anydepth.text.batches import Batch
from anydepth.text.tokenizer import PAD
from anydepth.training.objective import ExitRows, TrainingObjective

OMEGAS = {
    "1": [1.0, 1.0, 1.0, 1.0],
    "n": [1.0, 2.0, 3.0, 4.0],
    "sqrt(n)": [1.0, math.sqrt(2), math.sqrt(3), 2.0],
    "1/sqrt(n)": [1.0, 1 / math.sqrt(2), 1 / math.sqrt(3), 0.5],
    "1/n": [1.0, 1 / 2, 1 / 3, 1 / 4],
    "[0.5, 4, 2.5, 1]": [0.5, 4.0, 2.5, 1.0],
}


def aligned_rows(objective: TrainingObjective, batch: Batch) -> list[ExitRows]:
    memory = objective.model.encode(batch.source, batch.source_mask)
    states = objective.model.decode(
        batch.target_inputs, memory, batch.source_mask, gradient_scales=objective.between_blocks
    )
    return objective.aligned_rows(batch, states, 1)


def new_objective(*changes: str, seed: int = 1) -> TrainingObjective:
    return TrainingObjective(tiny_model(*changes, seed=seed), tiny_config(*changes))


def gradients(module: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    names, parameters = zip(*module.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    return {name: torch.zeros_like(p) if g is None else g for name, p, g in zip(names, parameters, found, strict=True)}


def bias_of(model: Transformer) -> Tensor | float:
    """What is added to the scores of the words."""
    return 0.0 if model.output_bias is None else model.output_bias


def separate_losses(model: Transformer, batch: Batch, smoothing: float) -> list[Tensor]:
    """The summed loss of each exit over the real targets, one plain cross-entropy each."""
    states = model.decode(batch.target_inputs, model.encode(batch.source, batch.source_mask), batch.source_mask)
    targets = batch.targets.masked_fill(~batch.target_mask, -100)
    return [
        F.cross_entropy(
            (states[n - 1] @ model.classifier(n).t() + bias_of(model)).flatten(0, 1),
            targets.flatten(),
            label_smoothing=smoothing,
            reduction="sum",
        )
        for n in model.config.classifier_exits
    ]


@pytest.mark.parametrize("weighting", OMEGAS)
@pytest.mark.parametrize("classifiers", ["untied", "shared", "tied"])
def test_the_aligned_loss_is_the_weighted_mean_of_the_exits_own_losses(weighting: str, classifiers: str) -> None:
    objective = new_objective(
        f"training.exit_weights={weighting}" if weighting != "1" else 'training.exit_weights="1"',
        f"model.classifiers={classifiers}",
    )
    batch = tiny_batch()
    loss, likelihoods, rows, *_ = objective(batch, 0)
    omegas = OMEGAS[weighting]
    expected = sum(
        omega * own for omega, own in zip(omegas, separate_losses(objective.model, batch, 0.1), strict=True)
    ) / sum(omegas)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradients(objective, loss), gradients(objective, expected), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(likelihoods, torch.stack(separate_losses(objective.model, batch, 0.0)).detach())
    assert rows.tolist() == [batch.tokens] * BLOCKS


@pytest.mark.parametrize("classifiers", ["untied", "tied"])
def test_with_a_share_of_the_targets_each_exit_below_the_last_learns_from_drawn_ones_that_count_so_much_more(
    classifiers: str,
) -> None:
    objective = new_objective("training.exit_share=0.4", f"model.classifiers={classifiers}")
    batch, model, share = tiny_batch(), objective.model, 0.4
    loss, _, rows, *_ = objective(batch, 5)
    assert rows[-1] == batch.tokens > rows[:-1].max() > 0, "else this shows little"
    generator, expected = torch.Generator().manual_seed(5 ^ 1), []
    states = model.decode(batch.target_inputs, model.encode(batch.source, batch.source_mask), batch.source_mask)
    for n in range(1, BLOCKS + 1):
        own = F.cross_entropy(
            states[n - 1][batch.target_mask] @ model.classifier(n).t(),
            batch.targets[batch.target_mask],
            label_smoothing=0.1,
            reduction="none",
        )
        counted = torch.ones(batch.tokens)
        if n < BLOCKS:
            counted = (torch.rand(batch.tokens, generator=generator) < share) / share
        expected.append((own * counted).sum() / BLOCKS)
    torch.testing.assert_close(loss, sum(expected))
    torch.testing.assert_close(gradients(objective, loss), gradients(objective, sum(expected)), atol=1e-5, rtol=1e-4)
    assert objective(batch, 6).loss != loss, "another seed draws others"


@pytest.mark.parametrize("classifiers", ["untied", "shared", "tied"])
def test_a_model_that_varies_as_marians_has_the_loss_and_gradients_of_plain_cross_entropy(classifiers: str) -> None:
    objective, batch = new_objective(f"model.classifiers={classifiers}", *MARIAN), tiny_batch()
    loss, likelihoods, *_ = objective(batch, 0)
    expected = torch.stack(separate_losses(objective.model, batch, 0.1)).mean()
    torch.testing.assert_close(loss, expected)
    own, plain = gradients(objective, loss), gradients(objective, expected)
    torch.testing.assert_close(own, plain, atol=1e-5, rtol=1e-4)
    assert own["model.output_bias"].abs().max() > 0.1, "else this shows little"
    torch.testing.assert_close(likelihoods, torch.stack(separate_losses(objective.model, batch, 0.0)).detach())


@pytest.mark.parametrize("bias", BANS)
@pytest.mark.parametrize("changes", [(), ("training.mode=mixed",), ("exits.halting=geometric",)], ids=named)
def test_a_banned_word_trains_as_if_it_were_not_there(bias: float, changes: tuple[str, ...]) -> None:
    objective, batch = new_objective(*changes, *MARIAN), tiny_batch()
    banned = next(word for word in range(4, TARGET_VOCAB) if word not in batch.targets)
    before = objective(batch, 3)
    ban(objective.model, banned, bias=bias)
    sums = objective(batch, 3)
    found = gradients(objective, sums.loss)
    assert sums.loss.isfinite() and 0 < sums.loss < before.loss
    assert all(each.isfinite().all() for each in found.values())
    assert found["model.output_bias"][banned] == 0
    assert not any(found[f"model.classifiers.{n}"][banned].any() for n in range(BLOCKS))


def test_a_baseline_has_the_loss_of_its_last_exit_alone() -> None:
    objective, batch = new_objective("model.exits=last"), tiny_batch()
    loss, likelihoods, *_ = objective(batch, 0)
    (expected,) = separate_losses(objective.model, batch, 0.1)
    torch.testing.assert_close(loss, expected)
    assert len(likelihoods) == 1


def remember_exits(model: Transformer, monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """A list that receives the exits of every call of `decode`."""
    seen: list[Tensor] = []
    decode = model.decode

    def watched(*arguments: Any, **options: Any) -> Tensor:
        seen.append(options["exits"])
        return decode(*arguments, **options)

    monkeypatch.setattr(model, "decode", watched)
    return seen


@pytest.mark.parametrize(("paths", "classifiers"), [(1, "untied"), (3, "untied"), (3, "tied")])
def test_the_mixed_loss_equals_a_recursion_over_positions(
    monkeypatch: pytest.MonkeyPatch, paths: int, classifiers: str
) -> None:
    objective = new_objective("training.mode=mixed", f"training.paths={paths}", f"model.classifiers={classifiers}")
    batch = tiny_batch()
    seen = remember_exits(objective.model, monkeypatch)
    loss, _, rows, *_ = objective(batch, 11)
    (exits,) = seen
    assert exits.shape == (paths * BATCH, TIME)
    sentences = [
        (source[known].tolist(), inputs[real].tolist(), targets[real].tolist())
        for source, known, inputs, targets, real in zip(
            batch.source, batch.source_mask, batch.target_inputs, batch.targets, batch.target_mask, strict=True
        )
    ]
    by_path = [
        [exits[path * BATCH + row][batch.target_mask[row]].tolist() for row in range(BATCH)] for path in range(paths)
    ]
    expected = reference.mixed_loss(objective.model, sentences, by_path, 0.1)
    torch.testing.assert_close(loss, expected, atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(gradients(objective, loss), gradients(objective, expected), atol=1e-4, rtol=1e-3)
    drawn = [left for path in by_path for sequence in path for left in sequence]
    assert rows.tolist() == [drawn.count(n) for n in range(1, BLOCKS + 1)]


@pytest.mark.parametrize("paths", [1, 3])
def test_mixed_training_costs_as_many_passes_as_paths(paths: int) -> None:
    objective = new_objective("training.mode=mixed", f"training.paths={paths}")
    shapes: dict[str, list[tuple[int, ...]]] = {"encoder": [], "decoder": []}
    for side, blocks in (("encoder", objective.model.encoder), ("decoder", objective.model.decoder)):
        for block in blocks:
            block.feed_forward.register_forward_hook(
                lambda layer, inputs, output, side=side: shapes[side].append(tuple(inputs[0].shape[:2]))
            )
    batch = tiny_batch()
    objective(batch, 0)
    assert shapes["encoder"] == [tuple(batch.source.shape)] * len(objective.model.encoder)
    assert shapes["decoder"] == [(paths * BATCH, TIME)] * BLOCKS


def test_mixed_exits_are_uniform_and_belong_to_the_seed() -> None:
    objective, batch = new_objective("training.mode=mixed", "training.paths=3"), tiny_batch()
    with torch.no_grad():
        counts = torch.stack([objective(batch, seed)[2] for seed in range(150)])
        assert objective(batch, 3)[0].equal(objective(batch, 3)[0])
    assert (counts.sum(dim=1) == 3 * batch.tokens).all()
    shares = counts.sum(dim=0) / counts.sum()
    deviation = math.sqrt(0.25 * 0.75 / counts.sum().item())
    assert ((shares - 1 / BLOCKS).abs() < 4 * deviation).all()
    assert len({tuple(row) for row in counts.tolist()}) > 50


@pytest.mark.parametrize("mode", ["aligned", "mixed"])
def test_what_stands_at_padded_targets_contributes_nothing(mode: str) -> None:
    objective, batch = new_objective(f"training.mode={mode}"), tiny_batch()
    noise = torch.randint(4, TARGET_VOCAB, batch.targets.shape)
    other = replace(
        batch,
        target_inputs=torch.where(batch.target_mask, batch.target_inputs, noise),
        targets=torch.where(batch.target_mask, batch.targets, noise),
    )
    assert not other.targets.equal(batch.targets)
    loss, other_loss = objective(batch, 5)[0], objective(other, 5)[0]
    torch.testing.assert_close(loss, other_loss)
    torch.testing.assert_close(gradients(objective, loss), gradients(objective, other_loss), atol=1e-6, rtol=1e-5)


def test_more_padding_changes_neither_loss_nor_gradient() -> None:
    objective, batch = new_objective(), tiny_batch()
    wide = Batch(
        F.pad(batch.source, (0, 4), value=PAD),
        F.pad(batch.source_mask, (0, 4)),
        F.pad(batch.target_inputs, (0, 5), value=PAD),
        F.pad(batch.targets, (0, 5), value=PAD),
        F.pad(batch.target_mask, (0, 5)),
        batch.indices,
    )
    loss, wide_loss = objective(batch, 0)[0], objective(wide, 0)[0]
    torch.testing.assert_close(loss, wide_loss)
    torch.testing.assert_close(gradients(objective, loss), gradients(objective, wide_loss), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("ratio", [0.3, 1.1])
def test_gradient_scaling_reaches_every_block_with_the_factors_of_algorithm_1(ratio: float) -> None:
    """Loss m reaches block m times gamma_m, block m - 1 times 1, a lower block n times the product
    of 1 / gamma_k, n < k < m."""
    plain, scaled = new_objective(), new_objective(f"training.gradient_ratio={ratio}")
    batch = tiny_batch()
    gamma = {n: ratio * (BLOCKS - n) for n in range(1, BLOCKS)} | {BLOCKS: 1.0}
    factors = {
        m: {m: gamma[m]} | {n: math.prod(1 / gamma[k] for k in range(n + 1, m)) for n in range(1, m)}
        for m in range(1, BLOCKS + 1)
    }
    for m in range(1, BLOCKS + 1):
        found, expected = (
            gradients(objective.model, objective.decoding_loss([aligned_rows(objective, batch)[m - 1]]).total)
            for objective in (scaled, plain)
        )
        assert factors[m].get(m - 1, 1.0) == 1.0
        for n in range(1, BLOCKS + 1):
            names = [name for name in expected if name.startswith(f"decoder.{n - 1}.")]
            assert any(expected[name].any() for name in names) == (n <= m)
            for name in names:
                torch.testing.assert_close(found[name], expected[name] * factors[m].get(n, 0.0), atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(found[f"classifiers.{m - 1}"], expected[f"classifiers.{m - 1}"] * gamma[m])


def test_gradient_scaling_leaves_the_loss_and_every_state_as_they_are() -> None:
    plain, scaled = new_objective(), new_objective("training.gradient_ratio=0.7")
    batch = tiny_batch()
    assert all(mine.equal(theirs) for mine, theirs in zip(plain(batch, 0), scaled(batch, 0), strict=True))
    for mine, theirs in zip(aligned_rows(plain, batch), aligned_rows(scaled, batch), strict=True):
        assert mine.hidden.equal(theirs.hidden)
        assert mine.hidden.shape == (batch.tokens, DIM)


def test_rounded_blocks_change_the_loss_a_little_and_leave_what_is_measured_afterwards_alone() -> None:
    exact, rounded = (new_objective(f"training.block_precision={name}") for name in ("float32", "bfloat16"))
    batch = tiny_batch()
    losses = [objective.train()(batch, seed=1).loss.item() for objective in (exact, rounded)]
    assert losses[0] != losses[1], "else nothing was rounded"
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
    measured = [objective.eval()(batch, seed=1).loss.item() for objective in (exact, rounded)]
    assert measured[0] == measured[1]
