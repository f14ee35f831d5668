import json
import random
from itertools import islice, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anydepth.errors import CorpusError
from anydepth.text.batches import (
    Batch,
    BatchStream,
    Position,
    batch_plan,
    make_batch,
    make_source,
    ordered_batches,
    training_batches,
)
from anydepth.text.tokenizer import BOS, EOS, PAD
from anydepth.text.tokens import TokenPairs, TokenSide


def some_pairs(count: int) -> TokenPairs:
    """Pairs of random lengths whose source starts with the pair number + 10."""
    randomness = random.Random(7)
    sources = [[10 + number] * randomness.randint(1, 12) for number in range(count)]
    targets = [[10 + number] * randomness.randint(0, 15) for number in range(count)]
    return TokenPairs(TokenSide.from_sentences(sources), TokenSide.from_sentences(targets))


def some_stream(count: int = 137, seed: int = 1) -> BatchStream:
    return BatchStream(some_pairs(count), max_tokens=40, seed=seed, pool_pairs=32, run_pairs=8)


def one_epoch(stream: BatchStream, epoch: int) -> list[list[int]]:
    batches = []
    for indices, following in stream.from_position(Position(epoch)):
        batches.append(indices.tolist())
        if following.epoch > epoch:
            return batches
    raise AssertionError


def cost(pairs: TokenPairs, batch: list[int]) -> int:
    return len(batch) * max(max(len(pairs.source(number)), len(pairs.target(number))) + 1 for number in batch)


def test_a_batch_is_padded_and_shifted_as_by_hand() -> None:
    pairs = TokenPairs(TokenSide.from_sentences([[5, 6, 7], [], [8]]), TokenSide.from_sentences([[9], [9, 9], []]))
    batch = make_batch(pairs, [2, 0])
    assert batch.source.tolist() == [[8, EOS, PAD, PAD], [5, 6, 7, EOS]]
    assert batch.source_mask.tolist() == [[True, True, False, False], [True, True, True, True]]
    assert batch.target_inputs.tolist() == [[BOS, PAD], [BOS, 9]]
    assert batch.targets.tolist() == [[EOS, PAD], [9, EOS]]
    assert batch.target_mask.tolist() == [[True, False], [True, True]]
    assert batch.indices == [2, 0]
    assert batch.tokens == 3


def test_a_batch_moved_to_a_device_is_wholly_there() -> None:
    moved = make_batch(some_pairs(3), range(3)).to(torch.device("meta"))
    tensors = (moved.source, moved.source_mask, moved.target_inputs, moved.targets, moved.target_mask)
    assert all(tensor.device.type == "meta" for tensor in tensors)
    assert moved.indices == [0, 1, 2]


def test_a_source_for_translating_equals_that_of_a_batch() -> None:
    pairs = some_pairs(5)
    batch = make_batch(pairs, range(5))
    source, mask = make_source([pairs.source(number).tolist() for number in range(5)])
    assert torch.equal(source, batch.source) and torch.equal(mask, batch.source_mask)
    assert source.dtype == torch.int64 and mask.dtype == torch.bool


def test_an_empty_source_is_one_end_mark_and_no_sources_are_an_empty_tensor() -> None:
    assert make_source([[]])[0].tolist() == [[EOS]]
    assert make_source([])[0].shape == (0, 0)


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 120))
def test_a_plan_holds_each_index_once_and_keeps_the_budget(lengths: list[int], max_tokens: int) -> None:
    indices = np.arange(len(lengths)) * 3
    length_of = dict(zip(indices.tolist(), lengths, strict=True))
    plan = [batch.tolist() for batch in batch_plan(np.array(lengths, int), indices, max_tokens=max_tokens)]
    assert sorted(index for batch in plan for index in batch) == indices.tolist()
    for batch in plan:
        assert len(batch) == 1 or len(batch) * max(length_of[index] for index in batch) <= max_tokens


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.integers(1, 120))
def test_no_batch_of_a_plan_has_room_for_the_next_row(lengths: list[int], max_tokens: int) -> None:
    plan = batch_plan(np.array(lengths), np.arange(len(lengths)), max_tokens=max_tokens)
    for batch, following in pairwise(plan):
        assert (len(batch) + 1) * lengths[following[0]] > max_tokens


