"""Policies: the plan of every sentence, the decisions on the way, and the words that are scored at
the end of it."""

import pytest
import reference
import torch
from tiny import BATCH, BLOCKS, DIM, TIME, random_exits, tiny_batch, tiny_model, tiny_pairs
from torch import Tensor
from walks import ONE_BLOCK, POLICIES, choices, model_for, walk

from anydepth.errors import UsageError
from anydepth.exits.flops import DecoderShape
from anydepth.exits.halting import GeometricHalting, MultinomialHalting, SequenceHalting
from anydepth.exits.parsing import parse_policy
from anydepth.exits.policies import (
    FixedExit,
    ForcedExits,
    MultinomialExit,
    Policy,
    SequenceExit,
    UniformExit,
)
from anydepth.model.source import EncodedSource
from anydepth.text.batches import make_batch, make_source
from anydepth.vocabulary.selection import CandidateWords

SENTENCES = [[5, 6, 7, 8, 9, 10], [11, 12], [13, 14, 15, 16]]


def plan(policy: Policy, sentences: list[list[int]] = SENTENCES, *, limit: int = 9, padding: int = 0) -> Tensor:
    source, mask = make_source(sentences)
    source, mask = torch.nn.functional.pad(source, (0, padding)), torch.nn.functional.pad(mask, (0, padding))
    return policy.plan(EncodedSource(source, mask, torch.zeros(*source.shape, DIM)), limit=limit)


def test_fixed_plans_its_block_for_every_token_and_keeps_to_it() -> None:
    policy = FixedExit(3, BLOCKS)
    assert plan(policy).tolist() == [[3] * 9] * 3
    planned = torch.full((5,), 3)
    for n in range(BLOCKS + 1):
        assert policy.decisions(CandidateWords(tiny_model())).revise(n, torch.zeros(5, DIM), planned).equal(planned)


def test_uniform_draws_every_exit_equally_often() -> None:
    counts = plan(UniformExit(1, BLOCKS), limit=4000).flatten().bincount()[1:]
    assert len(counts) == BLOCKS
    torch.testing.assert_close(counts / counts.sum(), torch.full((BLOCKS,), 0.25), atol=0.02, rtol=0)


def test_uniform_is_the_same_for_the_same_seed_and_differs_for_another_seed_or_sentence() -> None:
    first = plan(UniformExit(1, BLOCKS), limit=50)
    assert first.equal(plan(UniformExit(1, BLOCKS), limit=50))
    assert not first.equal(plan(UniformExit(2, BLOCKS), limit=50))
    assert len({tuple(row) for row in first.tolist()}) == len(SENTENCES)


def test_uniform_does_not_depend_on_neighbours_padding_or_the_length_of_the_plan() -> None:
    policy = UniformExit(7, BLOCKS)
    together = plan(policy)
    for sentence, row in zip(SENTENCES, together, strict=True):
        assert plan(policy, [sentence], limit=40, padding=5)[0, :9].equal(row)


def test_forced_exits_repeat_their_last_column_and_are_cut_at_the_limit() -> None:
    policy = ForcedExits(torch.tensor([[1, 2], [3, 4], [2, 1]]))
    assert plan(policy, limit=4).tolist() == [[1, 2, 2, 2], [3, 4, 4, 4], [2, 1, 1, 1]]
    assert plan(policy, limit=1).tolist() == [[1], [3], [2]]
    assert policy.blocks == 4


def test_forced_exits_for_another_number_of_sentences_are_refused() -> None:
    with pytest.raises(
        UsageError, match=r"forced exits for 2 sentences met a batch of 3; give one row for each sentence"
    ):
        plan(ForcedExits(torch.tensor([[1, 2], [3, 4]])))


@pytest.mark.parametrize("table", [torch.zeros(2, 0, dtype=torch.long), torch.tensor([[1, 0]])])
def test_forced_exits_below_one_or_missing_are_refused(table: Tensor) -> None:
    with pytest.raises(
        UsageError, match=r"forced exits are numbers from 1 on, at least one per sentence, but the table is \[\["
    ):
        ForcedExits(table)


def test_forced_exits_above_the_model_are_refused() -> None:
    with pytest.raises(UsageError, match=r"forced exits go up to 5, but the model has 4 blocks; lower them"):
        ForcedExits(torch.tensor([[1, 5]]), model_blocks=BLOCKS)


