"""SentencePiece subwords that give every string back exactly, with bytes for whatever the
vocabulary lacks."""

import hashlib
import io
import math
import os
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import SupportsIndex

import sentencepiece

from anydepth.errors import CorpusError
from anydepth.files import atomic
from anydepth.files.reading import LARGE, Unreadable, read_bytes
from anydepth.messages.heartbeat import with_heartbeat
from anydepth.messages.say import Say, say_nothing

PAD, BOS, EOS, UNK = 0, 1, 2, 3

# SentencePiece writes a space as this character, so the character itself can only travel as its
# three bytes.
WORD_START = "\u2581"
# Characters that make up the remaining hundredth of a percent of a corpus are spelled in bytes.
CHARACTER_COVERAGE = 0.9999
# SentencePiece ends the whole process at a word of 65,536 characters, and learns nothing from a
# long one that others would share.
LONGEST_WORD = 10_000


class Tokenizer:
    """A SentencePiece model; a space is put before every text, so that a first word is the same
    piece as a later one."""

    def __init__(self, model_bytes: bytes) -> None:
        self.model_bytes = model_bytes
        try:
            # Empty bytes would make a processor without a model rather than an error.
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model_bytes or b"empty")
        except RuntimeError as error:
            raise CorpusError("these bytes are not a SentencePiece model; prepare the data again") from error
        processor = self._processor
        controls = (processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id())
        if controls != (PAD, BOS, EOS, UNK):
            raise CorpusError(
                f"the SentencePiece model has pad, bos, eos, unk = {controls} but must have {(PAD, BOS, EOS, UNK)}; "
                "train it with train_tokenizer"
            )
        try:
            self._pieces: list[str] = processor.id_to_piece(list(range(processor.get_piece_size())))
        except UnicodeDecodeError as error:
            raise CorpusError("the SentencePiece model has pieces that are no text; prepare the data again") from error
        self._word_start_bytes = [processor.piece_to_id(f"<0x{byte:02X}>") for byte in WORD_START.encode()]

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """The tokenizer that `save` wrote to `path`."""
        return cls.from_bytes(stored_tokenizer(path), path)

    @classmethod
    def from_bytes(cls, data: bytes, path: Path) -> "Tokenizer":
        """The tokenizer in `data`, the contents of the file at `path`."""
        try:
            return cls(data)
        except CorpusError as error:
            raise CorpusError(f"{path} is not a tokenizer: {error}") from error

    def save(self, path: Path) -> None:
        """Writes the model to `path`, whole or not at all."""
        atomic.write_bytes(path, self.model_bytes)

    @property
    def size(self) -> int:
        """Number of pieces, the four control pieces and the 256 bytes included."""
        return int(self._processor.get_piece_size())

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the model bytes, in hexadecimal: equal tokenizers have equal fingerprints."""
        return hashlib.sha256(self.model_bytes).hexdigest()

    def encode(self, text: str) -> list[int]:
        """Piece ids of `text`, without BOS and EOS; an empty text has none."""
        check_unicode(text)
        if not text:
            return []
        first, *others = f" {text}".split(WORD_START)
        ids = list(self._processor.encode(first))
        for other in others:
            ids += self._word_start_bytes
            ids += self._processor.encode(other)
        return ids

    def encode_lines(self, lines: Sequence[str], *, threads: int | None = None) -> list[list[int]]:
        """What `encode` gives for each line, computed by so many threads; by default on all
        processors."""
        plain = [f" {line}" if line and WORD_START not in line else "" for line in lines]
        try:
            encoded: list[list[int]] = self._processor.encode(plain, num_threads=threads or os.cpu_count() or 1)
        except (RuntimeError, TypeError, UnicodeError):  # a lone surrogate somewhere: encode says where
            return [self.encode(line) for line in lines]
        return [ids or self.encode(line) for line, ids in zip(lines, encoded, strict=True)]

    def decode(self, ids: Iterable[SupportsIndex]) -> str:
        """The text of `ids`; PAD, BOS and EOS are passed over, and bytes that are no UTF-8 become
        U+FFFD."""
        text: str = self._processor.decode([int(piece) for piece in ids])
        return text.removeprefix(" ")

    def pieces(self, ids: Iterable[SupportsIndex]) -> list[str]:
        """The pieces as people read them: U+2581 marks the start of a word, <0xE2> is a byte."""
        return [self._pieces[int(piece)] for piece in ids]


def stored_tokenizer(path: Path) -> bytes:
    """The contents of a tokenizer's file."""
    try:
        return read_bytes(Path(path), most=LARGE)
    except FileNotFoundError as error:
        raise CorpusError(f"there is no tokenizer {path}; prepare the data first") from error
    except OSError as error:
        raise CorpusError(f"cannot read the tokenizer {path}: {error.strerror or error}; check the path") from error
    except Unreadable as error:
        raise CorpusError(f"{path} is not a tokenizer: {error}") from error


