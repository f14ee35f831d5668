"""The model cut at one exit as a CTranslate2 directory, for those who run CTranslate2 or
LibreTranslate."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn

from anydepth.config.model_settings import Activation, ModelConfig
from anydepth.errors import RunError, UsageError
from anydepth.exits.parsing import parse_policy
from anydepth.files.atomic import replacing_folder, write_text
from anydepth.files.checksums import checked_object, file_hash, with_checksum
from anydepth.files.locks import one_writer
from anydepth.inference.export.huggingface_text import text_files
from anydepth.inference.export.vocabulary_map import MAP_NAME, vocabulary_map
from anydepth.messages.say import Say
from anydepth.model.attention import Attention
from anydepth.model.blocks import DecoderBlock, EncoderBlock, FeedForward
from anydepth.model.transformer import BANNING_BIAS, Transformer, sinusoids
from anydepth.runs.checked_vocabulary import RunVocabulary
from anydepth.runs.fingerprints import weights_fingerprint
from anydepth.runs.models import load_model
from anydepth.runs.run import Run, changing
from anydepth.search.decoding import SearchSettings
from anydepth.text.marian import AnyTokenizer, MarianTokenizer
from anydepth.text.tokenizer import BOS, EOS, UNK
from anydepth.vocabulary.lexical_table import TableSelection
from anydepth.vocabulary.names import TABLE

FORMAT = "ctranslate2"
WEIGHTS_FILE = "model.bin"
CHECKSUMS_NAME = "checksums.json"
QUANTIZATIONS = ("int8", "int8_float32", "int16", "float16", "bfloat16", "float32")
# CTranslate2 cuts sources after 1024 tokens unless told otherwise; the end of the sentence comes on
# top.
POSITIONS = 1025

Spec: TypeAlias = Any  # CTranslate2 has no types


def export_ctranslate2(run: Run, *, exit: int, quantization: str | None, to: Path | None, say: Say) -> Path:
    """The folder that now holds the run's model cut at `exit`, with vocabularies and tokenizers,
    for CTranslate2.

    Every token leaves at `exit`: what CTranslate2 makes of it is what the policy fixed:`exit` makes
    here. A run that has a lexical table gives it along as a vocabulary map, which CTranslate2 looks
    at with use_vmap=True.
    """
    load_ctranslate2()
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise UsageError(f"CTranslate2 has no quantization {quantization!r}; choose one of {', '.join(QUANTIZATIONS)}")
    model = load_model(run)
    parse_policy(f"fixed:{exit}", model)
    check_expressible(model, exit=exit, format_name="CTranslate2")
    folder = to or run.folder / "export" / f"ctranslate2-exit{exit}{f'-{quantization}' if quantization else ''}"
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / WEIGHTS_FILE).exists())):
        raise UsageError(
            f"{folder} exists and is not a CTranslate2 model, so it is left alone; choose another place with --to"
        )
    source, target = run.tokenizers()
    source_pieces, target_pieces = (tokenizer.pieces(range(tokenizer.size)) for tokenizer in (source, target))
    words = RunVocabulary(run).selection(TABLE) if run.seal.has(run.table_file) else None
    with changing(run.folder) if to is None else one_writer(to), replacing_folder(folder) as temporary:
        write_ctranslate2(
            model,
            source_pieces,
            target_pieces,
            temporary,
            exit=exit,
            quantization=quantization,
            unknown=unknown_piece(target),
        )
        for name, data in text_files(run).items():
            (temporary / name).write_bytes(data)
        if isinstance(words, TableSelection):
            write_text(temporary / MAP_NAME, vocabulary_map(words, source_pieces, target_pieces))
        write_checksums(temporary, weights=weights_fingerprint(run))
    mapped = "" if words is None else f"; use_vmap=True chooses among the words of {words.name}"
    cut = "tokenize each line with a space before it, as here"
    if isinstance(source, MarianTokenizer):
        cut = "cut lines with source.spm or MarianTokenizer, whose files are there, without an end"
    say(f"{folder}: exit {exit} of {model.blocks}, {quantization or 'float32'}; {cut}{mapped}")
    return folder


def unknown_piece(tokenizer: AnyTokenizer) -> str:
    """What stands for a piece that the vocabulary lacks; an adopted one has a word of its own for
    that."""
    if isinstance(tokenizer, MarianTokenizer):
        return tokenizer.vocabulary.pieces[tokenizer.vocabulary.unknown]
    return tokenizer.pieces([UNK])[0]


def write_checksums(folder: Path, *, weights: str | None, to_format: str = FORMAT) -> None:
    """Writes the SHA-256 of every file in `folder`, and of the run's weights that the model was
    made of, where there are any."""
    files = {file.name: file_hash(file) for file in sorted(folder.iterdir())}
    values = {"format": to_format, "weights": weights, "files": files}
    write_text(folder / CHECKSUMS_NAME, json.dumps(with_checksum(values), indent=1) + "\n")


def check_export(folder: Path) -> int:
    """How many files the folder has; one that is missing, or not the one that was exported, is
    refused."""
    to_format = FORMAT
    try:
        values = checked_object((folder / CHECKSUMS_NAME).read_bytes())
        files, to_format = dict[str, str](values["files"]), str(values.get("format", FORMAT))
    except (OSError, ValueError, KeyError, TypeError) as error:
        again = f"make it again with `anydepth export RUN --format {to_format}`"
        raise RunError(f"{folder / CHECKSUMS_NAME} cannot be read ({error}); {again}") from error
    again = f"make it again with `anydepth export RUN --format {to_format}`"
    for name, expected in files.items():
        if not (folder / name).is_file():
            raise RunError(f"{folder / name} is missing; {again}")
        if file_hash(folder / name) != expected:
            raise RunError(f"{folder / name} is damaged (its checksum differs); {again}")
    return len(files)


def write_ctranslate2(
    model: Transformer,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    folder: Path,
    *,
    exit: int,
    quantization: str | None,
    unknown: str | None = None,
) -> None:
    """Writes `model` cut at `exit` into the existing `folder`; pieces that it does not know become
    `unknown`, which is UNK's unless given."""
    spec = make_spec(model, exit=exit)
    spec.register_source_vocabulary(list(source_pieces))
    spec.register_target_vocabulary(list(target_pieces))
    spec.config.bos_token = spec.config.decoder_start_token = target_pieces[BOS]
    spec.config.eos_token, spec.config.unk_token = target_pieces[EOS], unknown or target_pieces[UNK]
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))


