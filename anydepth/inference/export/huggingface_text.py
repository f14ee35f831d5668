"""The vocabularies and tokenizers of a run as MarianMT's files, and the order of words that they
have; and what other exports have of them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from anydepth.inference.adopt.marian_tensors import NEVER
from anydepth.inference.adopt.marian_text import TOKENIZER_CLASS
from anydepth.model.transformer import Transformer
from anydepth.runs.run import Run
from anydepth.text.marian import END_PIECE, PAD_PIECE, UNKNOWN_PIECE, AnyTokenizer, MarianTokenizer
from anydepth.text.tokenizer import BOS, EOS, PAD, UNK

VOCABULARY_NAME = "vocab.json"
# Merged into a SentencePiece model it sets normalizer_spec.add_dummy_prefix: here a space is put
# before every text, there the model has to do it.
DUMMY_PREFIX = b"\x1a\x02\x18\x01"


@dataclass(frozen=True, eq=False)
class ExportedText:
    """The files of the tokenizer; our id of each row of their vocabularies; the bias of each row of
    the target's; and the rows that are special."""

    files: dict[str, bytes]
    is_joint: bool
    source_ids: list[int]
    target_ids: list[int]
    bias: Float[Tensor, " row"]
    padding: int
    start: int
    end: int
    banned: list[int]  # rows that are never produced
    is_renormalized: bool  # whether they are out of the softmax


def exported_text(run: Run, model: Transformer) -> ExportedText:
    """What MarianMT's format has of the run's words."""
    source, target = run.tokenizers()
    files = {**_spm_files(source, target), **_vocabulary_files(run, [_rows(source), _rows(target)], target)}
    words = target.size
    bias = torch.zeros(words) if model.output_bias is None else model.output_bias.detach().float()
    if not isinstance(target, MarianTokenizer) or not isinstance(source, MarianTokenizer):
        ids = list(range(words))
        banned = [PAD, BOS, UNK]  # search bans them after the softmax, as transformers does
        sources = list(range(source.size))
        return ExportedText(files, run.is_joint, sources, ids, bias, PAD, BOS, EOS, banned, False)
    vocabulary, ids = target.vocabulary, target.vocabulary.ids
    assert vocabulary.start is not None
    is_renormalized = vocabulary.is_start_banned and bool(bias[BOS] <= NEVER / 2)
    rows = bias[ids]
    banned = [vocabulary.start] if vocabulary.is_start_banned else []
    if is_renormalized:  # then a ban says it all, and the score can be one that half precision holds
        banned = (rows <= NEVER / 2).nonzero()[:, 0].tolist()
        rows = rows.where(rows > NEVER / 2, torch.zeros(()))
    return ExportedText(
        files,
        run.is_joint,
        source.vocabulary.ids,
        ids,
        rows,
        vocabulary.start,
        vocabulary.start,
        vocabulary.end,
        banned,
        is_renormalized,
    )


def text_files(run: Run) -> dict[str, bytes]:
    """What programs that run the model in our numbering need to make tokens of text: our
    SentencePiece models, or the files of an adopted run's tokenizer with our number of each
    piece."""
    source, target = run.tokenizers()
    if not isinstance(source, MarianTokenizer):
        return {file.name: run.seal.read(file) for file in sorted(run.folder.glob("tokenizer*.model"))}
    numbers = [{name: number for number, name in enumerate(each.pieces(range(each.size)))} for each in (source, target)]
    return {**_spm_files(source, target), **_vocabulary_files(run, numbers, target)}


def _spm_files(source: AnyTokenizer, target: AnyTokenizer) -> dict[str, bytes]:
    """source.spm and target.spm: as they were adopted, or ours with a space before every text."""
    if isinstance(source, MarianTokenizer) and isinstance(target, MarianTokenizer):
        models = [source.spm_bytes(), target.spm_bytes(is_target=True)]
    else:
        models = [each.model_bytes + DUMMY_PREFIX for each in (source, target)]
    return dict(zip(("source.spm", "target.spm"), models, strict=True))


def _vocabulary_files(run: Run, numbers: Sequence[dict[str, int]], target: AnyTokenizer) -> dict[str, bytes]:
    """vocab.json, target_vocab.json where there are two vocabularies, and tokenizer_config.json;
    `numbers` are those of the source's pieces and of the target's."""
    names = [VOCABULARY_NAME] if run.is_joint else [VOCABULARY_NAME, "target_vocab.json"]
    files = {name: _json(each) for name, each in zip(names, numbers, strict=False)}
    note = run.data_note()
    settings = {
        "tokenizer_class": TOKENIZER_CLASS,
        "source_lang": note["source_lang"],
        "target_lang": note["target_lang"],
        "separate_vocabs": not run.is_joint,
        "model_max_length": run.config.model.max_length + 1,
        "eos_token": END_PIECE,
        "unk_token": UNKNOWN_PIECE,
        "pad_token": PAD_PIECE,
        "clean_up_tokenization_spaces": isinstance(target, MarianTokenizer) and target.is_cleaned_up,
    }
    return {**files, "tokenizer_config.json": _json(settings)}


def _rows(tokenizer: AnyTokenizer) -> dict[str, int]:
    """The row of each piece."""
    if isinstance(tokenizer, MarianTokenizer):
        pieces = list(tokenizer.vocabulary.pieces)
    else:
        pieces = tokenizer.pieces(range(tokenizer.size))
    return {piece: row for row, piece in enumerate(pieces)}


def _json(values: object) -> bytes:
    return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()
