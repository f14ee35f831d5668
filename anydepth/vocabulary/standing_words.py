"""The words that stand ready whatever a sentence's translation is, from the tokenizers and from how
often pieces occur."""

import re

import numpy as np
from jaxtyping import Int

from anydepth.text.marian import AnyTokenizer
from anydepth.text.tokenizer import EOS, UNK, WORD_START
from anydepth.vocabulary.lexical_table import StandingWords

BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")
DIGIT_PIECE = re.compile(rf"{WORD_START}?[0-9]")


def standing_words(source: AnyTokenizer, target: AnyTokenizer, always: Int[np.ndarray, " always"]) -> StandingWords:
    """The standing words of a pair of tokenizers: `always`, what source pieces are written like,
    and all bytes where a sentence has any."""
    source_pieces, target_pieces = (each.pieces(range(each.size)) for each in (source, target))
    places = {piece: number for number, piece in enumerate(target_pieces)}
    copies = [-1 if number <= UNK else places.get(piece, -1) for number, piece in enumerate(source_pieces)]
    return StandingWords(
        always.astype(np.int32),
        np.array(copies, np.int32),
        target.size,
        bytes=_byte_pieces(target_pieces),
        byte_sources=_byte_pieces(source_pieces),
    )


def always_words(
    target: AnyTokenizer, occurrences: Int[np.ndarray, " target_vocab"], *, frequent: int
) -> Int[np.ndarray, " always"]:
    """EOS, the `frequent` pieces that occur most, single digits, and the bytes that occur at all,
    in ascending order."""
    pieces = target.pieces(range(target.size))
    often = np.argsort(-occurrences, kind="stable")[:frequent]
    digits = [number for number, piece in enumerate(pieces) if DIGIT_PIECE.fullmatch(piece)]
    spelled = _byte_pieces(pieces)
    kept = [often[occurrences[often] > 0], np.array([EOS, *digits]), spelled[occurrences[spelled] > 0]]
    return np.unique(np.concatenate(kept)).astype(np.int32)


def _byte_pieces(pieces: list[str]) -> Int[np.ndarray, " byte"]:
    return np.array([number for number, piece in enumerate(pieces) if BYTE_PIECE.fullmatch(piece)], np.int32)
