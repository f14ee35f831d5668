"""What config.json and generation_config.json of a MarianMT folder say, as settings of ours; what
cannot be said here is refused by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anydepth.config.loading import make_config
from anydepth.config.schema import Config
from anydepth.errors import AdoptionError, ConfigError
from anydepth.files.reading import shown
from anydepth.inference.adopt.model_folder import ModelFolder

ARCHITECTURE, MODEL_TYPE = "MarianMTModel", "marian"
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "swish": "swish", "silu": "swish"}
SIZES = (
    *("d_model", "vocab_size", "max_position_embeddings"),
    *(f"{side}_{size}" for side in ("encoder", "decoder") for size in ("layers", "ffn_dim", "attention_heads")),
)
# The defaults of transformers' MarianConfig for what a file may leave out.
DEFAULTS = {
    "activation_function": "gelu",
    "scale_embedding": False,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
}
READ = {
    *SIZES,
    *DEFAULTS,
    *("model_type", "architectures", "decoder_vocab_size", "dropout", "attention_dropout"),
    *("pad_token_id", "eos_token_id", "decoder_start_token_id"),
}
# Settings of older versions that stand for another arithmetic, with the value that MarianMT has.
ONLY = {
    "is_encoder_decoder": True,
    "static_position_embeddings": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "add_bias_logits": False,
    "do_blenderbot_90_layernorm": False,
    "force_bos_token_to_be_generated": False,
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_encoder_decoder": False,
    "chunk_size_feed_forward": 0,
}
# What neither changes a number nor a word of a translation.
IDLE = {
    *("_name_or_path", "name_or_path", "transformers_version", "torch_dtype", "dtype", "tokenizer_class"),
    *("_num_labels", "num_labels", "id2label", "label2id", "classif_dropout", "classifier_dropout"),
    *("init_std", "use_cache", "gradient_checkpointing", "output_past", "return_dict", "torchscript", "use_bfloat16"),
    *("encoder_layerdrop", "decoder_layerdrop", "activation_dropout", "num_hidden_layers", "hidden_size"),
    *("num_attention_heads", "extra_pos_embeddings", "task_specific_params", "problem_type", "finetuning_task"),
    *("output_attentions", "output_hidden_states", "output_scores", "output_logits", "return_dict_in_generate"),
    *("bos_token_id", "sep_token_id", "cls_token_id", "unk_token_id", "prefix", "pruned_heads", "model_max_length"),
    # of sampling, which does not happen
    *("temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff"),
    *("_from_model_config", "cache_implementation", "remove_invalid_values", "low_memory", "disable_compile"),
}
GENERATION_READ = {
    *("num_beams", "length_penalty", "max_length", "bad_words_ids", "renormalize_logits", "early_stopping"),
    *("forced_eos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"),
}
# Settings of search with the values that leave it alone.
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "do_sample": (False,),
    "min_length": (0, 1),
    "repetition_penalty": (1,),
    "encoder_repetition_penalty": (1,),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "diversity_penalty": (0,),
    "num_beam_groups": (1,),
    "num_return_sequences": (1,),
    "guidance_scale": (1,),
}


@dataclass(frozen=True)
class MarianSettings:
    """The settings of a MarianMT model: ours, and what its vocabulary and tensors have to be."""

    config: Config
    source_size: int
    target_size: int
    is_shared: bool  # one vocabulary, and one embedding for both sides
    end: int
    start: int
    banned: frozenset[int]
    is_renormalized: bool


def read_settings(folder: ModelFolder) -> MarianSettings:
    """The settings of the model in `folder`, every one of them understood."""
    values = {**DEFAULTS, **folder.settings("config.json")}
    reader = SettingsReader(str(folder.path / "config.json"), values)
    reader.check_kind()
    has_own = folder.has("generation_config.json")
    generation = folder.settings("generation_config.json") if has_own else values
    search = SettingsReader(str(folder.path / ("generation_config.json" if has_own else "config.json")), generation)
    reader.check_known(READ | GENERATION_READ)
    search.check_known(READ | GENERATION_READ)
    is_shared = reader.truth("share_encoder_decoder_embeddings")
    source = reader.size("vocab_size")
    target = source if is_shared or values.get("decoder_vocab_size") is None else reader.size("decoder_vocab_size")
    specials = SettingsReader(reader.origin, {**values, **{k: v for k, v in generation.items() if v is not None}})
    end = specials.row("eos_token_id", below=target)
    if generation.get("forced_eos_token_id") not in (None, end, [end]):
        search.refuse("forced_eos_token_id", f"it must be eos_token_id = {end}")
    return MarianSettings(
        config=_config(reader, search, is_shared=is_shared),
        source_size=source,
        target_size=target,
        is_shared=is_shared,
        end=end,
        start=specials.row("decoder_start_token_id", below=target),
        banned=search.banned(below=target) - {end},  # transformers does not ban the end either
        is_renormalized=bool(generation.get("renormalize_logits")),
    )


class SettingsReader:
    """A file of settings, whose values are checked when they are taken out."""

    def __init__(self, origin: str, values: Mapping[str, Any]) -> None:
        self.origin, self.values = origin, values

    def refuse(self, name: str, rule: str) -> None:
        """Says which setting cannot be adopted."""
        raise AdoptionError(f"{self.origin} has {name} = {shown(self.values.get(name))}, but {rule}")

    def check_kind(self) -> None:
        """Refuses any architecture but MarianMT."""
        kind, classes = self.values.get("model_type"), self.values.get("architectures")
        if kind != MODEL_TYPE:
            self.refuse("model_type", f'only "{MODEL_TYPE}" can be adopted')
        if classes not in (None, [ARCHITECTURE]):
            self.refuse("architectures", f'only ["{ARCHITECTURE}"] can be adopted')

    def check_known(self, read: set[str]) -> None:
        """Refuses what has another meaning here than MarianMT's, or none."""
        for name, value in self.values.items():
            if name in read | IDLE or value is None:
                continue
            if name in ONLY:
                if value != ONLY[name]:
                    self.refuse(name, f"MarianMT has {ONLY[name]!r}")
            elif name in NEUTRAL:
                if value not in NEUTRAL[name]:
                    self.refuse(name, f"search here knows only {NEUTRAL[name][0]!r}")
            elif value not in (False, 0, "", [], {}):
                self.refuse(name, "that setting is not known here; remove it if it changes nothing")

    def size(self, name: str) -> int:
        """A whole number above 0."""
        value = self.values.get(name)
        if type(value) is not int or value < 1:
            self.refuse(name, "it must be a whole number above 0")
        assert isinstance(value, int)
        return value

    def truth(self, name: str) -> bool:
        """True or false."""
        value = self.values.get(name)
        if not isinstance(value, bool):
            self.refuse(name, "it must be true or false")
        return bool(value)

    def number(self, name: str, *, default: float, least: float, most: float) -> float:
        """A number from `least` to `most`; `default` where there is none."""
        value = self.values.get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            self.refuse(name, f"it must be a number from {least:g} to {most:g}")
        return float(value)

    def whole(self, name: str, *, default: int, least: int, most: int) -> int:
        """The same, without a fraction."""
        value = self.number(name, default=default, least=least, most=most)
        if not value.is_integer():
            self.refuse(name, "it must be a whole number")
        return int(value)

    def row(self, name: str, *, below: int) -> int:
        """A row of a vocabulary; a list may have one of them."""
        value = self.values.get(name)
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        if type(value) is not int or not 0 <= value < below:
            self.refuse(name, f"it must be one row of a vocabulary of {below:,}")
        assert isinstance(value, int)
        return value

    def early_stopping(self) -> bool:
        """Whether a sentence ends with its first hypotheses; "never" is a third rule, which is not
        known here."""
        value = self.values.get("early_stopping")
        if value not in (None, True, False):
            self.refuse("early_stopping", "search here knows only true and false")
        return bool(value)

    def banned(self, *, below: int) -> frozenset[int]:
        """The rows that are never produced; sequences of several cannot be banned here."""
        words = self.values.get("bad_words_ids") or []
        if not isinstance(words, list) or not all(
            isinstance(each, list) and len(each) == 1 and type(each[0]) is int and 0 <= each[0] < below
            for each in words
        ):
            self.refuse("bad_words_ids", f"each must be one row of a vocabulary of {below:,}")
        return frozenset(each[0] for each in words)


