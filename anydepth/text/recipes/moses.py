"""Moses' handling of text as the paper's data had it: tokens, punctuation and case, by way of
sacremoses."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

from anydepth.errors import UsageError

LAST_PERIOD = re.compile(r"(\S*[^\s.])\.$")
LONGEST_WORD = 1000


def load_sacremoses() -> ModuleType:
    """The package sacremoses, or one sentence on how to get it."""
    try:
        import sacremoses
    except ImportError as error:
        raise UsageError(
            "this recipe needs the package sacremoses; get it with `pip install 'anydepth[recipes]'`"
        ) from error
    return sacremoses  # type: ignore[no-any-return]


def moses_tokenizer(language: str, *, split_hyphens: bool = False) -> Callable[[str], str]:
    """A function from a line to its tokens with spaces between, special characters escaped (' is
    &apos;), as tokenizer.perl does.

    Departure from sacremoses: the period of the last word is always a token of its own ("u.s ."),
    as in the paper's data.
    """
    tokenize = load_sacremoses().MosesTokenizer(lang=language).tokenize

    def tokenized(line: str) -> str:
        text: str = tokenize(line, aggressive_dash_splits=split_hyphens, return_str=True, escape=True)
        return LAST_PERIOD.sub(r"\1 .", " ".join(text.split()))

    return tokenized


def moses_normalizer(language: str) -> Callable[[str], str]:
    """A function from a line to the line with plain quotes, dashes and spaces, as
    normalize-punctuation.perl does."""
    normalize: Callable[[str], str] = load_sacremoses().MosesPunctNormalizer(lang=language, perl_parity=True).normalize
    return normalize


def printable(line: str) -> str:
    """The line with a space for each control, format, unassigned or private character
    (remove-non-printing-char.perl)."""
    if line.isprintable():
        return line
    return "".join(" " if unicodedata.category(character).startswith("C") else character for character in line)


def lowercased(line: str) -> str:
    """The line in lower case, letter by letter as Perl has it: a sigma at the end of a word is no
    exception."""
    return line.replace("Σ", "σ").lower()  # noqa: RUF001


@dataclass(frozen=True)
class PairTokenizer:
    """How both sides of a pair become tokens; small, so that it can be sent to other processes."""

    languages: tuple[str, str]
    normalize: bool = False
    split_hyphens: bool = False

    def make(self) -> Callable[[str, str], tuple[str, str]]:
        """The function for one pair."""
        source, target = (self._side(language) for language in self.languages)
        return lambda source_line, target_line: (source(source_line), target(target_line))

    def _side(self, language: str) -> Callable[[str], str]:
        tokenize = moses_tokenizer(language, split_hyphens=self.split_hyphens)
        if not self.normalize:
            return tokenize
        normalize = moses_normalizer(language)
        return lambda line: tokenize(printable(normalize(line)))


@dataclass(frozen=True)
class Cleaning:
    """Which tokenized pairs are unfit for training, by their lengths in words, as
    clean-corpus-n.perl decides."""

    max_words: int = 175
    max_ratio: float = 1.5

    def reason(self, source: str, target: str) -> str | None:
        """Why the pair is dropped: "empty", "too long", "unbalanced" or "long word"; None if it is
        kept."""
        words = source.split(), target.split()
        shorter, longer = sorted(map(len, words))
        if shorter == 0:
            return "empty"
        if longer > self.max_words:
            return "too long"
        if longer / shorter > self.max_ratio:
            return "unbalanced"
        if any(len(word) > LONGEST_WORD for side in words for word in side):
            return "long word"
        return None
