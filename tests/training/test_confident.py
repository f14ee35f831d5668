"""Confident training: tokens leave as they will while translating, against a recursion over
positions."""

from collections.abc import Sequence

import pytest
import reference
import torch
from tiny import BATCH, BLOCKS, tiny_batch, tiny_config, tiny_model
from torch import Tensor
from walks import walk

from anydepth.exits.parsing import parse_policy
from anydepth.text.batches import Batch
from anydepth.training.objective import TrainingObjective, drawn_thresholds

CONFIDENT = ("training.mode=confident", "training.lowest_confidence=0")


def new_objective(*changes: str) -> TrainingObjective:
    settings = (*CONFIDENT, *changes)
    return TrainingObjective(tiny_model(*settings), tiny_config(*settings))


def sentences(batch: Batch) -> list[tuple[list[int], list[int], list[int]]]:
    """The source, target inputs and targets of each sentence, without padding."""
    return [
        (source[known].tolist(), inputs[real].tolist(), targets[real].tolist())
        for source, known, inputs, targets, real in zip(
            batch.source, batch.source_mask, batch.target_inputs, batch.targets, batch.target_mask, strict=True
        )
    ]


def confident_path(
    objective: TrainingObjective, source: Sequence[int], inputs: Sequence[int], threshold: float
) -> tuple[list[list[Tensor]], list[int]]:
    """The states as [n][t] and the exits of one sentence: each position decides when those before it
    have left."""
    model = objective.model
    memory = reference.encode(model, source)
    exits: list[int] = []
    for t in range(len(inputs)):
        states = reference.decode(model, inputs[: t + 1], memory, [*exits, BLOCKS])
        here = [states[n][t] for n in range(BLOCKS + 1)]
        exits.append(reference.threshold_exit(model, here, reference.confidence, [threshold] * (BLOCKS - 1)))
    return reference.decode(model, inputs, memory, exits), exits


@pytest.mark.parametrize("changes", [(), ("model.classifiers=tied",), ("training.exit_weights=[1, 4, 2, 0.5]",)])
def test_the_confident_loss_equals_a_recursion_over_positions(changes: tuple[str, ...]) -> None:
    objective, batch = new_objective(*changes), tiny_batch()
    loss, likelihoods, rows, *_ = objective(batch, 11)
    thresholds = drawn_thresholds(BATCH, 0.0, 11).tolist()
    losses, left = [], []
    for (source, inputs, targets), threshold in zip(sentences(batch), thresholds, strict=True):
        states, exits = confident_path(objective, source, inputs, threshold)
        for t, (target, own) in enumerate(zip(targets, exits, strict=True)):
            reached = [
                reference.token_loss(objective.model.classifier(n), states[n][t], target, 0.1)
                for n in range(1, own + 1)
            ]
            by_weight = sum(weight * each for weight, each in zip(objective.weights, reached, strict=False))
            losses.append(0.5 * reached[-1] + 0.5 * by_weight)
        left += exits
    expected = torch.stack(losses).sum()
    torch.testing.assert_close(loss, expected, atol=1e-4, rtol=1e-5)
    parameters = list(objective.parameters())
    found, wanted = (
        torch.autograd.grad(each, parameters, allow_unused=True, materialize_grads=True) for each in (loss, expected)
    )
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-3)
    assert rows.tolist() == [sum(exit_ >= n for exit_ in left) for n in range(1, BLOCKS + 1)]
    assert len(likelihoods) == BLOCKS
    assert len(set(left)) > 1, "else all tokens leave together, which aligned training has, too"


def test_tokens_leave_where_the_confidence_policy_stops_while_translating() -> None:
    objective, batch = new_objective(), tiny_batch()
    model = objective.model
    memory = model.encode(batch.source, batch.source_mask)
    threshold = 0.3
    policy = parse_policy(f"confidence:{threshold}", model)
    stepped, _ = walk(model, batch, policy)

    def leaves(n: int, states: Tensor, running: Tensor) -> Tensor:
        return objective.top_probabilities(n, states.flatten(0, 1)).view_as(running) > threshold

    exits = model.decode_deciding(batch.target_inputs, memory, batch.source_mask, leaves)[1]
    assert exits[batch.target_mask].equal(stepped[batch.target_mask])
    assert len(exits[batch.target_mask].unique()) > 1, "else this shows little"


def test_tokens_that_nobody_is_sure_of_have_half_of_the_aligned_loss_and_half_of_the_last_exit() -> None:
    batch = tiny_batch()
    confident = new_objective("training.lowest_confidence=0.9999")
    aligned = TrainingObjective(confident.model, tiny_config())
    last = TrainingObjective(confident.model, tiny_config("training.exit_weights=[1e-9, 1e-9, 1e-9, 1]"))
    expected = 0.5 * aligned(batch, 3)[0] + 0.5 * last(batch, 3)[0]
    torch.testing.assert_close(confident(batch, 3)[0], expected)


def test_thresholds_lie_between_the_lowest_and_1_and_belong_to_the_seed() -> None:
    drawn = drawn_thresholds(2000, 0.6, 5)
    assert drawn.equal(drawn_thresholds(2000, 0.6, 5))
    assert not drawn.equal(drawn_thresholds(2000, 0.6, 6))
    assert 0.6 <= drawn.min() < 0.61
    assert 0.99 < drawn.max() <= 1
    assert drawn.mean() == pytest.approx(0.8, abs=0.01)
