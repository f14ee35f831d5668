"""Vocabulary settings by name; nothing else is loaded for them, so that --help is made at once."""

import difflib
import re
from dataclasses import dataclass

from anydepth.errors import UsageError
from anydepth.limits import MOST_PIECES

FULL, TABLE, LEARNED = "full", "table", "learned"
VOCABULARY_FORMS = {FULL: "full", TABLE: "table[:K]", LEARNED: "learned[:P]"}
DEFAULT_PER_PIECE = 50
DEFAULT_PROBABILITY = 0.01
MOST_DIGITS = 9


@dataclass(frozen=True)
class VocabularyName:
    """A vocabulary setting: all words, or the words of a kind of selection.

    `size` is how many words each source piece brings by a table, or the probability that a word
    must exceed by a learned selection; None where nothing was said.
    """

    kind: str
    size: float | None = None

    def __str__(self) -> str:
        return self.kind if self.size is None else f"{self.kind}:{self.size:g}"


def parse_vocabulary(text: str) -> VocabularyName:
    """The vocabulary setting that `text` names, as in "full", "table:50" or "learned:0.1"."""
    kind, colon, size = text.strip().partition(":")
    if kind not in VOCABULARY_FORMS:
        near = difflib.get_close_matches(kind, VOCABULARY_FORMS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(
            f"there is no vocabulary setting {text!r}; {hint}known: {', '.join(VOCABULARY_FORMS.values())}"
        )
    if not colon:
        return VocabularyName(kind)
    if kind == FULL:
        raise UsageError(f"--vocabulary {text}: all words have no size; write full")
    return VocabularyName(kind, _per_piece(text, size) if kind == TABLE else _probability(text, size))


def _per_piece(text: str, size: str) -> int:
    if not re.fullmatch(rf"[0-9]{{1,{MOST_DIGITS}}}", size) or not 1 <= int(size) <= MOST_PIECES:
        raise UsageError(
            f"--vocabulary {text}: the number of words that a source piece brings must lie between 1 and "
            f"{MOST_PIECES:,}, as in table:{DEFAULT_PER_PIECE}"
        )
    return int(size)


def _probability(text: str, size: str) -> float:
    if not re.fullmatch(r"[0-9]?\.?[0-9]{1,20}(e-?[0-9]{1,3})?", size) or not 0 < float(size) < 1:
        raise UsageError(
            f"--vocabulary {text}: the probability that a word must exceed must lie between 0 and 1, as in "
            f"learned:{DEFAULT_PROBABILITY:g}"
        )
    return float(size)
