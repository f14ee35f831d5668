"""The tokenizer of an adopted MarianMT model: its SentencePiece models cut the text, its own
vocabulary numbers the pieces."""

import base64
import binascii
import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, SupportsIndex, TypeAlias

import sentencepiece

from anydepth.errors import CorpusError
from anydepth.files import atomic
from anydepth.files.reading import Unreadable, json_of, shown
from anydepth.limits import MOST_PIECES
from anydepth.text.tokenizer import BOS, EOS, PAD, UNK, WORD_START, Tokenizer, check_unicode, stored_tokenizer

KIND = "marian"
FORMAT = 1
END_PIECE, UNKNOWN_PIECE, PAD_PIECE = "</s>", "<unk>", "<pad>"
# transformers finds these in any text, and leaves them out of what it decodes.
SPECIAL_PIECES = (END_PIECE, UNKNOWN_PIECE, PAD_PIECE)
SPECIAL = re.compile(f"({'|'.join(map(re.escape, SPECIAL_PIECES))})")
LANGUAGE_START, LANGUAGE_END = ">>", "<<"
# What transformers' `clean_up_tokenization` replaces, in its order.
CLEANED = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")


@dataclass(frozen=True)
class MarianVocabulary:
    """The pieces of a MarianMT vocabulary by their rows, and which of them are special.

    Here PAD, BOS, EOS and UNK are 0 to 3, and only search knows that three of them are never
    produced. `start`, where decoding starts, is BOS; it stands among the others once more where the
    model may produce it. PAD and UNK stand for no row: transformers lets a model produce its own
    `<unk>`, so that is a piece like any other.
    """

    pieces: tuple[str, ...]
    end: int
    unknown: int
    start: int | None = None  # none on a source side that shares nothing with the target
    is_start_banned: bool = True

    @cached_property
    def rows(self) -> list[int | None]:
        """The row of each of our ids; None where there is none."""
        first: list[int | None] = [None] * 4
        first[BOS], first[EOS] = self.start, self.end
        alone = {self.end, self.start} if self.is_start_banned else {self.end}
        return [*first, *(row for row in range(len(self.pieces)) if row not in alone)]

    @cached_property
    def ids(self) -> list[int]:
        """Our id of each row."""
        found = {row: number for number, row in enumerate(self.rows) if row is not None and number != BOS}
        return [found.get(row, BOS) for row in range(len(self.pieces))]

    @cached_property
    def names(self) -> list[str]:
        """The piece of each of our ids, all of them different."""
        names = ["" if row is None else self.pieces[row] for row in self.rows]
        taken = set(self.pieces)
        for number, word in ((PAD, "padding"), (BOS, "start"), (UNK, "unused")):
            row = self.rows[number]
            if row is None or self.ids[row] != number:
                names[number] = next(name for depth in range(1, 99) if (name := "<" * depth + word + ">") not in taken)
        return names

    def problem(self) -> str | None:
        """What is impossible about it, as a phrase; None if it is sound."""
        count = len(self.pieces)
        if not 1 <= count <= MOST_PIECES:
            return f"it has {count:,} pieces"
        if len(set(self.pieces)) < count:
            return "it has a piece twice"
        rows = {"end": self.end, "unknown": self.unknown, "start": self.end if self.start is None else self.start}
        if bad := next((name for name, row in rows.items() if not 0 <= row < count), None):
            return f"its {bad} is row {rows[bad]} of {count:,}"
        return "its end, start and unknown piece are one" if self.end == self.unknown else None