def test_a_row_longer_than_the_budget_is_a_batch_of_its_own() -> None:
    plan = batch_plan(np.array([90, 3, 80, 3]), np.array([0, 1, 2, 3]), max_tokens=10)
    assert [batch.tolist() for batch in plan] == [[1, 3], [2], [0]]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 90), st.integers(1, 40), st.integers(1, 12), st.integers(0, 3), st.integers(0, 2))
def test_every_pair_comes_once_an_epoch_within_the_budget(
    count: int, pool: int, run: int, seed: int, epoch: int
) -> None:
    pairs = some_pairs(count)
    batches = one_epoch(BatchStream(pairs, max_tokens=40, seed=seed, pool_pairs=pool, run_pairs=run), epoch)
    assert sorted(number for batch in batches for number in batch) == list(range(count))
    assert all(len(batch) == 1 or cost(pairs, batch) <= 40 for batch in batches)


def test_the_same_seed_gives_the_same_stream_and_another_seed_another() -> None:
    first, again, other = (one_epoch(some_stream(seed=seed), 0) for seed in (1, 1, 2))
    assert first == again != other


def test_epochs_have_different_orders_and_different_batches() -> None:
    stream = some_stream()
    first, second = ({frozenset(batch) for batch in one_epoch(stream, epoch)} for epoch in (0, 1))
    assert len(first & second) < len(first) / 2


def test_the_order_of_runs_is_not_the_order_inside_the_first_pool() -> None:
    stream = BatchStream(some_pairs(64), max_tokens=40, seed=1, pool_pairs=64, run_pairs=1)
    assert stream._randomness(0, 0).permutation(64).tolist() != stream._randomness(0, 1).permutation(64).tolist()


def test_a_corpus_of_one_pool_is_shuffled_as_a_whole() -> None:
    pairs = TokenPairs(TokenSide.from_sentences([[4]] * 500), TokenSide.from_sentences([[4]] * 500))
    first_batch, _ = next(BatchStream(pairs, max_tokens=100, seed=1).from_position(Position()))
    assert len(first_batch) == 50
    assert first_batch.min() < 100 and first_batch.max() >= 400
    assert np.mean(np.diff(np.sort(first_batch)) == 1) < 0.5


