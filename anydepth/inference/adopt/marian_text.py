"""The tokenizers of a MarianMT folder: source.spm, target.spm, vocab.json and what
tokenizer_config.json says of them."""

from typing import Any

from anydepth.errors import AdoptionError
from anydepth.inference.adopt.marian_settings import MarianSettings
from anydepth.inference.adopt.model_folder import ModelFolder
from anydepth.text.marian import (
    END_PIECE,
    PAD_PIECE,
    SPECIAL_PIECES,
    UNKNOWN_PIECE,
    MarianTokenizer,
    MarianVocabulary,
)

TOKENIZER_CLASS = "MarianTokenizer"


def read_tokenizer_settings(folder: ModelFolder, *, is_shared: bool) -> dict[str, Any]:
    """The settings of the tokenizer; those that change pieces in a way that is not known here are
    refused."""
    values, origin = folder.optional_settings("tokenizer_config.json"), folder.path / "tokenizer_config.json"
    if values.get("tokenizer_class") not in (None, TOKENIZER_CLASS):
        raise AdoptionError(f"{origin} has tokenizer_class = {values['tokenizer_class']!r}, not {TOKENIZER_CLASS}")
    if bool(values.get("separate_vocabs")) == is_shared and "separate_vocabs" in values:
        raise AdoptionError(
            f"{origin} has separate_vocabs = {values['separate_vocabs']}, but config.json has "
            f"share_encoder_decoder_embeddings = {is_shared}"
        )
    for name, piece in (("eos_token", END_PIECE), ("unk_token", UNKNOWN_PIECE), ("pad_token", PAD_PIECE)):
        if _content(values.get(name, piece)) != piece:
            raise AdoptionError(f"{origin} has {name} = {values[name]!r}, but only {piece!r} is known here")
    for name in ("sp_model_kwargs", "additional_special_tokens", "extra_special_tokens", "split_special_tokens"):
        if values.get(name):
            raise AdoptionError(f"{origin} has {name} = {values[name]!r}, which is not known here")
    added = values.get("added_tokens_decoder") or {}
    contents = [_content(each) for each in added.values()] if isinstance(added, dict) else [added]
    if odd := [each for each in contents if each not in SPECIAL_PIECES]:
        raise AdoptionError(f"{origin} adds the token {odd[0]!r} to the vocabulary, which is not known here")
    stripping = ("lstrip", "rstrip", "single_word")
    for each in added.values() if isinstance(added, dict) else ():
        if isinstance(each, dict) and any(each.get(name) for name in stripping):
            raise AdoptionError(f"{origin} strips what stands beside {each['content']!r}, which is not known here")
    if folder.has("added_tokens.json") and (more := set(folder.settings("added_tokens.json")) - {*SPECIAL_PIECES}):
        raise AdoptionError(
            f"{folder.path / 'added_tokens.json'} adds the token {min(more)!r}, which is not known here"
        )
    return values


def read_tokenizers(
    folder: ModelFolder, settings: MarianSettings, *, clean_up: bool
) -> tuple[dict[str, MarianTokenizer], tuple[MarianVocabulary, MarianVocabulary]]:
    """The tokenizers by the names of their files in a run, and the vocabularies of both sides."""
    source_spm, target_spm = (folder.spm(f"{side}.spm") for side in ("source", "target"))
    is_banned = settings.start in settings.banned
    if settings.is_shared:
        pieces = read_pieces(folder, "vocab.json", settings.target_size, end=settings.end)
        joint = MarianVocabulary(pieces, settings.end, pieces.index(UNKNOWN_PIECE), settings.start, is_banned)
        tokenizer = MarianTokenizer.of(joint, spm=source_spm, target_spm=target_spm, clean_up=clean_up)
        return {"tokenizer.model": tokenizer}, (joint, joint)
    pieces = read_pieces(folder, "vocab.json", settings.source_size)
    source = MarianVocabulary(pieces, pieces.index(END_PIECE), pieces.index(UNKNOWN_PIECE))
    pieces = read_pieces(folder, "target_vocab.json", settings.target_size, end=settings.end)
    target = MarianVocabulary(pieces, settings.end, pieces.index(UNKNOWN_PIECE), settings.start, is_banned)
    tokenizers = {
        "tokenizer.source.model": MarianTokenizer.of(source, spm=source_spm, clean_up=clean_up),
        "tokenizer.target.model": MarianTokenizer.of(target, spm=target_spm, clean_up=clean_up),
    }
    return tokenizers, (source, target)


def read_pieces(folder: ModelFolder, name: str, size: int, *, end: int | None = None) -> tuple[str, ...]:
    """The pieces of a vocabulary by their rows, which must be all of 0 to `size` - 1."""
    values, origin = folder.vocabulary(name), folder.path / name
    if PAD_PIECE not in values and len(values) == size - 1:
        values = {**values, PAD_PIECE: size - 1}  # transformers adds it there
    if len(values) != size or set(values.values()) != set(range(size)):
        raise AdoptionError(
            f"{origin} has {len(values):,} pieces in rows {min(values.values(), default=0)} to "
            f"{max(values.values(), default=0)}, but config.json asks for each of {size:,} rows once"
        )
    for piece in (END_PIECE, UNKNOWN_PIECE):
        if piece not in values:
            raise AdoptionError(f"{origin} has no piece {piece}")
    if end is not None and values[END_PIECE] != end:
        raise AdoptionError(
            f"{origin} has {END_PIECE} in row {values[END_PIECE]}, but config.json has eos_token_id = {end}"
        )
    return tuple(sorted(values, key=values.__getitem__))


def _content(token: object) -> object:
    """The text of a token that may be written as an object with its properties."""
    return token.get("content") if isinstance(token, dict) else token
