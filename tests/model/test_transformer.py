"""The whole model: widths, positions, padding, classifiers and what they share."""

import math

import pytest
import reference
import torch
from tiny import (
    BATCH,
    BLOCKS,
    DIM,
    ENCODER_BLOCKS,
    ENCODER_DIM,
    ENCODER_FFN_DIM,
    FFN_DIM,
    SOURCE,
    SOURCE_VOCAB,
    TARGET_VOCAB,
    TIME,
    random_exits,
    tiny_batch,
    tiny_config,
    tiny_model,
)
from torch.nn import functional as F

from anydepth.errors import ConfigError
from anydepth.model.transformer import Transformer, sinusoids
from anydepth.text.tokenizer import PAD


@torch.no_grad()
def test_encoder_and_decoder_of_different_widths_equal_loops_over_positions() -> None:
    model, batch = tiny_model(), tiny_batch()
    memory = model.encode(batch.source, batch.source_mask)
    states = model.decode(batch.target_inputs, memory, batch.source_mask)
    assert memory.shape == (BATCH, SOURCE, ENCODER_DIM)
    assert states.shape == (BLOCKS, BATCH, TIME, DIM)
    for row in range(BATCH):
        source, inputs = (
            batch.source[row][batch.source_mask[row]].tolist(),
            batch.target_inputs[row][batch.target_mask[row]].tolist(),
        )
        slow_memory = reference.encode(model, source)
        torch.testing.assert_close(memory[row, : len(source)], torch.stack(slow_memory), atol=1e-5, rtol=1e-4)
        slow = reference.decode(model, inputs, slow_memory, [BLOCKS] * len(inputs))
        torch.testing.assert_close(
            states[:, row, : len(inputs)], torch.stack([torch.stack(s) for s in slow[1:]]), atol=1e-5, rtol=1e-4
        )


def test_positions_are_sines_then_cosines_at_rates_from_1_to_a_ten_thousandth() -> None:
    table = sinusoids(30, 6, "sinusoidal")  # rates 1, 1/100, 1/10,000
    assert table[0].tolist() == [0, 0, 0, 1, 1, 1]
    for position in (1, 7, 29):
        by_hand = [math.sin(position), math.sin(position / 100), math.sin(position / 10_000)]
        by_hand += [math.cos(position), math.cos(position / 100), math.cos(position / 10_000)]
        torch.testing.assert_close(table[position], torch.tensor(by_hand), atol=1e-5, rtol=1e-5)


def test_positions_from_the_middle_are_a_part_of_those_from_the_beginning() -> None:
    assert sinusoids(5, DIM, "sinusoidal").equal(sinusoids(9, DIM, "sinusoidal")[:5])


@torch.no_grad()
def test_padding_the_source_or_the_target_further_changes_no_real_state() -> None:
    model, batch, exits = tiny_model(), tiny_batch(), random_exits(BATCH, TIME, seed=1)
    memory = model.encode(batch.source, batch.source_mask)
    wide_source, wide_mask = F.pad(batch.source, (0, 5), value=PAD), F.pad(batch.source_mask, (0, 5))
    wide_memory = model.encode(wide_source, wide_mask)
    torch.testing.assert_close(
        wide_memory[:, :SOURCE][batch.source_mask], memory[batch.source_mask], atol=2e-6, rtol=1e-5
    )
    wide_inputs, wide_exits = F.pad(batch.target_inputs, (0, 3), value=PAD), F.pad(exits, (0, 3), value=2)
    for chosen, wide_chosen in ((None, None), (exits, wide_exits)):
        states = model.decode(batch.target_inputs, memory, batch.source_mask, exits=chosen)
        wide_states = model.decode(wide_inputs, wide_memory, wide_mask, exits=wide_chosen)
        torch.testing.assert_close(wide_states[:, :, :TIME], states, atol=2e-6, rtol=1e-5)


@torch.no_grad()
def test_what_stands_at_a_padded_place_does_not_matter() -> None:
    model, batch = tiny_model(), tiny_batch()
    other = torch.where(batch.source_mask, batch.source, SOURCE_VOCAB - 1)
    memory, other_memory = model.encode(batch.source, batch.source_mask), model.encode(other, batch.source_mask)
    assert not memory.equal(other_memory)
    states = model.decode(batch.target_inputs, memory, batch.source_mask)
    torch.testing.assert_close(
        model.decode(batch.target_inputs, other_memory, batch.source_mask), states, atol=2e-6, rtol=1e-5
    )


@torch.no_grad()
def test_no_position_sees_a_later_target() -> None:
    model, batch = tiny_model(), tiny_batch()
    memory = model.encode(batch.source, batch.source_mask)
    changed = batch.target_inputs.clone()
    changed[:, 3] = TARGET_VOCAB - 1
    before, after = (model.decode(inputs, memory, batch.source_mask) for inputs in (batch.target_inputs, changed))
    torch.testing.assert_close(before[:, :, :3], after[:, :, :3], atol=1e-6, rtol=1e-6)
    assert ((before - after)[:, :, 3:].abs().amax(dim=-1) > 1e-4).all()


