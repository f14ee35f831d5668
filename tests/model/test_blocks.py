"""Attention and blocks, against torch's own layers with the same weights."""

import pytest
import reference
import torch
from tiny import BATCH, DIM, ENCODER_DIM, FFN_DIM, HEADS, SOURCE, TIME
from torch import Tensor, nn

from anydepth.config.model_settings import Activation
from anydepth.model.attention import Attention
from anydepth.model.blocks import DecoderBlock, EncoderBlock

THEIR_ACTIVATIONS = {"relu": nn.ReLU(), "gelu": nn.GELU(approximate="none"), "swish": nn.SiLU()}


def randomised(module: nn.Module, seed: int) -> nn.Module:
    """`module` with every parameter random, biases and norms too."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(mean=float(parameter.ndim == 1), std=0.4)
    return module.eval()


def copy_linear(ours: nn.Linear | nn.LayerNorm, theirs: nn.Linear | nn.LayerNorm) -> None:
    with torch.no_grad():
        theirs.weight.copy_(ours.weight)
        theirs.bias.copy_(ours.bias)


def copy_attention(ours: Attention, theirs: nn.MultiheadAttention) -> None:
    with torch.no_grad():
        if theirs.in_proj_weight is not None:
            theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        else:
            theirs.q_proj_weight.copy_(ours.query.weight)
            theirs.k_proj_weight.copy_(ours.key.weight)
            theirs.v_proj_weight.copy_(ours.value.weight)
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
    copy_linear(ours.output, theirs.out_proj)


def source_mask() -> Tensor:
    return torch.arange(SOURCE) < torch.tensor([SOURCE, 2, 4])[:, None]


def causal_mask() -> Tensor:
    """True where torch's layers must not look."""
    return torch.ones(TIME, TIME, dtype=torch.bool).triu(1)


@pytest.mark.parametrize("memory_dim", [DIM, ENCODER_DIM])
def test_attention_equals_torch_multihead_attention_for_equal_and_different_widths(memory_dim: int) -> None:
    ours = randomised(Attention(DIM, HEADS, memory_dim=memory_dim, dropout=0.0), seed=1)
    theirs = nn.MultiheadAttention(DIM, HEADS, kdim=memory_dim, vdim=memory_dim, batch_first=True).eval()
    copy_attention(ours, theirs)
    states, memory, mask = torch.randn(BATCH, TIME, DIM), torch.randn(BATCH, SOURCE, memory_dim), source_mask()
    gathered = ours.attend(states, *ours.keys_values(memory), mask=mask[:, None, None])
    torch.testing.assert_close(
        gathered, theirs(states, memory, memory, key_padding_mask=~mask)[0], atol=1e-5, rtol=1e-5
    )


def test_attention_equals_a_loop_over_positions_and_heads() -> None:
    attention = randomised(Attention(DIM, HEADS, memory_dim=ENCODER_DIM, dropout=0.0), seed=2)
    states, memory = torch.randn(BATCH, TIME, DIM), torch.randn(BATCH, SOURCE, ENCODER_DIM)
    gathered = attention.attend(states, *attention.keys_values(memory))
    for row in range(BATCH):
        expected = [reference.attend(attention, state, list(memory[row])) for state in states[row]]
        torch.testing.assert_close(gathered[row], torch.stack(expected), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("activation", THEIR_ACTIVATIONS)
def test_an_encoder_block_equals_torch_transformer_encoder_layer(activation: Activation) -> None:
    ours = randomised(
        EncoderBlock(DIM, FFN_DIM, HEADS, activation=activation, dropout=0.0, attention_dropout=0.0), seed=3
    )
    theirs = nn.TransformerEncoderLayer(
        DIM, HEADS, FFN_DIM, 0.0, THEIR_ACTIVATIONS[activation], batch_first=True, norm_first=False
    )
    copy_attention(ours.attention, theirs.self_attn)
    copy_linear(ours.attention_norm, theirs.norm1)
    copy_linear(ours.feed_forward.inner, theirs.linear1)
    copy_linear(ours.feed_forward.outer, theirs.linear2)
    copy_linear(ours.feed_forward_norm, theirs.norm2)
    states, mask = torch.randn(BATCH, SOURCE, DIM), source_mask()
    expected = theirs(states, src_key_padding_mask=~mask)
    torch.testing.assert_close(ours(states, mask[:, None, None])[mask], expected[mask], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("activation", THEIR_ACTIVATIONS)
def test_a_decoder_block_equals_torch_transformer_decoder_layer(activation: Activation) -> None:
    ours = randomised(
        DecoderBlock(DIM, FFN_DIM, HEADS, memory_dim=DIM, activation=activation, dropout=0.0, attention_dropout=0.0),
        seed=4,
    )
    theirs = nn.TransformerDecoderLayer(
        DIM, HEADS, FFN_DIM, 0.0, THEIR_ACTIVATIONS[activation], batch_first=True, norm_first=False
    )
    copy_attention(ours.self_attention, theirs.self_attn)
    copy_attention(ours.source_attention, theirs.multihead_attn)
    copy_linear(ours.self_attention_norm, theirs.norm1)
    copy_linear(ours.source_attention_norm, theirs.norm2)
    copy_linear(ours.feed_forward.inner, theirs.linear1)
    copy_linear(ours.feed_forward.outer, theirs.linear2)
    copy_linear(ours.feed_forward_norm, theirs.norm3)
    states, memory, mask = torch.randn(BATCH, TIME, DIM), torch.randn(BATCH, SOURCE, DIM), source_mask()
    new = ours.attend_self(states, *ours.self_attention.keys_values(states), is_causal=True)
    new = ours.transform(ours.attend_source(new, *ours.source_attention.keys_values(memory), mask[:, None, None]))
    expected = theirs(states, memory, tgt_mask=causal_mask(), memory_key_padding_mask=~mask)
    torch.testing.assert_close(new, expected, atol=1e-5, rtol=1e-5)


def test_attention_dropout_acts_in_training_alone() -> None:
    attention = randomised(Attention(DIM, HEADS, memory_dim=DIM, dropout=0.5), seed=5)
    states = torch.randn(BATCH, TIME, DIM)
    keys, values = attention.keys_values(states)
    assert attention.attend(states, keys, values).equal(attention.attend(states, keys, values))
    attention.train()
    assert not attention.attend(states, keys, values).equal(attention.attend(states, keys, values))
