"""The model cut at one exit as a MarianMT folder, for those who run Hugging Face's transformers or
whatever else reads that format."""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from anydepth.config.schema import Config
from anydepth.errors import RunError, UsageError
from anydepth.exits.parsing import parse_policy
from anydepth.files.atomic import replacing_folder, write_text
from anydepth.files.locks import one_writer
from anydepth.files.reading import Unreadable, read_json
from anydepth.inference.adopt.marian_settings import ARCHITECTURE, MODEL_TYPE
from anydepth.inference.adopt.model_folder import WEIGHTS
from anydepth.inference.adopt.tensor_names import (
    CLASSIFIER,
    OUTPUT_BIAS,
    SHARED,
    SOURCE_EMBEDDING,
    TARGET_EMBEDDING,
    block_names,
)
from anydepth.inference.export.ctranslate2_folder import CHECKSUMS_NAME, check_expressible, write_checksums
from anydepth.inference.export.huggingface_text import ExportedText, exported_text
from anydepth.inference.export.model_card import model_card
from anydepth.messages.say import Say
from anydepth.model.checkpoint import model_tensors
from anydepth.model.transformer import Transformer
from anydepth.runs.fingerprints import weights_fingerprint
from anydepth.runs.models import load_model
from anydepth.runs.run import Run, changing

FORMAT = "huggingface"
CARD_NAME = "README.md"


def export_huggingface(run: Run, *, exit: int, to: Path | None, say: Say) -> Path:
    """The folder that now holds the run's model cut at `exit`, with its tokenizer and a card, for
    `MarianMTModel.from_pretrained` and `MarianTokenizer.from_pretrained`.

    Every token leaves at `exit`: what transformers makes of it is what the policy fixed:`exit`
    makes here.
    """
    config = run.config
    if reason := unsaid(config):
        raise RunError(f"{run.folder} cannot be said in MarianMT's format: {reason}")
    model = load_model(run)
    parse_policy(f"fixed:{exit}", model)
    check_expressible(model, exit=exit, format_name="MarianMT")
    folder = to or run.folder / "export" / f"{FORMAT}-exit{exit}"
    if folder.exists() and not is_replaceable(folder):
        raise UsageError(f"{folder} exists and is no export, so it is left alone; choose another place with --to")
    text = exported_text(run, model)
    with changing(run.folder) if to is None else one_writer(to), replacing_folder(folder) as temporary:
        for name, data in text.files.items():
            (temporary / name).write_bytes(data)
        tensors = their_tensors(model, text, exit=exit)
        save_file(tensors, temporary / WEIGHTS, metadata={"format": "pt"})
        _write_json(temporary / "config.json", their_config(config, text, exit=exit))
        _write_json(temporary / "generation_config.json", their_search(config, text))
        write_text(temporary / CARD_NAME, model_card(run, exit=exit))
        write_checksums(temporary, weights=weights_fingerprint(run), to_format=FORMAT)
    say(
        f"{folder}: exit {exit} of {model.blocks}, float32, for MarianMTModel and MarianTokenizer; {CARD_NAME} tells "
        "what it is"
    )
    return folder


def is_replaceable(folder: Path) -> bool:
    """Whether a folder is empty, or an export of this kind by what its checksums tell."""
    if not folder.is_dir():
        return False
    if not any(folder.iterdir()):
        return True
    try:
        note = read_json(folder / CHECKSUMS_NAME)
    except (OSError, Unreadable):
        return False
    return isinstance(note, dict) and note.get("format") == FORMAT


def unsaid(config: Config) -> str | None:
    """What of a model MarianMT's format cannot say, as a phrase with the cure; None if all of it
    can be said."""
    model = config.model
    if model.positions != "marian":
        return (
            f'model.positions = "{model.positions}" has other rates than MarianMT\'s sinusoids, which transformers '
            'makes itself; train with model.positions = "marian"'
        )
    if model.encoder.dim != model.decoder.dim:
        return (
            f"model.encoder.dim = {model.encoder.dim} and model.decoder.dim = {model.decoder.dim} differ, and it has "
            "one d_model for both; train with one width"
        )
    return None


def their_tensors(model: Transformer, text: ExportedText, *, exit: int) -> dict[str, Tensor]:
    """The tensors under MarianMT's names, words in the order of its vocabularies, without the
    blocks above `exit`."""
    own = model_tensors(model)
    names = block_names(encoder_blocks=model.config.encoder.blocks, decoder_blocks=exit)
    tensors = {theirs: own[name] for name, theirs in names}
    source, target = model.source_embedding.weight[text.source_ids], model.target_embedding.weight[text.target_ids]
    is_tied = model.config.classifiers == "tied"
    if is_tied and text.is_joint:
        tensors[SHARED] = target
    else:
        tensors |= {SOURCE_EMBEDDING: source, TARGET_EMBEDDING: target}
    if not is_tied:
        tensors[CLASSIFIER] = model.classifier(exit)[text.target_ids]
        if text.is_joint:  # which transformers has beside the others, and does not use
            tensors[SHARED] = target
    tensors[OUTPUT_BIAS] = text.bias[None]
    return {name: tensor.detach().float().clone().contiguous() for name, tensor in tensors.items()}


def their_config(config: Config, text: ExportedText, *, exit: int) -> dict[str, Any]:
    """The contents of config.json."""
    model = config.model
    return {
        "architectures": [ARCHITECTURE],
        "model_type": MODEL_TYPE,
        "is_encoder_decoder": True,
        "vocab_size": len(text.source_ids),
        "decoder_vocab_size": len(text.target_ids),
        "share_encoder_decoder_embeddings": text.is_joint,
        "tie_word_embeddings": model.classifiers == "tied",
        "d_model": model.decoder.dim,
        "encoder_layers": model.encoder.blocks,
        "encoder_attention_heads": model.encoder_heads,
        "encoder_ffn_dim": model.encoder.ffn_dim,
        "decoder_layers": exit,
        "decoder_attention_heads": model.heads,
        "decoder_ffn_dim": model.decoder.ffn_dim,
        "activation_function": model.activation,
        "scale_embedding": model.scale_embeddings,
        "max_position_embeddings": model.max_length + 1,
        "dropout": model.dropout,
        "attention_dropout": model.attention_dropout,
        "dtype": "float32",
        **_special_rows(text),
    }


def their_search(config: Config, text: ExportedText) -> dict[str, Any]:
    """The contents of generation_config.json: the run's search, but for a limit that depends on the
    source, which it does not know."""
    decoding, positions = config.decoding, config.model.max_length + 1
    is_fixed = decoding.length_ratio == 0
    # transformers warns of these where there is no beam
    of_beams = {"length_penalty": decoding.length_penalty, "early_stopping": decoding.early_stopping}
    return {
        "num_beams": decoding.beam,
        **(of_beams if decoding.beam > 1 else {}),
        "max_length": min(decoding.length_offset + 1, positions) if is_fixed else positions,
        "bad_words_ids": [[row] for row in text.banned],
        "renormalize_logits": text.is_renormalized,
        **_special_rows(text),
    }


def _special_rows(text: ExportedText) -> dict[str, int]:
    return {
        "pad_token_id": text.padding,
        "eos_token_id": text.end,
        "forced_eos_token_id": text.end,
        "decoder_start_token_id": text.start,
    }


def _write_json(path: Path, values: dict[str, Any]) -> None:
    write_text(path, json.dumps(values, indent=2, sort_keys=True) + "\n")
