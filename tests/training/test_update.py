"""One update: the same gradient however the global batch is cut, clipped, and refused when it is
not a number."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tiny import (
    ALONE,
    exit_code_of,
    free_port,
    gradients_in_own_process,
    gradients_of_update_7,
    in_own_process,
    tiny_config,
    tiny_model,
    tiny_pairs,
)
from torch import Tensor, nn

from anydepth.text.batches import Batch, make_batch
from anydepth.training.objective import TrainingObjective
from anydepth.training.optimizer import make_optimizer
from anydepth.training.update import (
    UpdateSums,
    accumulate_gradients,
    bad_slots,
    batch_seed,
    clip_and_step,
    described_failure,
)

FLOAT32 = {"atol": 1e-6, "rtol": 1e-6}  # sums in another order differ by a few units in the last place
DROPOUT = ("model.dropout=0.2", "model.attention_dropout=0.1")
HALTING = ("exits.halting=geometric", "exits.oracle=likelihood", "exits.kernel_width=2.0")


def gradients(cut: list[list[int]], *changes: str, update: int = 1) -> tuple[dict[str, Tensor], UpdateSums]:
    objective = TrainingObjective(tiny_model(*changes).train(), tiny_config(*changes))
    batches = [make_batch(tiny_pairs(5), part) for part in cut]
    sums = accumulate_gradients(objective, batches, ALONE, seed=1, update=update)
    return {name: parameter.grad for name, parameter in objective.named_parameters()}, sums


def test_batches_that_are_accumulated_give_the_gradient_of_one_big_batch() -> None:
    whole, whole_sums = gradients([[0, 1, 2, 3, 4]])
    parts, parts_sums = gradients([[0, 3], [1, 2, 4]])
    torch.testing.assert_close(parts, whole, atol=1e-6, rtol=1e-4)
    assert parts_sums.tokens == whole_sums.tokens == make_batch(tiny_pairs(5), range(5)).tokens
    torch.testing.assert_close(
        (parts_sums.loss, parts_sums.likelihoods), (whole_sums.loss, whole_sums.likelihoods), **FLOAT32
    )
    assert parts_sums.rows == whole_sums.rows


@pytest.mark.parametrize("kind", ["sequence", "multinomial", "geometric"])
def test_batches_that_are_accumulated_give_the_exit_figures_and_the_gradient_of_one_big_batch(kind: str) -> None:
    changes = (f"exits.halting={kind}", "exits.oracle=likelihood", "exits.exit_penalty=0.02")
    whole, whole_sums = gradients([[0, 1, 2, 3, 4]], *changes)
    parts, parts_sums = gradients([[0, 3], [1, 2, 4]], *changes)
    torch.testing.assert_close(parts, whole, atol=1e-6, rtol=1e-4)
    assert any(name.startswith("model.halting.") and gradient.any() for name, gradient in whole.items())
    torch.testing.assert_close(
        (parts_sums.loss, parts_sums.exit_loss), (whole_sums.loss, whole_sums.exit_loss), **FLOAT32
    )
    assert (parts_sums.oracle_exits, parts_sums.halting_exits) == (whole_sums.oracle_exits, whole_sums.halting_exits)
    assert sum(whole_sums.oracle_exits) == sum(whole_sums.halting_exits) == whole_sums.tokens
    objective = TrainingObjective(tiny_model(*changes), tiny_config(*changes))
    expected = objective(make_batch(tiny_pairs(5), range(5)), 0)
    assert whole_sums.exit_loss == pytest.approx(expected.exit_loss.item())
    assert whole_sums.oracle_exits == expected.oracle_exits.tolist()
    assert whole_sums.halting_exits == expected.halting_exits.tolist()


def test_without_a_halting_module_there_are_no_exit_figures() -> None:
    _, sums = gradients([[0, 1], [2]])
    assert (sums.exit_loss, sums.oracle_exits, sums.halting_exits) == (0.0, [], [])


def test_the_gradient_is_that_of_the_mean_over_target_tokens() -> None:
    found, sums = gradients([[0, 1], [2]])
    objective = TrainingObjective(tiny_model(), tiny_config())
    total = sum(objective(make_batch(tiny_pairs(5), part), 0)[0] for part in ([0, 1], [2]))
    (total / sums.tokens).backward()
    torch.testing.assert_close(
        found, {name: parameter.grad for name, parameter in objective.named_parameters()}, atol=1e-6, rtol=1e-4
    )


def test_dropout_belongs_to_seed_and_update() -> None:
    first, again, other = (gradients([[0, 1, 2]], *DROPOUT, update=update)[0] for update in (3, 3, 4))
    assert all(first[name].equal(again[name]) for name in first)
    assert not all(first[name].equal(other[name]) for name in first)


def test_every_seed_update_and_slot_has_a_seed_of_its_own() -> None:
    seeds = {batch_seed(seed, update, slot) for seed in range(5) for update in range(20) for slot in range(6)}
    assert len(seeds) == 5 * 20 * 6
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize(
    "changes",
    [("training.mode=aligned",), ("training.mode=mixed",), (*HALTING, "exits.path_weight=0.5")],
    ids=["aligned", "mixed", "halting and path"],
)
def test_two_processes_give_the_gradient_of_one_that_accumulates_twice_as_much(
    tmp_path: Path, changes: tuple[str, ...]
) -> None:
    config, port = tiny_config(*DROPOUT, *changes), free_port()
    files = [tmp_path / f"{rank}.safetensors" for rank in range(2)]
    processes = [
        in_own_process(gradients_in_own_process, rank, 2, port, 2, config, file) for rank, file in enumerate(files)
    ]
    expected = {name: parameter.grad for name, parameter in gradients_of_update_7(config, ALONE, 4).named_parameters()}
    assert [exit_code_of(process) for process in processes] == [0, 0]
    first, second = (load_file(file) for file in files)
    assert all(first[name].equal(second[name]) for name in first)
    torch.testing.assert_close(first, expected, atol=1e-6, rtol=1e-4)


def with_gradient(*values: float) -> tuple[nn.Parameter, torch.optim.Optimizer]:
    parameter = nn.Parameter(torch.zeros(len(values)))
    parameter.grad = torch.tensor(values)
    return parameter, torch.optim.SGD([{"params": [parameter], "factor": 1.0}], lr=99.0)


def test_a_long_gradient_is_cut_to_the_norm_and_a_short_one_is_not() -> None:
    config = tiny_config("training.clip_norm=3").training
    long, optimizer = with_gradient(6.0, 8.0)
    assert clip_and_step(optimizer, [long], config, 0.5)
    torch.testing.assert_close(long.data, torch.tensor([-0.9, -1.2]))
    short, optimizer = with_gradient(0.6, 0.8)
    assert clip_and_step(optimizer, [short], config, 0.5)
    torch.testing.assert_close(short.data, torch.tensor([-0.3, -0.4]))
    assert short.grad is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_moves_nothing(bad: float) -> None:
    parameter, optimizer = with_gradient(1.0, bad)
    assert not clip_and_step(optimizer, [parameter], tiny_config().training, 0.5)
    assert parameter.tolist() == [0, 0]


def test_the_optimizer_is_adam_with_the_moments_of_the_paper() -> None:
    (group,) = make_optimizer(tiny_model(), tiny_config("training.weight_decay=0.25")).param_groups
    assert (group["betas"], group["weight_decay"]) == ((0.9, 0.98), 0.25)


def test_the_halting_module_moves_as_many_times_faster_as_its_factor_says() -> None:
    config = tiny_config("exits.halting=geometric", "exits.rate_factor=5.0", "training.clip_norm=1e9")
    model = tiny_model("exits.halting=geometric")
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    assert clip_and_step(make_optimizer(model, config), list(model.parameters()), config.training, 0.01)
    for name, parameter in model.named_parameters():
        step = 0.05 if name.startswith("halting.") else 0.01  # Adam's first step is the learning rate itself
        torch.testing.assert_close(before[name] - parameter.detach(), torch.full_like(parameter, step))


def poisoned_objective(batch: Batch) -> TrainingObjective:
    """An objective that is not a number for whatever contains the batch's first source token."""
    objective = TrainingObjective(tiny_model(), tiny_config())
    with torch.no_grad():
        objective.model.source_embedding.weight[batch.source[0, 0]] = float("nan")
    return objective