class MarianTokenizer:
    """One side of a MarianMT model's text, with the interface of `Tokenizer`.

    A leading >>xx<< is a piece of its own, special pieces in the text are themselves, and all other
    pieces come from SentencePiece and are looked up in the vocabulary; one that it lacks is unknown.
    Punctuation stays as it is, with sacremoses or without: transformers has a normaliser, but its
    tokenizer does not call it.
    """

    def __init__(self, model_bytes: bytes, *, is_target: bool = False) -> None:
        self.model_bytes = model_bytes
        values = _read(model_bytes)
        own, target = _processor(values, "spm"), _processor(values, "target_spm")
        self.has_target_side = target is not None
        self._decoder = own
        self._encoder = target if is_target and target is not None else own
        self.vocabulary = _vocabulary(values)
        self.is_cleaned_up = bool(values.get("clean_up"))
        ids = self.vocabulary.ids
        self._ids = dict(zip(self.vocabulary.pieces, ids, strict=True))
        self._unknown = ids[self.vocabulary.unknown]
        special = {self._ids[piece] for piece in SPECIAL_PIECES if piece in self._ids}
        self._unwritten = special | {PAD, BOS, EOS, UNK}
        self._names = self.vocabulary.names

    @classmethod
    def of(
        cls, vocabulary: MarianVocabulary, *, spm: bytes, target_spm: bytes | None = None, clean_up: bool = False
    ) -> "MarianTokenizer":
        """The tokenizer of a vocabulary: `spm` cuts and joins its texts, and where one vocabulary
        serves both sides `target_spm` cuts those of the target.

        transformers joins with the source's model where the vocabulary is one, and with the
        target's where there are two.
        """
        values = {
            "kind": KIND,
            "format": FORMAT,
            "spm": base64.b64encode(spm).decode(),
            "target_spm": None if target_spm is None else base64.b64encode(target_spm).decode(),
            "end": vocabulary.end,
            "unknown": vocabulary.unknown,
            "start": vocabulary.start,
            "is_start_banned": vocabulary.is_start_banned,
            "clean_up": clean_up,
            "pieces": list(vocabulary.pieces),
        }
        return cls(json.dumps(values).encode())

    def target_side(self) -> "MarianTokenizer":
        """The tokenizer of the target's texts, in the same vocabulary."""
        return MarianTokenizer(self.model_bytes, is_target=True)

    def spm_bytes(self, *, is_target: bool = False) -> bytes:
        """The SentencePiece model of this side, or that of the target, as it was adopted."""
        values = _read(self.model_bytes)
        name = "target_spm" if is_target and values.get("target_spm") is not None else "spm"
        return base64.b64decode(values[name])

    def save(self, path: Path) -> None:
        """Writes the tokenizer to `path`, whole or not at all."""
        atomic.write_bytes(path, self.model_bytes)

    @property
    def size(self) -> int:
        """Number of ids: the vocabulary's pieces, and what PAD, BOS and UNK add to them."""
        return len(self._names)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the model bytes, in hexadecimal: equal tokenizers have equal fingerprints."""
        return hashlib.sha256(self.model_bytes).hexdigest()

    def encode(self, text: str) -> list[int]:
        """Ids of `text`, without EOS."""
        return self.encode_lines([text])[0]

    def encode_lines(self, lines: Sequence[str], *, threads: int | None = None) -> list[list[int]]:
        """What `encode` gives for each line; SentencePiece runs in so many threads, by default on
        all processors."""
        for line in lines:
            check_unicode(line)
        parts = [_parts(line) for line in lines]
        texts = [text for line in parts for text, is_whole in line if not is_whole]
        cut = iter(self._encoder.encode(texts, out_type=str, num_threads=threads or os.cpu_count() or 1))
        return [
            [
                self._ids.get(piece, self._unknown)
                for text, is_whole in line
                for piece in ([text] if is_whole else next(cut))
            ]
            for line in parts
        ]

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """The text of `ids` as transformers writes it without special pieces."""
        pieces = self.pieces(each for each in ids if int(each) not in self._unwritten)
        text: str = self._decoder.decode_pieces(pieces).replace(WORD_START, " ").strip()
        if self.is_cleaned_up:
            for written in CLEANED:
                text = text.replace(written, written.strip())
        return text

    def pieces(self, ids: Iterable[SupportsIndex]) -> list[str]:
        """The pieces as people read them: U+2581 marks the start of a word."""
        return [self._names[int(each)] for each in ids]


AnyTokenizer: TypeAlias = Tokenizer | MarianTokenizer


def tokenizer_of(data: bytes, path: Path) -> AnyTokenizer:
    """The tokenizer in `data`, the contents of the file at `path`, of whichever kind it is."""
    if not data.startswith(b"{"):  # no SentencePiece model does
        return Tokenizer.from_bytes(data, path)
    try:
        return MarianTokenizer(data)
    except CorpusError as error:
        raise CorpusError(f"{path} is not a tokenizer: {error}") from error


def load_tokenizer(path: Path) -> AnyTokenizer:
    """The tokenizer that `save` wrote to `path`, of whichever kind it is."""
    return tokenizer_of(stored_tokenizer(path), path)


def target_side(tokenizer: AnyTokenizer) -> AnyTokenizer:
    """The tokenizer of the target's texts where `tokenizer` is of a joint vocabulary."""
    return tokenizer.target_side() if isinstance(tokenizer, MarianTokenizer) else tokenizer


