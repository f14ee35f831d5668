"""What moves the weights: which of them Muon does, and by how much."""

import pytest
import torch
from tiny import tiny_config, tiny_model
from torch import nn

from anydepth.training.muon import Muon
from anydepth.training.optimizer import ADAM_MOMENTS, MUON_MOMENTS, make_optimizer, moments_of
from anydepth.training.state import state_tensors
from anydepth.training.update import clip_and_step

CHANGES = ("training.optimizer=muon", "exits.halting=geometric", "exits.halting_units=5", "model.exit_adapter=6")


def test_muon_has_the_matrices_of_the_blocks_and_adam_all_else() -> None:
    model, config = tiny_model(*CHANGES), tiny_config(*CHANGES)
    kept = moments_of(make_optimizer(model, config))
    by_muon = {name for name, parameter in model.named_parameters() if kept[parameter] == MUON_MOMENTS}
    assert by_muon == {
        name
        for name, parameter in model.named_parameters()
        if parameter.ndim == 2 and not name.startswith(("halting", "classifiers", "source_emb", "target_emb"))
    }
    assert {kept[parameter] for parameter in model.parameters()} == {MUON_MOMENTS, ADAM_MOMENTS}


def test_a_step_has_the_directions_of_the_gradient_in_equal_size_and_the_size_of_adam_s() -> None:
    config = tiny_config(*CHANGES, "training.clip_norm=1e9", "training.matrix_rate=2.0")
    model = tiny_model(*CHANGES)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    generator = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim == 2:  # singular values from 1 to 4
            left, sizes, right = torch.linalg.svd(parameter.grad, full_matrices=False)
            parameter.grad = left @ torch.diag(torch.linspace(1, 4, len(sizes))) @ right
    optimizer = make_optimizer(model, config)
    assert clip_and_step(optimizer, list(model.parameters()), config.training, 0.01)
    for name, parameter in model.named_parameters():
        moved = before[name] - parameter.detach()
        if moments_of(optimizer)[parameter] == ADAM_MOMENTS:  # whose first step is the rate itself
            torch.testing.assert_close(moved.abs(), torch.full_like(moved, 0.01), rtol=1e-3, atol=1e-6)
            continue
        sizes = torch.linalg.svdvals(moved) / (0.01 * 2.0 * 0.2 * max(moved.shape) ** 0.5)
        assert 0.6 < sizes.min() <= sizes.max() < 1.4, name
        gradient = parameter.grad
        assert gradient is None or (moved * gradient).sum() > 0, name


def test_the_state_has_the_moments_of_each_parameter() -> None:
    model, config = tiny_model(*CHANGES), tiny_config(*CHANGES)
    optimizer = make_optimizer(model, config)
    kinds = {name.partition(".")[0] for name in state_tensors(model, optimizer)}
    assert kinds == {"model", *ADAM_MOMENTS, *MUON_MOMENTS}
    matrix = model.decoder[0].feed_forward.inner.weight
    matrix.grad = torch.ones_like(matrix)
    assert clip_and_step(optimizer, [matrix], config.training, 0.01)
    stored = state_tensors(model, optimizer)["momentum_buffer.decoder.0.feed_forward.inner.weight"]
    assert stored.abs().min() > 0, "the momentum that it has now, and not the zeros before the first step"


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_a_step_is_that_of_torch_s_muon(precision: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(2)
    shapes = [(12, 12), (12, 40), (12, 12), (40, 12), (1, 7)]
    ours, theirs = ([nn.Parameter(torch.ones(shape) / 3) for shape in shapes] for _ in range(2))
    muon = Muon([{"params": ours}], weight_decay=0.1, precision=precision)
    other = torch.optim.Muon(theirs, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for rate in (0.02, 0.01, 0.03):
        for own, its in zip(ours, theirs, strict=True):
            own.grad = torch.randn(own.shape, generator=generator)
            its.grad = own.grad.clone()
        for optimizer in (muon, other):
            optimizer.param_groups[0]["lr"] = rate
            optimizer.step()
    for own, its in zip(ours, theirs, strict=True):  # theirs multiplies in bfloat16
        assert own.dtype == torch.float32
        assert (own - its).abs().max() < 0.2 * (its - 1 / 3).abs().max()


def test_what_has_no_gradient_stays() -> None:
    matrices = [nn.Parameter(torch.ones(3, 3)) for _ in range(2)]
    matrices[0].grad = torch.eye(3)
    muon = Muon([{"params": matrices, "lr": 0.1}], weight_decay=0.0)
    muon.step()
    assert not torch.equal(matrices[0], torch.ones(3, 3))
    torch.testing.assert_close(matrices[1].detach(), torch.ones(3, 3))