def _config(reader: SettingsReader, search: SettingsReader, *, is_shared: bool) -> Config:
    """The same model and search as settings of ours."""
    activation = reader.values.get("activation_function")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        reader.refuse("activation_function", f"only {', '.join(ACTIVATIONS)} can be adopted")
    sizes = {name: reader.size(name) for name in SIZES}
    for side in ("encoder", "decoder"):
        if sizes["d_model"] % 2 or sizes["d_model"] % sizes[f"{side}_attention_heads"]:
            reader.refuse("d_model", f"it must be even and divisible by {side}_attention_heads")
    positions = sizes["max_position_embeddings"]
    if positions < 2:
        reader.refuse("max_position_embeddings", "a sentence needs two at least")
    search_values = {} if search.values.get("max_length") is None else {"max_length": search.size("max_length")}
    output = max(min(search_values.get("max_length", positions), positions) - 1, 1)
    values = {
        "model": {
            "blocks": sizes["decoder_layers"],
            "heads": sizes["decoder_attention_heads"],
            "encoder": {
                "blocks": sizes["encoder_layers"],
                "dim": sizes["d_model"],
                "ffn_dim": sizes["encoder_ffn_dim"],
                "heads": sizes["encoder_attention_heads"],
            },
            "decoder": {"dim": sizes["d_model"], "ffn_dim": sizes["decoder_ffn_dim"]},
            "classifiers": "tied" if reader.truth("tie_word_embeddings") else "shared",
            "exits": "last",
            "activation": ACTIVATIONS[str(activation)],
            "positions": "marian",
            "scale_embeddings": reader.truth("scale_embedding"),
            "output_bias": True,
            "dropout": reader.number("dropout", default=0.1, least=0, most=0.99),
            "attention_dropout": reader.number("attention_dropout", default=0.0, least=0, most=0.99),
            "max_length": positions - 1,
        },
        "decoding": {
            "beam": search.whole("num_beams", default=1, least=1, most=1000),
            "length_penalty": search.number("length_penalty", default=1.0, least=0, most=10),
            "early_stopping": search.early_stopping(),
            "length_ratio": 0.0,
            "length_offset": output,
        },
    }
    try:
        return make_config(values, origin=reader.origin)
    except ConfigError as error:
        raise AdoptionError(str(error)) from error