def check_spm(data: bytes) -> None:
    """Refuses bytes that are no SentencePiece model."""
    try:
        # Empty bytes would make a processor without a model rather than an error.
        processor = sentencepiece.SentencePieceProcessor(model_proto=data or b"empty")
        processor.id_to_piece(list(range(processor.get_piece_size())))
    except (RuntimeError, UnicodeDecodeError) as error:
        raise CorpusError("these bytes are not a SentencePiece model") from error


def _parts(line: str) -> list[tuple[str, bool]]:
    """The line cut into texts and whole pieces: special ones, and the language that a text begins
    with."""
    parts: list[tuple[str, bool]] = []
    for text in SPECIAL.split(line):
        if not text:
            continue
        if text in SPECIAL_PIECES:
            parts.append((text, True))
            continue
        if text.startswith(LANGUAGE_START) and (end := text.find(LANGUAGE_END)) != -1:
            code, text = text[: end + len(LANGUAGE_END)], text[end + len(LANGUAGE_END) :]
            parts.append((code, True))
        parts.append((text, False))
    return parts


def _read(data: bytes) -> dict[str, Any]:
    try:
        values = json_of(data)
    except Unreadable as error:
        raise CorpusError(f"{error}; adopt the model again") from error
    if not isinstance(values, dict) or (values.get("kind"), values.get("format")) != (KIND, FORMAT):
        raise CorpusError(f"it is not of kind {KIND}, format {FORMAT}; adopt the model again")
    return values


def _processor(values: dict[str, Any], name: str) -> Any:
    text = values.get(name)
    if name == "target_spm" and text is None:
        return None
    try:
        data = base64.b64decode(text if isinstance(text, str) else "", validate=True)
    except (binascii.Error, ValueError) as error:
        raise CorpusError(f"its {name} is not base64; adopt the model again") from error
    check_spm(data)
    return sentencepiece.SentencePieceProcessor(model_proto=data)


def _vocabulary(values: dict[str, Any]) -> MarianVocabulary:
    pieces, start, banned = (values.get(name) for name in ("pieces", "start", "is_start_banned"))
    numbers = [values.get("end"), values.get("unknown"), *([] if start is None else [start])]
    is_typed = isinstance(pieces, list) and all(isinstance(piece, str) for piece in pieces)
    if not is_typed or not all(type(each) is int for each in numbers) or not isinstance(banned, bool):
        raise CorpusError(f"its vocabulary cannot be {shown(numbers)} of pieces; adopt the model again")
    vocabulary = MarianVocabulary(tuple(pieces or ()), numbers[0], numbers[1], start, banned)
    if problem := vocabulary.problem():
        raise CorpusError(f"{problem}; adopt the model again")
    return vocabulary
