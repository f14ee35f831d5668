"""Plain text as sentences and what stands between them, and put together again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import sentencex


class CutText(Protocol):
    """A text whose sentences can be exchanged."""

    @property
    def sentences(self) -> list[str]:
        """The sentences in their order, none of them empty."""

    def rebuilt(self, sentences: Sequence[str]) -> str:
        """The text with other sentences, one for each."""


@dataclass(frozen=True)
class Passage:
    """A part of a text: a sentence, or spaces and line breaks between sentences."""

    text: str
    is_sentence: bool


@dataclass(frozen=True)
class PlainText:
    """Plain text as its passages; nothing is lost between them."""

    passages: tuple[Passage, ...]

    @property
    def sentences(self) -> list[str]:
        """The sentences in their order, none of them empty."""
        return [passage.text for passage in self.passages if passage.is_sentence]

    def rebuilt(self, sentences: Sequence[str]) -> str:
        """The text with other sentences; spaces and line breaks between them stay as they are."""
        others = iter(sentences)
        return "".join(next(others) if passage.is_sentence else passage.text for passage in self.passages)


Fits = Callable[[str], bool]


def cut_plain_text(text: str, language: str, fits: Fits) -> PlainText:
    """`text` as sentences of `language`; no sentence goes beyond a line, and one that does not fit
    into the model is cut at a space."""
    return PlainText(tuple(cut_passages(text, language, fits)))


def cut_passages(text: str, language: str, fits: Fits) -> list[Passage]:
    """The sentences of a text, and what stands between them; together they are the text."""
    passages: list[Passage] = []
    for line in text.splitlines(keepends=True):
        parts = sentencex.segment(language, line) if line.strip() else [line]
        for part in parts if "".join(parts) == line else [line]:  # nothing may be lost, whatever the library does
            passages += _spaces_apart(part, fits)
    return passages


def _spaces_apart(part: str, fits: Fits) -> list[Passage]:
    """A sentence without the spaces around it, and these."""
    core = part.strip()
    if not core:
        return [Passage(part, False)]
    start = part.index(core)
    before, after = part[:start], part[start + len(core) :]
    sentences = fitting_parts(core, fits)
    return [Passage(before, False)] * bool(before) + sentences + [Passage(after, False)] * bool(after)


def fitting_parts(sentence: str, fits: Fits) -> list[Passage]:
    """A sentence in parts that the model has room for: cut at the space nearest to its middle, or
    in the middle where there is none."""
    if len(sentence) <= 1 or fits(sentence):
        return [Passage(sentence, True)]
    middle = len(sentence) // 2
    spaces = [place for place, each in enumerate(sentence) if each.isspace()]
    place = min(spaces, key=lambda each: abs(each - middle), default=None)
    if place is None:
        return fitting_parts(sentence[:middle], fits) + fitting_parts(sentence[middle:], fits)
    left, right = sentence[:place].rstrip(), sentence[place:].lstrip()
    gap = sentence[len(left) : len(sentence) - len(right)]
    return [*fitting_parts(left, fits), Passage(gap, False), *fitting_parts(right, fits)]
