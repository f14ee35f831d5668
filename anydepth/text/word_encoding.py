"""Lines as the bytes of their token ids; where a model cuts every word by itself, each is cut once
and remembered."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from anydepth.text.marian import AnyTokenizer
from anydepth.text.tokenizer import WORD_START, Tokenizer
from anydepth.text.tokens import token_type

MOST_WORDS = 2**18  # remembered at a time: some 50 MB
LONGEST_REMEMBERED = 64  # characters; longer words hardly come again

# Fields of SentencePiece's model file, and the values that matter (sentencepiece_model.proto).
PIECE, TRAINER, NORMALIZER = 1, 2, 3
PIECE_TEXT, PIECE_TYPE = 1, 3
MODEL_TYPE, SPACE_IS_SUFFIX, BYTE_FALLBACK = 3, 24, 35
CHARACTER_MAP, DUMMY_PREFIX, REMOVE_SPACES, ESCAPE_SPACES = 2, 3, 4, 5
BPE, NORMAL, USER_DEFINED, UNUSED = 2, 1, 4, 5
VARINT, EIGHT_BYTES, COUNTED, FOUR_BYTES = 0, 1, 2, 5  # how a field is written


class WholeLines:
    """What the tokenizer makes of whole lines: the specification, for any model."""

    def __init__(self, tokenizer: AnyTokenizer, *, threads: int | None = None) -> None:
        self._tokenizer, self._threads = tokenizer, threads
        self._type = token_type(tokenizer.size)

    def encode(self, lines: Sequence[str]) -> list[bytes]:
        """The ids of each line, as they stand in a token file."""
        return [
            np.array(ids, self._type).tobytes() for ids in self._tokenizer.encode_lines(lines, threads=self._threads)
        ]


class SingleWords:
    """The same for a tokenizer of which `cuts_words_alone` is true: words are cut one at a time,
    and those met before are looked up."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._words = RememberedWords(tokenizer)

    def encode(self, lines: Sequence[str]) -> list[bytes]:
        """The ids of each line, as they stand in a token file."""
        ids_of = self._words.__getitem__
        return [b"".join(map(ids_of, line.split(" "))) if line else b"" for line in lines]


LineEncoder: TypeAlias = WholeLines | SingleWords


class RememberedWords(dict[str, bytes]):
    """The ids of a space and a word by the word; one that is not there is cut, and remembered
    unless it is long."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._type = token_type(tokenizer.size)

    def __missing__(self, word: str) -> bytes:
        ids = self._tokenizer.encode(word or " ")
        if not word:  # its space is half of what a line of one space gives, as another comes before each line
            ids = ids[: len(ids) // 2]
        data = np.array(ids, self._type).tobytes()
        if len(word) <= LONGEST_REMEMBERED:
            if len(self) >= MOST_WORDS:
                self.clear()
            self[word] = data
        return data


def line_encoder(tokenizer: AnyTokenizer, *, threads: int | None) -> LineEncoder:
    """The quickest encoder that gives what the tokenizer gives for whole lines."""
    if isinstance(tokenizer, Tokenizer) and cuts_words_alone(tokenizer.model_bytes):
        return SingleWords(tokenizer)
    return WholeLines(tokenizer, threads=threads)


def cuts_words_alone(model_bytes: bytes) -> bool:
    """Whether this SentencePiece model cuts a line as it cuts each of its words with the space
    before it.

    It does if it merges pairs (BPE), takes text as it is, spells what it lacks in bytes, and no
    piece has a space after its first character. A merge joins two neighbours to a piece of the
    vocabulary, so none goes over the start of a word; which merge comes first depends on the
    pieces' ranks alone, so merges inside a word never wait for those of another. A unigram model
    adds up scores over the whole line, whose rounding may decide between equals, and normalizers
    may look at neighbours: such models get whole lines.
    """
    try:
        parts = [*_fields(model_bytes)]
        trainer = _settings_of(parts, TRAINER)
        normalizer = _settings_of(parts, NORMALIZER)
        pieces = [dict(_fields(value)) for number, value in parts if number == PIECE and isinstance(value, bytes)]
    except (IndexError, ValueError):
        return False
    is_plain = not normalizer.get(CHARACTER_MAP) and bool(normalizer.get(ESCAPE_SPACES, True))
    is_touched = normalizer.get(DUMMY_PREFIX, True) or normalizer.get(REMOVE_SPACES, True)
    is_in_bytes = bool(trainer.get(BYTE_FALLBACK, False)) and not trainer.get(SPACE_IS_SUFFIX, False)
    is_bpe = trainer.get(MODEL_TYPE) == BPE
    return is_bpe and is_in_bytes and is_plain and not is_touched and all(map(_stays_in_a_word, pieces))


def _stays_in_a_word(piece: Mapping[int, int | bytes]) -> bool:
    text, kind = piece.get(PIECE_TEXT, b""), piece.get(PIECE_TYPE, NORMAL)
    if kind in (USER_DEFINED, UNUSED):
        return False
    return kind != NORMAL or (isinstance(text, bytes) and text.rfind(WORD_START.encode()) <= 0)


def _settings_of(parts: Sequence[tuple[int, int | bytes]], wanted: int) -> dict[int, int | bytes]:
    """The fields of a message that may stand in several parts; the last value of each counts."""
    return dict(
        field for number, value in parts if number == wanted and isinstance(value, bytes) for field in _fields(value)
    )


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a protocol buffer's message; an IndexError or ValueError if
    it is none."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        if key & 7 == VARINT:
            value, place = _varint(message, place)
            yield key >> 3, value
            continue
        if key & 7 == COUNTED:
            size, place = _varint(message, place)
        elif key & 7 in (EIGHT_BYTES, FOUR_BYTES):
            size = 8 if key & 7 == EIGHT_BYTES else 4
        else:
            raise ValueError(key)
        yield key >> 3, message[place : place + size]
        place += size


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """The number that is written at `place`, seven bits a byte, and the place after it."""
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return value, place