@pytest.mark.parametrize("classifiers", ["untied", "shared", "tied"])
@torch.no_grad()
def test_exit_logits_come_from_each_rows_own_classifier(classifiers: str) -> None:
    model = tiny_model(f"model.classifiers={classifiers}")
    hidden, exits = torch.randn(9, DIM), torch.tensor([3, 1, 4, 1, 2, 2, 4, 3, 1])
    own = {
        "untied": lambda n: model.classifiers[n - 1],
        "shared": lambda n: model.classifiers[0],
        "tied": lambda n: model.target_embedding.weight,
    }
    expected = torch.stack([own[classifiers](n) @ h for h, n in zip(hidden, exits.tolist(), strict=True)])
    torch.testing.assert_close(model.exit_logits(hidden, exits), expected)
    torch.testing.assert_close(model.exit_logits(hidden[exits == 2], exits[exits == 2]), expected[exits == 2])
    if classifiers == "untied":
        assert not model.classifier(1).equal(model.classifier(2))


def test_exit_logits_of_no_rows_are_no_rows() -> None:
    assert tiny_model().exit_logits(torch.empty(0, DIM), torch.empty(0, dtype=torch.int64)).shape == (0, TARGET_VOCAB)


def test_a_tied_classifier_is_both_embeddings_when_joint_and_the_decoders_alone_otherwise() -> None:
    joint = tiny_model("model.classifiers=tied", f"model.encoder.dim={DIM}", is_joint=True)
    assert joint.classifier(2) is joint.target_embedding.weight is joint.source_embedding.weight
    separate = tiny_model("model.classifiers=tied", f"model.encoder.dim={DIM}")
    assert separate.classifier(2) is separate.target_embedding.weight
    assert separate.source_embedding.weight is not separate.target_embedding.weight


def expected_parameters(embeddings: int) -> int:
    def linear(inputs: int, outputs: int) -> int:
        return (inputs + 1) * outputs

    def attention(dim: int, memory_dim: int) -> int:
        return 2 * linear(dim, dim) + 2 * linear(memory_dim, dim)

    def rest(dim: int, ffn_dim: int, norms: int) -> int:
        return linear(dim, ffn_dim) + linear(ffn_dim, dim) + norms * 2 * dim

    encoder = attention(ENCODER_DIM, ENCODER_DIM) + rest(ENCODER_DIM, ENCODER_FFN_DIM, 2)
    decoder = attention(DIM, DIM) + attention(DIM, ENCODER_DIM) + rest(DIM, FFN_DIM, 3)
    return embeddings + ENCODER_BLOCKS * encoder + BLOCKS * decoder


@pytest.mark.parametrize(
    ("changes", "matrices"),
    [
        (["model.classifiers=untied"], 1 + BLOCKS),
        (["model.classifiers=shared"], 1 + 1),
        (["model.classifiers=tied"], 1),
        (["model.exits=last"], 1 + 1),
    ],
)
def test_a_shared_matrix_is_counted_once(changes: list[str], matrices: int) -> None:
    model = tiny_model(*changes)
    found = sum(parameter.numel() for parameter in model.parameters())
    assert found == expected_parameters(SOURCE_VOCAB * ENCODER_DIM + matrices * TARGET_VOCAB * DIM)


def test_a_joint_tied_model_has_one_matrix_of_the_size_of_the_vocabulary() -> None:
    model = tiny_model("model.classifiers=tied", f"model.encoder.dim={DIM}", is_joint=True)
    assert [name for name, parameter in model.named_parameters() if TARGET_VOCAB in parameter.shape] == [
        "target_embedding.weight"
    ]


def test_tying_a_joint_vocabulary_over_different_widths_is_refused_with_both_widths() -> None:
    config = tiny_config("model.classifiers=tied").model
    with pytest.raises(
        ConfigError, match=rf"model.encoder.dim = {ENCODER_DIM} and model.decoder.dim = {DIM} differ; make them equal"
    ):
        Transformer(config, source_vocab=TARGET_VOCAB, target_vocab=TARGET_VOCAB, is_joint=True)


def test_a_baseline_has_a_classifier_after_the_last_block_alone() -> None:
    model = tiny_model("model.exits=last")
    assert model.classifier(BLOCKS) is model.classifiers[0]
    with pytest.raises(AssertionError, match="exit 1 has no classifier"):
        model.classifier(1)


@torch.no_grad()
def test_one_block_and_one_token_work() -> None:
    model, batch = tiny_model("model.blocks=1"), tiny_batch()
    states = model.decode(
        batch.target_inputs[:, :1],
        model.encode(batch.source[:, :1], batch.source_mask[:, :1]),
        batch.source_mask[:, :1],
    )
    assert states.shape == (1, BATCH, 1, DIM)
    assert states.isfinite().all()
