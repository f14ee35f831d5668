"""The settings in which models vary: positions, scale and bias by hand, and all of them together
against MarianMT in transformers."""

import math
from typing import Any

import pytest
import torch
from tiny import (
    BATCH,
    BLOCKS,
    DIM,
    ENCODER_BLOCKS,
    ENCODER_DIM,
    ENCODER_FFN_DIM,
    FFN_DIM,
    HEADS,
    SOURCE,
    TARGET_VOCAB,
    TIME,
    random_exits,
    tiny_batch,
    tiny_config,
    tiny_model,
)
from torch import nn
from variations import ACTIVATIONS, MARIAN

from anydepth.errors import ConfigError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.model.transformer import sinusoids


def test_marians_positions_are_sines_then_cosines_at_rates_of_10000_to_the_minus_2i_over_dim() -> None:
    table = sinusoids(30, 4, "marian")  # rates 1 and 1/100
    assert table[0].tolist() == [0, 0, 1, 1]
    for position in (1, 7, 29):
        angles = [position, position / 100]
        by_hand = [*(math.sin(angle) for angle in angles), *(math.cos(angle) for angle in angles)]
        torch.testing.assert_close(table[position], torch.tensor(by_hand), atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("dim", [2, DIM, 512])
def test_marians_positions_are_those_of_transformers(dim: int) -> None:
    marian = pytest.importorskip("transformers.models.marian.modeling_marian")
    theirs = marian.MarianSinusoidalPositionalEmbedding(700, dim).create_weight()
    torch.testing.assert_close(sinusoids(700, dim, "marian"), theirs, atol=1e-7, rtol=0)


@torch.no_grad()
def test_embeddings_that_are_not_scaled_are_words_plus_positions() -> None:
    model, batch = tiny_model("model.scale_embeddings=false", "model.positions=marian"), tiny_batch()
    expected = model.target_embedding.weight[batch.target_inputs] + sinusoids(TIME, DIM, "marian")
    assert model.embed_targets(batch.target_inputs).equal(expected)


@pytest.mark.parametrize("classifiers", ["untied", "shared", "tied"])
@torch.no_grad()
def test_every_classifier_adds_the_same_bias(classifiers: str) -> None:
    model = tiny_model(f"model.classifiers={classifiers}", "model.output_bias=true")
    assert model.output_bias is not None
    hidden, exits = torch.randn(BATCH, DIM), random_exits(BATCH, seed=1)
    expected = torch.stack([model.classifier(int(n)) @ h for h, n in zip(hidden, exits, strict=True)])
    torch.testing.assert_close(model.exit_logits(hidden, exits), expected + model.output_bias)
    assert not model.output_bias.allclose(torch.zeros(TARGET_VOCAB)), "else this shows nothing"


def test_a_model_without_a_bias_has_no_tensor_of_it_and_a_new_bias_is_zero() -> None:
    assert "output_bias" not in dict(tiny_model().named_parameters())
    config = tiny_config("model.output_bias=true")
    fresh = AdaptiveTransformer(config, source_vocab=5, target_vocab=7, is_joint=False)
    assert fresh.output_bias is not None
    assert fresh.output_bias.tolist() == [0] * 7


def copied(theirs: Any, ours: nn.Module, names: dict[str, str]) -> None:
    """Gives our layers the numbers of theirs."""
    for their_name, name in names.items():
        source, target = theirs.get_submodule(their_name), ours.get_submodule(name)
        target.weight.copy_(source.weight)
        target.bias.copy_(source.bias)


def as_ours(theirs: Any, *changes: str) -> AdaptiveTransformer:
    """Our model with the weights of a MarianMT model whose embeddings are all one."""
    model = tiny_model(f"model.encoder.dim={DIM}", "model.classifiers=tied", *changes, is_joint=True)
    assert model.output_bias is not None
    parts = {f"{kind}_proj": name for kind, name in zip("qkv", ("query", "key", "value"), strict=True)}
    parts["out_proj"] = "output"
    end = {
        "fc1": "feed_forward.inner",
        "fc2": "feed_forward.outer",
        "final_layer_norm": "feed_forward_norm",
    }
    with torch.no_grad():
        model.target_embedding.weight.copy_(theirs.model.shared.weight)
        model.output_bias.copy_(theirs.final_logits_bias[0])
        for their_block, block in zip(theirs.model.encoder.layers, model.encoder, strict=True):
            own = {f"self_attn.{part}": f"attention.{name}" for part, name in parts.items()}
            copied(their_block, block, own | end | {"self_attn_layer_norm": "attention_norm"})
        for their_block, block in zip(theirs.model.decoder.layers, model.decoder, strict=True):
            own = {f"self_attn.{part}": f"self_attention.{name}" for part, name in parts.items()}
            own |= {f"encoder_attn.{part}": f"source_attention.{name}" for part, name in parts.items()}
            norms = {"self_attn_layer_norm": "self_attention_norm", "encoder_attn_layer_norm": "source_attention_norm"}
            copied(their_block, block, own | end | norms)
    return model


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("is_scaled", [True, False])
@torch.no_grad()
def test_logits_are_those_of_marianmt_with_the_same_weights(activation: str, is_scaled: bool) -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(5)
    config = transformers.MarianConfig(
        vocab_size=TARGET_VOCAB,
        d_model=DIM,
        encoder_layers=ENCODER_BLOCKS,
        decoder_layers=BLOCKS,
        encoder_attention_heads=2,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=ENCODER_FFN_DIM,
        decoder_ffn_dim=FFN_DIM,
        activation_function=activation,
        scale_embedding=is_scaled,
        max_position_embeddings=TIME + SOURCE,
        pad_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=0,
        forced_eos_token_id=2,
    )
    theirs = transformers.MarianMTModel(config).eval()
    for parameter in theirs.parameters():
        if parameter.requires_grad:
            parameter.normal_(mean=float(parameter.ndim == 1), std=0.4)
    theirs.final_logits_bias.normal_()
    changes = (f"model.activation={activation}", f"model.scale_embeddings={str(is_scaled).lower()}", *MARIAN[1:])
    ours, batch = as_ours(theirs, *changes), tiny_batch()
    memory = ours.encode(batch.source, batch.source_mask)
    logits = ours.logits_at(BLOCKS, ours.decode(batch.target_inputs, memory, batch.source_mask)[-1].flatten(0, 1))
    expected = theirs(batch.source, attention_mask=batch.source_mask, decoder_input_ids=batch.target_inputs).logits
    torch.testing.assert_close(logits, expected.flatten(0, 1), atol=2e-5, rtol=1e-5)
    assert expected.std() > 0.3, "else this shows little"


def test_heads_of_the_encoder_are_those_of_the_model_unless_they_have_a_number_of_their_own() -> None:
    for changes, heads in (((), HEADS), (("model.encoder.heads=8",), 8)):
        model = tiny_model(*changes)
        assert {block.attention.heads for block in model.encoder} == {heads}
        attentions = [(block.self_attention, block.source_attention) for block in model.decoder]
        assert {each.heads for pair in attentions for each in pair} == {HEADS}


def test_a_width_that_the_encoders_heads_do_not_divide_is_refused_by_their_own_name() -> None:
    message = rf"model.encoder.dim = {ENCODER_DIM} is not divisible by model.encoder.heads = 5; try 15 or 20"
    with pytest.raises(ConfigError, match=message):
        tiny_config("model.encoder.heads=5")
    assert tiny_config("model.heads=6", "model.encoder.heads=8").model.encoder_heads == 8