def check_expressible(model: Transformer, *, exit: int, format_name: str) -> None:
    """Refuses a model or an exit that the format of another program cannot express."""
    if reason := inexpressible(model.config, exit=exit, format_name=format_name):
        raise UsageError(reason)


def inexpressible(config: ModelConfig, *, exit: int, format_name: str = "CTranslate2") -> str | None:
    """Why the format of another program cannot express a model cut at `exit`, if it cannot."""
    if config.attends_first and exit > 1:
        return (
            "blocks above the first attend to the states after block 1 (model.attended_states = "
            f'"{config.attended_states}"), which '
            f"{format_name}'s format cannot express; export exit 1, or --format onnx"
        )
    if config.exit_adapter and exit < config.blocks:
        return (
            f"exit {exit} has an adapter (model.exit_adapter = {config.exit_adapter}) between its state and its "
            f"classifier, which {format_name}'s format cannot express; export exit {config.blocks}, which has none"
        )
    return None


def make_spec(model: Transformer, *, exit: int) -> Spec:
    """CTranslate2's description of `model` without the blocks above `exit`, weights included."""
    check_expressible(model, exit=exit, format_name="CTranslate2")
    specs, config = load_ctranslate2().specs, model.config
    variation = {"pre_norm": False, "activation": _activation(config.activation)}
    encoder = specs.TransformerEncoderSpec(config.encoder.blocks, config.encoder_heads, **variation)
    decoder = specs.TransformerDecoderSpec(exit, config.heads, **variation)
    encoder.scale_embeddings = decoder.scale_embeddings = config.scale_embeddings
    _set_inputs(encoder.embeddings[0], encoder.position_encodings, model.source_embedding, config)
    _set_inputs(decoder.embeddings, decoder.position_encodings, model.target_embedding, config)
    for layer, module in zip(encoder.layer, model.encoder, strict=True):
        block = cast(EncoderBlock, module)
        _set_self_attention(layer.self_attention, block.attention, block.attention_norm)
        _set_feed_forward(layer.ffn, block.feed_forward, block.feed_forward_norm)
    for layer, module in zip(decoder.layer, list(model.decoder)[:exit], strict=True):
        below = cast(DecoderBlock, module)
        _set_self_attention(layer.self_attention, below.self_attention, below.self_attention_norm)
        _set_source_attention(layer.attention, below.source_attention, below.source_attention_norm)
        _set_feed_forward(layer.ffn, below.feed_forward, below.feed_forward_norm)
    decoder.projection.weight = _values(model.classifier(exit))
    if model.output_bias is not None:
        # what bans a word may be more than float16 can hold
        is_banned = model.output_bias <= BANNING_BIAS
        decoder.projection.bias = _values(model.output_bias.masked_fill(is_banned, -math.inf))
    return specs.TransformerSpec(encoder, decoder)


