"""One position after the other with a cache, against all positions at once and against slow
loops."""

import random

import pytest
import reference
import torch
from tiny import BATCH, BLOCKS, DIM, FIRST_WORD, HEADS, SOURCE, TARGET_VOCAB, TIME, random_exits, tiny_batch, tiny_model
from torch import Tensor
from variations import APART, MARIAN

from anydepth.model.cache import FIRST_CAPACITY, DecoderCache
from anydepth.model.transformer import Transformer
from anydepth.text.batches import Batch

KINDS = {
    "untied": (["model.classifiers=untied"], False),
    "shared": (["model.classifiers=shared"], False),
    "tied": (["model.classifiers=tied"], False),
    "tied and joint": (["model.classifiers=tied", f"model.encoder.dim={DIM}"], True),
    "as MarianMT": (["model.classifiers=tied", f"model.encoder.dim={DIM}", *MARIAN], True),
    "all varied": (["model.activation=gelu", "model.scale_embeddings=false", *MARIAN[1:]], False),
    **{f"{attended} as such": ([attended], False) for attended in APART},
    **{f"{attended} as MarianMT": ([attended, *MARIAN], False) for attended in APART},
}


def keep_plan(n: int, hidden: Tensor, planned: Tensor) -> Tensor:
    return planned


def new_cache(model: Transformer, batch: Batch) -> DecoderCache:
    return DecoderCache.start(model.encode(batch.source, batch.source_mask), batch.source_mask)


def stepped(model: Transformer, batch: Batch, exits: Tensor) -> Tensor:
    cache = new_cache(model, batch)
    states = []
    for t in range(exits.shape[1]):
        hidden, left = model.step(batch.target_inputs[:, t], cache, exits[:, t], keep_plan)
        assert left.equal(exits[:, t])
        states.append(hidden)
    return torch.stack(states, dim=1)


def forced(model: Transformer, batch: Batch, exits: Tensor | None) -> Tensor:
    memory = model.encode(batch.source, batch.source_mask)
    return model.decode(batch.target_inputs, memory, batch.source_mask, exits=exits)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, 2, 3])
