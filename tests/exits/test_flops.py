"""FLOPs of the formulas, against a walk through Algorithm 2 and against numbers worked out by
hand."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest
import torch
from tiny import BLOCKS, DIM, ENCODER_DIM, FFN_DIM, SOURCE, TARGET_VOCAB, tiny_config

from anydepth.errors import UsageError
from anydepth.exits.flops import (
    DecisionCost,
    DecoderShape,
    block_flops,
    confidence_decision,
    first_call_flops,
    geometric_decision,
    multinomial_decision,
    no_decision,
    sentence_flops,
    sequence_decision,
    shortlist_decision,
    similarity_decision,
    skipped_block_flops,
    token_flops,
    units_decision,
)

WORDS = 5
UNITS = 6
SHAPE = DecoderShape(blocks=BLOCKS, dim=DIM, ffn_dim=FFN_DIM, encoder_dim=ENCODER_DIM, vocab=TARGET_VOCAB)
ONE_BLOCK = DecoderShape(blocks=1, dim=DIM, ffn_dim=FFN_DIM, encoder_dim=ENCODER_DIM, vocab=TARGET_VOCAB)
TWO_BLOCKS = DecoderShape(blocks=2, dim=DIM, ffn_dim=FFN_DIM, encoder_dim=ENCODER_DIM, vocab=TARGET_VOCAB)
SHARED = replace(SHAPE, key_blocks=2)
SMALL = DecoderShape(blocks=3, dim=2, ffn_dim=5, encoder_dim=7, vocab=11)
DECISIONS: dict[str, DecisionCost] = {
    "none": no_decision,
    "sequence": sequence_decision,
    "multinomial": multinomial_decision,
    "geometric": geometric_decision,
    "confidence": confidence_decision,
    "similarity": similarity_decision,
    "shortlist": shortlist_decision(WORDS),
    "units": units_decision(UNITS),
}


def linear(inputs: int, outputs: int) -> int:
    return 2 * inputs * outputs


def decision_after_block(name: str, shape: DecoderShape, n: int, deciding: Sequence[int] | None = None) -> int:
    """What a mechanism computes when a token has come out of block n; where only some blocks are
    `deciding`, what those compute."""
    if deciding is not None and n not in deciding:
        return 0
    first = 1 if deciding is None else deciding[0]
    costs: dict[str, Callable[[], int]] = {
        "none": lambda: 0,
        "sequence": lambda: 0,
        "multinomial": lambda: linear(shape.dim, shape.blocks) if n == 1 else 0,
        "geometric": lambda: linear(shape.dim, 1),
        "confidence": lambda: linear(shape.dim, shape.vocab),
        "units": lambda: linear(shape.dim, UNITS) + linear(UNITS, 1) if n < shape.blocks else 0,
        "similarity": lambda: 3 * linear(shape.dim, 1),
        "shortlist": lambda: (
            linear(shape.dim, shape.vocab) if n == first else linear(shape.dim, WORDS) if n < shape.blocks else 0
        ),
    }
    return costs[name]()


def has_scored_all_words(name: str, left: int, deciding: Sequence[int] | None) -> bool:
    """Whether the scores of all words at the exit are known from the decision taken there."""
    if deciding is None:
        return name == "confidence" or (name == "shortlist" and left == 1)
    return (name == "confidence" and left in deciding) or (name == "shortlist" and left in deciding[:1])


def walk(
    shape: DecoderShape, exits: list[int], source_length: int, name: str, deciding: Sequence[int] | None = None
) -> int:
    """The FLOPs along Algorithm 2, line after line."""
    dim = shape.dim
    flops = 0
    first_call = dict.fromkeys(range(1, shape.blocks + 1), True)
    for t, left in enumerate(exits, 1):
        if name == "sequence" and t == 1:
            flops += linear(dim, shape.blocks)
        for n in range(1, shape.blocks + 1):
            if n <= shape.last_key_block:
                flops += linear(dim, dim) + linear(dim, dim)  # key and value
            flops += linear(dim, dim)  # query
            for _ in range(t):
                flops += linear(dim, 1) + linear(1, dim)  # score a past position, add its value
            flops += linear(dim, dim)  # attention output
            if first_call[n] and n <= shape.last_key_block:
                for _ in range(source_length):
                    flops += linear(shape.encoder_dim, dim) + linear(shape.encoder_dim, dim)
                first_call[n] = False
            flops += linear(dim, dim)  # query
            for _ in range(source_length):
                flops += linear(dim, 1) + linear(1, dim)
            flops += linear(dim, dim)  # attention output
            flops += linear(dim, shape.ffn_dim) + linear(shape.ffn_dim, dim)
            flops += decision_after_block(name, shape, n, deciding)
            if n == left:
                break
        for _ in range(left + 1, shape.last_key_block + 1):
            flops += linear(dim, dim) + linear(dim, dim)  # key and value of the copied state
        if not has_scored_all_words(name, left, deciding):
            flops += linear(dim, shape.vocab)
    return flops


def exit_sequences(shape: DecoderShape) -> list[list[int]]:
    """One token and many, the first exit, the last one and random ones."""
    randomness = random.Random(shape.blocks)
    drawn = [[randomness.randint(1, shape.blocks) for _ in range(length)] for length in (1, 2, 6, 9)]
    return [[1], [shape.blocks], [1] * 6, [shape.blocks] * 6, *drawn]


@pytest.mark.parametrize("name", DECISIONS)
@pytest.mark.parametrize("shape", [SHAPE, ONE_BLOCK, TWO_BLOCKS, SMALL, SHARED], ids=["4", "1", "2", "3", "shared"])
def test_a_sentence_costs_what_a_walk_through_algorithm_2_adds_up(shape: DecoderShape, name: str) -> None:
    for exits in exit_sequences(shape):
        assert sentence_flops(shape, exits, SOURCE, DECISIONS[name]) == walk(shape, exits, SOURCE, name)


@pytest.mark.parametrize("name", ["geometric", "confidence", "similarity", "shortlist", "units"])
@pytest.mark.parametrize("deciding", [(), (1,), (2,), (3,), (1, 3), (2, 3)], ids=str)
def test_where_some_blocks_decide_a_walk_adds_up_their_decisions_alone(name: str, deciding: tuple[int, ...]) -> None:
    for exits in exit_sequences(SHAPE):
        cost = partial(DECISIONS[name], deciding=deciding)
        assert sentence_flops(SHAPE, exits, SOURCE, cost) == walk(SHAPE, exits, SOURCE, name, deciding)


@pytest.mark.parametrize("decision", DECISIONS.values(), ids=DECISIONS)
def test_an_empty_output_costs_nothing(decision: DecisionCost) -> None:
    assert sentence_flops(SHAPE, [], SOURCE, decision) == 0


def test_blocks_of_a_small_shape_by_hand() -> None:
    assert block_flops(SMALL, t=1, source_length=3, is_first_call=False) == 12 * 4 + 4 * 10 + 4 * 2 + 4 * 6 == 120
    assert block_flops(SMALL, t=2, source_length=3, is_first_call=False) == 128
    assert block_flops(SMALL, t=1, source_length=3, is_first_call=True) == 120 + 4 * 3 * 2 * 7 == 288
    assert skipped_block_flops(SMALL) == 16


def test_two_tokens_of_a_small_shape_by_hand() -> None:
    first, second = 120 + 2 * 16, 3 * 128
    calls, word = 3 * 168, 2 * 11 * 2
    without = first + second + calls
    by_hand = {
        "none": without + 2 * word,
        "sequence": without + 2 * word + 12,
        "multinomial": without + 2 * word + 2 * 12,
        "geometric": without + 2 * word + (1 + 3) * 4,
        "confidence": without + (1 + 3) * word,
        "similarity": without + 2 * word + (1 + 3) * 12,
        "shortlist": without + word + (word + 20 + word),
        "units": without + 2 * word + (1 + 2) * (2 * 2 * 6 + 2 * 6),
    }
    assert {name: sentence_flops(SMALL, [1, 3], 3, decision) for name, decision in DECISIONS.items()} == by_hand


def test_a_shortlist_decides_after_every_block_but_the_last() -> None:
    exits = torch.arange(1, BLOCKS + 1)
    word, few = 2 * TARGET_VOCAB * DIM, 2 * WORDS * DIM
    costs = shortlist_decision(WORDS)(SHAPE, exits, torch.ones_like(exits))
    assert costs.tolist() == [word, 2 * word + few, 2 * word + 2 * few, 2 * word + 2 * few]


def test_a_shortlist_is_no_longer_than_the_vocabulary() -> None:
    exits = torch.arange(1, BLOCKS + 1)
    times = torch.ones_like(exits)
    assert shortlist_decision(1000)(SHAPE, exits, times).equal(shortlist_decision(TARGET_VOCAB)(SHAPE, exits, times))


def test_a_block_that_no_token_reaches_has_no_first_call() -> None:
    one_call = 4 * SOURCE * DIM * ENCODER_DIM
    highest = torch.tensor([0, 1, BLOCKS])
    assert first_call_flops(SHAPE, highest, torch.tensor(SOURCE)).tolist() == [0, one_call, BLOCKS * one_call]
    one_by_one = [block_flops(SHAPE, t=1, source_length=SOURCE, is_first_call=is_first) for is_first in (True, False)]
    assert one_by_one[0] - one_by_one[1] == one_call


@pytest.mark.parametrize("name", DECISIONS)
@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
def test_many_sentences_at_once_cost_what_each_costs_alone(name: str, dtype: torch.dtype) -> None:
    exits = torch.randint(1, BLOCKS + 1, (2, 3, 6), generator=torch.Generator().manual_seed(1)).to(dtype)
    lengths = torch.tensor([SOURCE, 2, 5], dtype=dtype)
    tokens = token_flops(SHAPE, exits, torch.arange(1, 7, dtype=dtype), lengths[:, None], DECISIONS[name])
    calls = first_call_flops(SHAPE, exits.amax(dim=2), lengths)
    alone = [
        [sentence_flops(SHAPE, row.tolist(), int(x), DECISIONS[name]) for row, x in zip(rows, lengths, strict=True)]
        for rows in exits
    ]
    assert tokens.dtype == calls.dtype == torch.int64
    assert (tokens.sum(dim=2) + calls).tolist() == alone


@pytest.mark.parametrize("name", DECISIONS)
def test_places_may_stand_in_any_order_and_shape(name: str) -> None:
    exits, times, lengths = (
        torch.tensor([3, 1, 4, 2, 2, 1]),
        torch.tensor([5, 1, 1, 9, 2, 7]),
        torch.tensor([7, 7, 2, 1, 3, 3]),
    )
    flat = token_flops(SHAPE, exits, times, lengths, DECISIONS[name])
    assert token_flops(SHAPE, exits.view(2, 3), times.view(2, 3), lengths.view(2, 3), DECISIONS[name]).equal(
        flat.view(2, 3)
    )
    assert [
        int(token_flops(SHAPE, *place, DECISIONS[name])) for place in zip(exits, times, lengths, strict=True)
    ] == flat.tolist()


def test_no_sentences_have_no_tokens_to_pay_for() -> None:
    nothing = torch.zeros(0, dtype=torch.long)
    assert token_flops(SHAPE, nothing, nothing, nothing, no_decision).shape == (0,)


def test_the_shape_is_read_from_the_configuration() -> None:
    assert DecoderShape.of(tiny_config().model, TARGET_VOCAB) == replace(SHAPE, key_blocks=BLOCKS)
    assert DecoderShape.of(tiny_config("model.attended_states=shared").model, TARGET_VOCAB) == SHARED


@pytest.mark.parametrize("exits", [[0], [BLOCKS + 1]])
def test_exits_of_another_model_are_noticed(exits: list[int]) -> None:
    with pytest.raises(AssertionError, match=r"exits lie in 1\.\.4"):
        sentence_flops(SHAPE, exits, SOURCE, no_decision)


def test_a_shortlist_without_words_is_refused() -> None:
    with pytest.raises(UsageError, match=r"a shortlist of 0 words holds no word; make it 1 or longer"):
        shortlist_decision(0)


def test_a_decision_without_units_is_refused() -> None:
    with pytest.raises(UsageError, match=r"a decision by 0 units sees nothing; make it 1 or more"):
        units_decision(0)
