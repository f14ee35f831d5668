"""Policies: the plan of every sentence, and the names that users type."""

import pytest
import torch
from torch import Tensor

from anydepth.errors import UsageError
from anydepth.exits.policies import FixedExit, ForcedExits, Policy, UniformExit, parse_policy
from anydepth.text.batches import make_source

BLOCKS, DIM = 4, 12
SENTENCES = [[5, 6, 7, 8, 9, 10], [11, 12], [13, 14, 15, 16]]
EXITS = range(1, BLOCKS + 1)


def plan(policy: Policy, sentences: list[list[int]] = SENTENCES, *, limit: int = 9, padding: int = 0) -> Tensor:
    source, mask = make_source(sentences)
    source, mask = torch.nn.functional.pad(source, (0, padding)), torch.nn.functional.pad(mask, (0, padding))
    return policy.plan(source, mask, torch.zeros(*source.shape, DIM), limit=limit)


def test_fixed_plans_its_block_for_every_token_and_keeps_to_it() -> None:
    policy = FixedExit(3, BLOCKS)
    assert plan(policy).tolist() == [[3] * 9] * 3
    planned = torch.full((5,), 3)
    assert policy.revise(1, torch.zeros(5, DIM), planned).equal(planned)


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
    with pytest.raises(UsageError, match=r"forced exits for 2 sentences met a batch of 3; give one row for each sentence"):
        plan(ForcedExits(torch.tensor([[1, 2], [3, 4]])))


@pytest.mark.parametrize("table", [torch.zeros(2, 0, dtype=torch.long), torch.tensor([[1, 0]])])
def test_forced_exits_below_one_or_missing_are_refused(table: Tensor) -> None:
    with pytest.raises(UsageError, match=r"forced exits are numbers from 1 on, at least one a sentence, but the table is \[\["):
        ForcedExits(table)


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("fixed:3", FixedExit(3, BLOCKS)),
        ("uniform", UniformExit(1, BLOCKS)),
        ("uniform:7", UniformExit(7, BLOCKS)),
        ("uniform:seed=7", UniformExit(7, BLOCKS)),
    ],
)
def test_a_policy_is_parsed_from_its_text_and_from_its_own_name(text: str, policy: Policy) -> None:
    assert parse_policy(text, exits=EXITS, blocks=BLOCKS) == policy
    assert parse_policy(policy.name, exits=EXITS, blocks=BLOCKS) == policy


def test_a_baseline_allows_its_last_exit() -> None:
    assert parse_policy("fixed:4", exits=[4], blocks=4) == FixedExit(4, 4)


@pytest.mark.parametrize(
    ("text", "exits", "message"),
    [
        ("unifrom:3", EXITS, r"there is no policy 'unifrom:3'; did you mean uniform\? known: fixed:N, uniform\[:SEED\]"),
        ("zzz", EXITS, r"there is no policy 'zzz'; known: fixed:N, uniform\[:SEED\]"),
        ("", EXITS, r"there is no policy ''; known: fixed:N"),
        ("fixed:9", EXITS, r"fixed:9: this model has exits 1 to 4"),
        ("fixed:0", EXITS, r"fixed:0: this model has exits 1 to 4"),
        ("fixed:-1", EXITS, r"fixed:-1: this model has exits 1 to 4"),
        ("fixed:2", [4], r"fixed:2: this model has exit 4 only"),
        ("fixed:two", EXITS, r"fixed:two: a fixed exit is a block number, as in fixed:4"),
        ("fixed", EXITS, r"fixed: a fixed exit is a block number, as in fixed:4"),
        ("uniform:x", EXITS, r"uniform:x: the seed is a whole number from 0 on, as in uniform:1"),
        ("uniform", [4], r"uniform: drawing exits needs one after every block, but this model has exit 4 only; use fixed:4"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(text: str, exits: list[int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_policy(text, exits=exits, blocks=BLOCKS)


def test_a_fixed_exit_outside_the_model_is_refused() -> None:
    with pytest.raises(UsageError, match=r"fixed:5: this model has exits 1 to 4"):
        FixedExit(5, BLOCKS)