def search_options(settings: SearchSettings, *, limit: int) -> dict[str, Any]:
    """The options of CTranslate2's `translate_batch` that make it search as we do; no output is
    longer than `limit`, EOS included.

    Its beam keeps twice as many candidates, ends with as many hypotheses and divides by the length
    as ours does, but by default it forbids an empty output, which changes what the others have to
    beat. It does not ban PAD, BOS and UNK, which no trained model wants, and at the limit it cuts a
    hypothesis that ours would end with EOS.
    """
    return {
        "beam_size": settings.beam,
        "patience": 1,
        "length_penalty": settings.length_penalty,
        "num_hypotheses": settings.best,
        "return_end_token": True,
        "max_input_length": 0,
        "min_decoding_length": settings.exact_length or 0,
        "max_decoding_length": limit,
    }


def load_ctranslate2() -> ModuleType:
    """The package, or how to get it."""
    try:
        import ctranslate2
        import ctranslate2.specs
    except ImportError as error:
        raise UsageError(
            "this needs the package ctranslate2; get it with `pip install 'anydepth[ctranslate2]'`"
        ) from error
    return cast(ModuleType, ctranslate2)


def _activation(name: Activation) -> Spec:
    activations = load_ctranslate2().specs.common_spec.Activation
    return {"relu": activations.RELU, "gelu": activations.GELU, "swish": activations.SWISH}[name]


def _set_inputs(embeddings: Spec, positions: Spec, table: nn.Embedding, config: ModelConfig) -> None:
    # CTranslate2 multiplies by sqrt(dim), too, but its own sinusoids begin at position 1.
    embeddings.weight = _values(table.weight)
    length = max(POSITIONS, config.max_length + 1)
    positions.encodings = sinusoids(length, table.embedding_dim, config.positions).numpy()


def _set_self_attention(spec: Spec, attention: Attention, norm: nn.LayerNorm) -> None:
    _set_linear(spec.linear[0], attention.query, attention.key, attention.value)
    _set_linear(spec.linear[1], attention.output)
    _set_norm(spec.layer_norm, norm)


def _set_source_attention(spec: Spec, attention: Attention, norm: nn.LayerNorm) -> None:
    _set_linear(spec.linear[0], attention.query)
    _set_linear(spec.linear[1], attention.key, attention.value)  # from a memory of any width
    _set_linear(spec.linear[2], attention.output)
    _set_norm(spec.layer_norm, norm)


def _set_feed_forward(spec: Spec, network: FeedForward, norm: nn.LayerNorm) -> None:
    _set_linear(spec.linear_0, network.inner)
    _set_linear(spec.linear_1, network.outer)
    _set_norm(spec.layer_norm, norm)


def _set_linear(spec: Spec, *linears: nn.Linear) -> None:
    """One product for all of `linears`, one below the other."""
    spec.weight = _values(torch.cat([linear.weight for linear in linears]))
    spec.bias = _values(torch.cat([linear.bias for linear in linears]))


def _set_norm(spec: Spec, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _values(norm.weight), _values(norm.bias)


def _values(tensor: Tensor) -> Any:
    # A copy, because CTranslate2 scales weights in place when it quantizes them.
    return tensor.detach().cpu().float().numpy().copy()