@torch.no_grad()
def test_stepping_equals_teacher_forcing_for_any_exit_sequence(kind: str, seed: int) -> None:
    changes, is_joint = KINDS[kind]
    model, batch, exits = (
        tiny_model(*changes, seed=seed, is_joint=is_joint),
        tiny_batch(seed=seed),
        random_exits(BATCH, TIME, seed=seed),
    )
    assert not batch.source_mask.all()
    states = stepped(model, batch, exits)
    torch.testing.assert_close(states, forced(model, batch, exits)[-1], atol=2e-6, rtol=1e-5)
    logits = model.exit_logits(states.flatten(0, 1), exits.flatten())
    bias = 0 if model.output_bias is None else model.output_bias
    expected = [
        model.classifier(int(n)) @ h + bias
        for h, n in zip(forced(model, batch, exits)[-1].flatten(0, 1), exits.flatten(), strict=True)
    ]
    torch.testing.assert_close(logits, torch.stack(expected), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("seed", [1, 2, 3])
@torch.no_grad()
def test_the_exits_of_earlier_tokens_change_nothing_where_block_1_is_attended_to(seed: int) -> None:
    batch, exits = tiny_batch(seed=seed), random_exits(BATCH, TIME, seed=seed)
    for changes, is_same in (*(((attended,), True) for attended in APART), ((), False)):
        model = tiny_model(*changes, seed=seed)
        every = forced(model, batch, None)  # (block, batch, time, dim)
        own = every.gather(0, (exits - 1)[None, :, :, None].expand(1, -1, -1, DIM))[0]
        mixed = forced(model, batch, exits)[-1]
        assert torch.allclose(mixed, own, atol=1e-6) == is_same
        assert torch.allclose(stepped(model, batch, exits), own, atol=2e-6) == is_same


@torch.no_grad()
def test_shared_keys_and_values_are_those_of_block_2_whatever_the_upper_blocks_had() -> None:
    shared, own, batch = tiny_model(APART[1]), tiny_model(APART[0]), tiny_batch()
    names = {name for name, _ in own.named_parameters()} - {name for name, _ in shared.named_parameters()}
    assert names == {
        f"decoder.{n}.{side}_attention.{part}.{kind}"
        for n in range(2, BLOCKS)
        for side in ("self", "source")
        for part in ("key", "value")
        for kind in ("weight", "bias")
    }
    for name, parameter in own.named_parameters():
        parameter.copy_(shared.state_dict()[name])  # an upper block's key: block 2's
    torch.testing.assert_close(forced(shared, batch, None), forced(own, batch, None), atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_full_depth_is_the_same_with_and_without_exits() -> None:
    model, batch = tiny_model(), tiny_batch()
    assert forced(model, batch, torch.full((BATCH, TIME), BLOCKS)).equal(forced(model, batch, None))


@torch.no_grad()
def test_a_block_copies_the_positions_that_left_below_it() -> None:
    model, batch, exits = tiny_model(), tiny_batch(), random_exits(BATCH, TIME, seed=4)
    states = forced(model, batch, exits)
    assert states.shape == (BLOCKS, BATCH, TIME, DIM)
    for n in range(2, BLOCKS + 1):
        is_copied = (states[n - 1] == states[n - 2]).all(dim=-1)
        assert is_copied.equal(exits < n)


@pytest.mark.parametrize("seed", [1, 2])
@torch.no_grad()
def test_a_copied_state_passes_through_the_own_projections_of_every_block_above(seed: int) -> None:
    model, batch, exits = tiny_model(seed=seed), tiny_batch(seed=seed), random_exits(BATCH, TIME, seed=seed)
    fast = forced(model, batch, exits)
    for row in range(BATCH):
        sequence, length = exits[row].tolist(), int(batch.target_mask[row].sum())
        sequence, tokens = sequence[:length], batch.target_inputs[row, :length].tolist()
        memory = reference.encode(model, batch.source[row][batch.source_mask[row]].tolist())
        right = reference.decode(model, tokens, memory, sequence)
        torch.testing.assert_close(
            fast[:, row, :length], torch.stack([torch.stack(states) for states in right[1:]]), atol=1e-5, rtol=1e-4
        )
        if any(later > earlier for place, earlier in enumerate(sequence) for later in sequence[place + 1 :]):
            wrong = reference.decode(model, tokens, memory, sequence, reference.projections_of_the_exit)
            assert (torch.stack(wrong[-1]) - fast[-1, row, :length]).abs().max() > 1e-2


@pytest.mark.parametrize("seed", [1, 2, 3])
@torch.no_grad()
def test_rows_of_a_beam_that_change_places_step_as_their_own_histories_would_be_forced(seed: int) -> None:
    """Two rows a sentence, parents drawn at random, one sentence finished on the way, more steps
    than the first capacity."""
    model, batch, randomness = tiny_model(seed=seed), tiny_batch(seed=seed), random.Random(seed)
    memory = model.encode(batch.source, batch.source_mask)
    cache = new_cache(model, batch)
    cache.choose_rows(torch.arange(BATCH).repeat_interleave(2))
    sentences, histories = list(range(BATCH)), [([], []) for _ in range(2 * BATCH)]
    for t in range(FIRST_CAPACITY + 5):
        if t == FIRST_CAPACITY - 3:
            cache.choose_sentences(torch.tensor([0, 2]))
            sentences, histories = [0, 2], histories[:2] + histories[4:]
        parents = [2 * place + randomness.randrange(2) for place in range(len(sentences)) for _ in range(2)]
        cache.choose_rows(torch.tensor(parents))
        tokens = torch.tensor([randomness.randrange(FIRST_WORD, TARGET_VOCAB) for _ in parents])
        exits = torch.tensor([randomness.randint(1, BLOCKS) for _ in parents])
        histories = [
            ([*histories[parent][0], token], [*histories[parent][1], left])
            for parent, token, left in zip(parents, tokens.tolist(), exits.tolist(), strict=True)
        ]
        hidden, _ = model.step(tokens, cache, exits, keep_plan)
        of_row = torch.tensor(sentences).repeat_interleave(2)
        inputs, lefts = (torch.tensor([history[side] for history in histories]) for side in (0, 1))
        expected = model.decode(inputs, memory[of_row], batch.source_mask[of_row], exits=lefts)[-1, :, -1]
        torch.testing.assert_close(hidden, expected, atol=5e-6, rtol=1e-5)


@torch.no_grad()
def test_a_sentence_may_keep_fewer_rows_than_another() -> None:
    model, batch = tiny_model(), tiny_batch()
    memory, cache = model.encode(batch.source, batch.source_mask), new_cache(model, batch)
    rows = torch.tensor([0, 0, 0, 1, 2, 2])
    cache.choose_rows(rows)
    tokens, exits = torch.arange(FIRST_WORD, FIRST_WORD + len(rows)), torch.tensor([4, 1, 3, 2, 1, 4])
    hidden, _ = model.step(tokens, cache, exits, keep_plan)
    expected = model.decode(tokens[:, None], memory[rows], batch.source_mask[rows], exits=exits[:, None])[-1, :, 0]
    torch.testing.assert_close(hidden, expected, atol=2e-6, rtol=1e-5)


@torch.no_grad()
def test_plans_changed_on_the_way_give_the_states_of_the_exits_they_end_in() -> None:
    model, batch = tiny_model(), tiny_batch()
    cache, seen = new_cache(model, batch), []

    def leave_at_whim(n: int, hidden: Tensor, planned: Tensor) -> Tensor:
        seen.append((n, len(hidden)))
        return torch.where((n > 0) & ((1000 * hidden[:, 0]).long() % 3 == 0), n, BLOCKS)

    steps = [
        model.step(batch.target_inputs[:, t], cache, torch.full((BATCH,), BLOCKS), leave_at_whim) for t in range(TIME)
    ]
    exits = torch.stack([left for _, left in steps], dim=1)
    assert len(exits.unique()) > 2
    torch.testing.assert_close(
        torch.stack([hidden for hidden, _ in steps], dim=1), forced(model, batch, exits)[-1], atol=2e-6, rtol=1e-5
    )
    running = [
        (n, int((exits[:, t] >= n).sum())) for t in range(TIME) for n in range(BLOCKS + 1) if (exits[:, t] >= n).any()
    ]
    assert seen == running


@torch.no_grad()
def test_plans_may_be_made_before_the_first_block_from_the_embedded_inputs() -> None:
    model, batch, exits = tiny_model(), tiny_batch(), random_exits(BATCH, TIME, seed=6)
    cache = new_cache(model, batch)
    embedded = [reference.embed(model.target_embedding, inputs) for inputs in batch.target_inputs.tolist()]
    for t in range(TIME):

        def plan_first(n: int, hidden: Tensor, planned: Tensor, t: int = t) -> Tensor:
            if n > 0:
                return planned
            torch.testing.assert_close(hidden, torch.stack([vectors[t] for vectors in embedded]))
            return exits[:, t].clone()

        planned = torch.full((BATCH,), BLOCKS)
        hidden, left = model.step(batch.target_inputs[:, t], cache, planned, plan_first)
        assert planned.tolist() == [BLOCKS] * BATCH
        assert left.equal(exits[:, t])
        torch.testing.assert_close(hidden, forced(model, batch, exits)[-1, :, t], atol=2e-6, rtol=1e-5)


@torch.no_grad()
def test_source_keys_are_made_once_a_sentence_and_only_where_a_block_ran() -> None:
    model, batch = tiny_model(), tiny_batch()
    cache, made = new_cache(model, batch), dict.fromkeys(range(1, BLOCKS + 1), 0)
    for n, block in enumerate(model.decoder, 1):
        block.source_attention.key.register_forward_hook(
            lambda layer, inputs, output, n=n: made.__setitem__(n, made[n] + len(inputs[0]))
        )
    cache.choose_rows(torch.arange(BATCH).repeat_interleave(2))
    plans = [[1, 1, 1, 1, 1, 1], [1, 2, 1, 1, 1, 3], [2, 2, 1, 1, 3, 1]]
    ready = [{1: [0, 1, 2]}, {1: [0, 1, 2], 2: [0, 2], 3: [2]}, {1: [0, 1, 2], 2: [0, 2], 3: [2]}]
    for t, (plan, expected) in enumerate(zip(plans, ready, strict=True)):
        model.step(batch.target_inputs[:, t].repeat_interleave(2), cache, torch.tensor(plan), keep_plan)
        assert {n: source.is_ready.nonzero()[:, 0].tolist() for n, source in cache.source.items()} == expected
        assert made == {n: len(expected.get(n, [])) for n in made}
    assert {source.keys.shape for source in cache.source.values()} == {(BATCH, HEADS, SOURCE, DIM // HEADS)}


@torch.no_grad()
def test_a_finished_sentence_takes_its_source_keys_along() -> None:
    model, batch = tiny_model(), tiny_batch()
    cache = new_cache(model, batch)
    model.step(batch.target_inputs[:, 0], cache, torch.tensor([1, 2, 3]), keep_plan)
    kept = cache.source[2].keys[[1, 2]].clone()
    cache.choose_sentences(torch.tensor([1, 2]))
    assert cache.source[2].is_ready.tolist() == [True, True]
    assert cache.source[3].is_ready.tolist() == [False, True]
    assert cache.source[2].keys.equal(kept)
    assert len(cache.memory) == len(cache.source_mask) == len(cache.past[4].keys) == 2