def train_tokenizer(
    lines: Iterable[str],
    *,
    vocab_size: int,
    sample: int = 1_000_000,
    seed: int = 1,
    say: Say = say_nothing,
) -> Tokenizer:
    """A BPE tokenizer of exactly `vocab_size` pieces, learned from at most `sample` lines drawn at
    random.

    The lines are read once and only the drawn ones are held in memory. Same lines and seed, same
    tokenizer. SentencePiece does not report its progress, so `say` gets a line now and then that
    it is at work.
    """
    drawn = draw_lines(lines, sample=sample, seed=seed)
    drawn = [text for line in drawn if (text := _learnable(line)).strip()]
    if not drawn:
        raise CorpusError("a tokenizer needs text to learn from but no line has any; check the training files")
    try:
        what = f"learning {vocab_size:,} pieces from {len(drawn):,} lines"
        return Tokenizer(with_heartbeat(lambda: _train(drawn, vocab_size), what, say))
    except RuntimeError as error:
        raise CorpusError(_training_failure(str(error), vocab_size)) from error


def _train(lines: Sequence[str], vocab_size: int) -> bytes:
    """The SentencePiece model that is learned from `lines`."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(f" {line}" for line in lines),
        model_writer=model,
        model_type="bpe",
        vocab_size=vocab_size,
        byte_fallback=True,
        character_coverage=CHARACTER_COVERAGE,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        max_sentence_length=2**30,
        pad_id=PAD,
        bos_id=BOS,
        eos_id=EOS,
        unk_id=UNK,
        minloglevel=2,
    )
    return model.getvalue()


def draw_lines(lines: Iterable[str], *, sample: int, seed: int) -> list[str]:
    """At most `sample` of the lines, each with the same chance, holding no more than that many at
    any time.

    Li's algorithm L: the gap to the next line that enters the reservoir is drawn, not a number for
    each line.
    """
    stream: Iterator[str] = iter(lines)
    reservoir = list(islice(stream, sample))
    randomness = random.Random(seed)
    weight = 1.0
    while len(reservoir) == sample:
        weight *= math.exp(math.log(1.0 - randomness.random()) / sample)
        gap = int(math.log(1.0 - randomness.random()) / math.log1p(-weight)) if weight < 1.0 else 0
        entering = next(islice(stream, gap, None), None)
        if entering is None:
            break
        reservoir[randomness.randrange(sample)] = entering
    return reservoir


def _learnable(line: str) -> str:
    """What of a line a vocabulary is learned from: words of a sane length, with spaces between."""
    return " ".join(word for word in line.replace(WORD_START, " ").split(" ") if len(word) <= LONGEST_WORD)


def check_unicode(text: str) -> None:
    """Refuses lone surrogates, the one kind of string that has no UTF-8 form."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise CorpusError(
            f"text must be valid Unicode but has a lone surrogate U+{ord(text[error.start]):04X} "
            f"at character {error.start + 1}; decode the input as UTF-8"
        ) from error


def _training_failure(message: str, vocab_size: int) -> str:
    """One sentence with the bound that SentencePiece reports in `message`."""
    if too_large := re.search(r"value <= (\d+)", message):
        largest = int(too_large[1])
        return (
            f"a vocabulary of {vocab_size:,} pieces is more than this text allows: the largest possible is "
            f"{largest:,}; set --vocab-size to {largest} or less, or give more text"
        )
    if too_small := re.search(r"\d+ vs (\d+)", message):
        smallest = int(too_small[1])
        return (
            f"a vocabulary of {vocab_size:,} pieces cannot hold the 256 bytes, 4 control pieces and every character "
            f"of this text: the smallest possible is {smallest:,}; set --vocab-size to {smallest} or more"
        )
    return (
        f"SentencePiece cannot learn {vocab_size:,} pieces from this text: {message.strip()}; check the training files"
    )