def test_every_pool_has_of_each_part_of_the_corpus_what_the_whole_has() -> None:
    stream = BatchStream(some_pairs(2000), max_tokens=40, seed=1, pool_pairs=400, run_pairs=4)
    parts: dict[int, np.ndarray] = {}
    before = Position()
    for batch, after in stream.from_position(before):
        parts[before.pool] = parts.get(before.pool, 0) + np.bincount(batch // 500, minlength=4)
        if after.epoch:
            break
        before = after
    assert len(parts) == 5
    assert all(abs(counts - 100).max() <= 4 for counts in parts.values())  # to a run


def test_batches_are_not_in_the_order_of_their_lengths() -> None:
    stream = some_stream(count=32)
    longest = [
        max(int(stream.pairs.lengths(number, number + 1)[0][0]) for number in batch) for batch in one_epoch(stream, 0)
    ]
    assert longest != sorted(longest)


def test_the_stream_taken_up_at_any_position_is_the_rest_of_it() -> None:
    whole = list(islice(some_stream().from_position(Position()), 110))
    assert whole[-1][1].epoch >= 2
    for done in range(1, 110):
        position = Position.from_json(json.loads(json.dumps(whole[done - 1][1].to_json())))
        rest = list(islice(some_stream().from_position(position), len(whole) - done))
        assert [(indices.tolist(), after) for indices, after in rest] == [
            (indices.tolist(), after) for indices, after in whole[done:]
        ]


class RecordedPairs(TokenPairs):
    """Pairs that remember which spans were asked for; tokens cannot be read."""

    def __init__(self, pairs: TokenPairs) -> None:
        super().__init__(pairs.source_side, pairs.target_side)
        self.spans: list[tuple[int, int]] = []

    def lengths(self, start: int, stop: int):
        self.spans.append((start, stop))
        return super().lengths(start, stop)


def test_the_first_batch_needs_the_lengths_of_one_pool_alone() -> None:
    pairs = RecordedPairs(some_pairs(137))
    next(BatchStream(pairs, max_tokens=40, seed=1, pool_pairs=32, run_pairs=8).from_position(Position()))
    assert sum(stop - start for start, stop in pairs.spans) <= 32
    assert all(stop - start <= 8 for start, stop in pairs.spans)


@pytest.mark.parametrize("world, accumulation", [(1, 1), (2, 1), (3, 2), (2, 3)])
def test_ranks_share_out_the_stream_without_overlap_or_gap(world: int, accumulation: int) -> None:
    updates = 7
    plain = [
        indices.tolist()
        for indices, _ in islice(some_stream().from_position(Position()), updates * world * accumulation)
    ]
    ranks = [
        list(
            islice(
                training_batches(some_stream(), Position(), rank=rank, world=world, accumulation=accumulation), updates
            )
        )
        for rank in range(world)
    ]
    seen = [
        ranks[slot % world][update][0][slot // world].indices
        for update in range(updates)
        for slot in range(world * accumulation)
    ]
    assert seen == plain
    assert all([after for _, after in rank] == [after for _, after in ranks[0]] for rank in ranks)


def test_one_process_that_accumulates_two_sees_what_two_processes_see() -> None:
    alone = islice(training_batches(some_stream(), Position(), rank=0, world=1, accumulation=2), 9)
    two = [training_batches(some_stream(), Position(), rank=rank, world=2, accumulation=1) for rank in (0, 1)]
    for (batches, after), ((first,), after_first), ((second,), after_second) in zip(alone, *two, strict=False):
        assert [batch.indices for batch in batches] == [first.indices, second.indices]
        assert torch.equal(batches[1].source, second.source)
        assert after == after_first == after_second


def test_training_taken_up_after_an_update_makes_the_same_next_update() -> None:
    updates = list(islice(training_batches(some_stream(), Position(), rank=1, world=2, accumulation=2), 12))
    for number in range(11):
        batches, after = next(training_batches(some_stream(), updates[number][1], rank=1, world=2, accumulation=2))
        assert [batch.indices for batch in batches] == [batch.indices for batch in updates[number + 1][0]]
        assert after == updates[number + 1][1]


def test_ordered_batches_hold_every_pair_once_short_ones_first() -> None:
    pairs = some_pairs(57)
    batches: list[Batch] = list(ordered_batches(pairs, max_tokens=40))
    numbers = [number for batch in batches for number in batch.indices]
    longest = [max(len(pairs.source(number)), len(pairs.target(number))) for number in numbers]
    assert sorted(numbers) == list(range(57))
    assert longest == sorted(longest)
    assert numbers == [number for batch in ordered_batches(pairs, max_tokens=40) for number in batch.indices]
    assert sum(batch.tokens for batch in batches) == len(pairs.target_side.tokens) + 57


def test_an_empty_corpus_cannot_be_streamed() -> None:
    with pytest.raises(CorpusError, match=r"there are 0 pairs to train on; prepare data with at least one pair"):
        some_stream(count=0)


def test_a_budget_without_room_is_refused() -> None:
    with pytest.raises(CorpusError, match=r"max_tokens = 0 leaves no room in a batch; set it to 1 or more, as in 4096"):
        BatchStream(some_pairs(3), max_tokens=0, seed=1)


@pytest.mark.parametrize("position", [Position(2, 0, 99), Position(0, 99, 0)])
def test_a_position_beyond_its_pool_is_refused(position: Position) -> None:
    with pytest.raises(
        CorpusError, match=r"the stream has no Position\(.*\): pool \d+ of epoch \d has \d+ batches; continue with"
    ):
        next(some_stream().from_position(position))


def test_a_cut_batch_keeps_the_beginning_of_both_sides() -> None:
    batch = make_batch(some_pairs(20), [3, 8])
    cut = batch.cut(2)
    assert cut.indices == batch.indices
    for name in ("source", "source_mask", "target_inputs", "targets", "target_mask"):
        assert getattr(cut, name).equal(getattr(batch, name)[:, :2])