@pytest.mark.parametrize("units", [0, 5])
@torch.no_grad()
def test_forced_exits_ask_a_halting_module_below_the_last_block_and_ignore_it(
    units: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = model_for("geometric", f"exits.halting_units={units}"), tiny_batch()
    assert isinstance(model.halting, GeometricHalting)
    table = random_exits(BATCH, TIME, seed=4)
    asked, answer = [], model.halting.halt_logits
    monkeypatch.setattr(model.halting, "halt_logits", lambda hidden: asked.append(len(hidden)) or answer(hidden))
    plain, asking = ForcedExits(table), ForcedExits(table, model.halting, BLOCKS)
    exits, logits = walk(model, batch, asking)
    assert exits.equal(table)
    assert logits.equal(walk(model, batch, plain)[1])
    assert sum(asked) == int(table.clamp(max=BLOCKS - 1).sum())
    shape, times = DecoderShape(BLOCKS, DIM, 20, 16, 23), torch.arange(1, TIME + 1).expand(BATCH, TIME)
    cost = parse_policy("geometric:0.5", model).cost
    assert asking.cost(shape, table, times).equal(cost(shape, table, times))


def test_a_fixed_exit_outside_the_model_is_refused() -> None:
    with pytest.raises(UsageError, match=r"fixed:5: this model has exits 1 to 4"):
        FixedExit(5, BLOCKS)


def test_sequence_plans_the_most_probable_exit_of_each_sentence_for_all_its_tokens() -> None:
    model, batch = model_for("sequence"), tiny_batch()
    assert isinstance(model.halting, SequenceHalting)
    exits, _ = walk(model, batch, SequenceExit(model.halting, BLOCKS))
    expected = []
    for row in range(BATCH):
        memory = reference.encode(model, batch.source[row][batch.source_mask[row]].tolist())
        probabilities = reference.exit_probabilities(model.halting, [], memory).tolist()
        expected.append([1 + probabilities.index(max(probabilities))] * TIME)
    assert exits.tolist() == expected
    assert len({tuple(row) for row in exits.tolist()}) > 1


def test_multinomial_decides_after_block_1_and_keeps_to_it() -> None:
    found = set()
    for seed in (1, 2, 3):
        model, batch = model_for("multinomial", seed=seed), tiny_batch(seed=seed)
        assert isinstance(model.halting, MultinomialHalting)
        exits, _ = walk(model, batch, MultinomialExit(model.halting, BLOCKS))
        for row in range(BATCH):
            length = int(batch.target_mask[row].sum())
            left, inputs = exits[row, :length].tolist(), batch.target_inputs[row, :length].tolist()
            every = choices(model, batch.source[row][batch.source_mask[row]].tolist(), inputs, left)
            probabilities = [reference.exit_probabilities(model.halting, states, []).tolist() for states in every]
            assert left == [1 + own.index(max(own)) for own in probabilities]
            found |= set(left)
    assert found == set(range(1, BLOCKS + 1))


@pytest.mark.parametrize("text", [*POLICIES, "forced"])
@pytest.mark.parametrize("classifiers", ["untied", "shared", "tied"])
@torch.no_grad()
def test_words_are_scored_by_the_classifier_of_the_exit_taken(text: str, classifiers: str) -> None:
    for seed in (1, 2, 3):
        model, batch = model_for(text, f"model.classifiers={classifiers}", seed=seed), tiny_batch(seed=seed)
        policy = ForcedExits(random_exits(BATCH, TIME, seed=seed)) if text == "forced" else parse_policy(text, model)
        exits, logits = walk(model, batch, policy)
        states = model.decode(
            batch.target_inputs, model.encode(batch.source, batch.source_mask), batch.source_mask, exits=exits
        )
        hidden, left = states[-1].flatten(0, 1), exits.flatten()
        torch.testing.assert_close(logits.flatten(0, 1), model.exit_logits(hidden, left), atol=2e-5, rtol=1e-5)
        own = torch.stack([model.classifier(int(n)) @ h for h, n in zip(hidden, left, strict=True)])
        torch.testing.assert_close(logits.flatten(0, 1), own, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("text", [ONE_BLOCK.get(policy, policy).split(",")[0] for policy in POLICIES])
@torch.no_grad()
def test_a_model_of_one_block_has_one_exit_for_every_policy(text: str) -> None:
    model, batch = model_for(text, "model.blocks=1"), tiny_batch()
    policy = parse_policy(text, model)
    assert policy.blocks == 1
    exits, logits = walk(model, batch, policy)
    assert exits.equal(torch.ones(BATCH, TIME, dtype=torch.long))
    states = model.decode(batch.target_inputs, model.encode(batch.source, batch.source_mask), batch.source_mask)
    torch.testing.assert_close(logits, states[0] @ model.classifier(1).t(), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("text", POLICIES)
def test_exits_do_not_depend_on_neighbours_or_padding(text: str) -> None:
    model, batch = model_for(text), tiny_batch()
    policy = parse_policy(text, model)
    together, _ = walk(model, batch, policy)
    for row in range(BATCH):
        alone = make_batch(tiny_pairs(), [row])
        exits, _ = walk(model, alone, policy)
        assert exits.equal(together[[row], : alone.tokens])
