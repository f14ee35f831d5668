"""The names of a model's tensors in transformers' MarianMT and here."""

from collections.abc import Iterator

ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}
ENCODER_MODULES = {
    **{f"attention.{own}": f"self_attn.{theirs}" for own, theirs in ATTENTION.items()},
    "attention_norm": "self_attn_layer_norm",
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "feed_forward_norm": "final_layer_norm",
}
DECODER_MODULES = {
    **{f"self_attention.{own}": f"self_attn.{theirs}" for own, theirs in ATTENTION.items()},
    "self_attention_norm": "self_attn_layer_norm",
    **{f"source_attention.{own}": f"encoder_attn.{theirs}" for own, theirs in ATTENTION.items()},
    "source_attention_norm": "encoder_attn_layer_norm",
    "feed_forward.inner": "fc1",
    "feed_forward.outer": "fc2",
    "feed_forward_norm": "final_layer_norm",
}
SHARED = "model.shared.weight"
SOURCE_EMBEDDING, TARGET_EMBEDDING = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
CLASSIFIER, OUTPUT_BIAS = "lm_head.weight", "final_logits_bias"
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def block_names(*, encoder_blocks: int, decoder_blocks: int) -> Iterator[tuple[str, str]]:
    """Our name and theirs of every tensor of every block."""
    sides = (("encoder", encoder_blocks, ENCODER_MODULES), ("decoder", decoder_blocks, DECODER_MODULES))
    for side, blocks, modules in sides:
        for number in range(blocks):
            for own, theirs in modules.items():
                for kind in ("weight", "bias"):
                    yield f"{side}.{number}.{own}.{kind}", f"model.{side}.layers.{number}.{theirs}.{kind}"