def losses_of(objective: TrainingObjective, batches: list[Batch]) -> list[float]:
    with torch.no_grad():
        return [objective(batch, 0)[0].item() for batch in batches]


def sums_with(losses: list[float]) -> UpdateSums:
    return UpdateSums(7.0, sum(losses), [1.0], [7.0], losses)


def test_a_failure_names_the_pairs_of_the_bad_batch_alone() -> None:
    pairs = tiny_pairs(30)
    token = pairs.source(0)[0]
    without = [number for number in range(30) if token not in pairs.source(number)]
    cut = [without[:3], [0, without[4]]]
    good, bad = (make_batch(pairs, numbers) for numbers in cut)
    sums = sums_with(losses_of(poisoned_objective(bad), [good, bad]))
    assert not sums.is_finite
    assert bad_slots(sums, ALONE) == [1]
    expected = f"the loss is not a number in the batch of training pairs 1, {without[4] + 1} "
    assert described_failure(cut, [1], str) == expected + "(numbered as prepared; the first is '0')"


def test_a_failure_of_the_gradient_alone_names_all_batches_and_shortens_long_lists() -> None:
    assert bad_slots(sums_with([1.0, 2.0]), ALONE) == []
    described = described_failure([range(15), range(15, 30)], [], str)
    words = r"the gradient is not a number in the batch of training pairs 1, 2, .*, 20 and 10 more \("
    assert re.match(words, described)


@pytest.mark.parametrize(
    "bad", [{"loss": math.inf}, {"exit_loss": math.nan}, {"likelihoods": [1.0, -math.inf]}], ids=str
)
def test_sums_with_anything_that_is_not_a_number_are_not_finite(bad: dict[str, Any]) -> None:
    assert sums_with([1.0]).is_finite
    assert not replace(sums_with([1.0]), **bad).is_finite


def test_a_batch_that_the_oracle_cannot_choose_for_is_a_loss_that_is_not_a_number() -> None:
    pairs = tiny_pairs(30)
    token = pairs.source(0)[0]
    without = [number for number in range(30) if token not in pairs.source(number)]
    batches = [make_batch(pairs, numbers) for numbers in (without[:3], [0], without[3:5])]
    model = tiny_model(*HALTING)
    with torch.no_grad():
        model.source_embedding.weight[int(token)] = math.nan
    sums = accumulate_gradients(TrainingObjective(model, tiny_config(*HALTING)), batches, ALONE, seed=1, update=1)
    assert not sums.is_finite
    assert bad_slots(sums, ALONE) == [1]
