"""HTML as sentences and markup, and put together again.

Every tag, attribute, comment, script and style comes back as it was, character by character. Text
between two block tags is translated as one; inline tags within a sentence keep their places in
proportion: what stood before word k of n comes to stand before word round(k * m / n) of m. An
element that held words still holds one. Elements with translate="no", and
those of UNTOUCHED, stay as they are.
"""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Literal

from anydepth.server.passages import Fits, cut_passages

INLINE = "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark q s samp small span"
INLINE_TAGS = frozenset(f"{INLINE} strike strong sub sup time tt u var wbr".split())
VOID_TAGS = frozenset(("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"))
UNTOUCHED = frozenset(("script", "style", "template", "textarea", "pre", "noscript", "svg", "math"))
PartKind = Literal["text", "opening", "closing", "empty", "kept"]


@dataclass(frozen=True)
class MarkupPart:
    """A stretch of the source: text, an inline tag, or what is kept as it is."""

    kind: PartKind
    raw: str


class MarkupReader(HTMLParser):
    """Notes where each part of a page begins, so that the parts together are the page."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=False)
        self.source = source
        starts = [0]
        for line in source.split("\n")[:-1]:
            starts.append(starts[-1] + len(line) + 1)
        self.line_starts = starts
        self.found: list[tuple[int, PartKind]] = []
        self.untouched: list[str] = []  # open elements inside which nothing is translated

    def parts(self) -> Iterator[MarkupPart]:
        """The parts of the page in their order. What comes after the last tag is text, and the parser
        does not see it: over a tag that never ends it would take time that grows with the square."""
        end = self.source.rfind(">") + 1
        self.feed(self.source[:end])
        self.close()
        if end < len(self.source):
            self.found.append((end, "kept" if self.untouched else "text"))
        if not self.found or self.found[0][0] > 0:
            self.found.insert(0, (0, "kept"))
        ends = [place for place, _ in self.found[1:]] + [len(self.source)]
        for (start, kind), end in zip(self.found, ends, strict=True):
            if start < end:
                yield MarkupPart(kind, self.source[start:end])

    def note(self, kind: PartKind) -> None:
        line, column = self.getpos()
        self.found.append((self.line_starts[line - 1] + column, "kept" if self.untouched else kind))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        is_untouched = tag in UNTOUCHED or ("translate", "no") in attrs
        if (is_untouched or tag in self.untouched) and tag not in VOID_TAGS:
            self.note("kept")
            self.untouched.append(tag)
        else:
            self.note("kept" if tag not in INLINE_TAGS else "empty" if tag in VOID_TAGS else "opening")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.note("empty" if tag in INLINE_TAGS else "kept")

    def handle_endtag(self, tag: str) -> None:
        self.note("closing" if tag in INLINE_TAGS else "kept")
        if tag in self.untouched:
            while self.untouched.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        self.note("text")

    def handle_entityref(self, name: str) -> None:
        self.note("text")

    def handle_charref(self, name: str) -> None:
        self.note("text")

    def handle_comment(self, data: str) -> None:
        self.note("kept")

    def handle_decl(self, decl: str) -> None:
        self.note("kept")

    def handle_pi(self, data: str) -> None:
        self.note("kept")

    def unknown_decl(self, data: str) -> None:
        self.note("kept")


@dataclass(frozen=True)
class InlineTag:
    """A tag within a sentence: before how many of its words it stood."""

    raw: str
    kind: PartKind
    words_before: int


@dataclass(frozen=True)
class MarkedSentence:
    """A sentence of a page without its tags, and these."""

    text: str
    tags: tuple[InlineTag, ...]

    def rebuilt(self, text: str) -> str:
        """Another text with the tags in their places."""
        words = text.split()
        if not self.tags or not words:
            return html.escape(text, quote=False) + "".join(tag.raw for tag in self.tags)
        before: list[str] = [""] * (len(words) + 1)  # opening tags, which touch the word behind them
        after: list[str] = [""] * (len(words) + 1)  # closing tags, which touch the word before them
        for tag, place in zip(self.tags, self._places(len(words)), strict=True):
            if tag.kind == "closing" and place > 0 and not before[place]:  # else it would overtake an opening tag
                after[place] += tag.raw
            else:
                before[place] += tag.raw
        pieces = [before[0], html.escape(words[0], quote=False), after[1]]
        for place, word in enumerate(words[1:], 1):
            pieces += [" ", before[place], html.escape(word, quote=False), after[place + 1]]
        return "".join(pieces) + before[len(words)]

    def _places(self, words: int) -> list[int]:
        """Before which word each tag comes to stand, in the order of the tags."""
        own, places, opened = len(self.text.split()), list[int](), list[tuple[int, int]]()
        for tag in self.tags:
            place = max(round(tag.words_before * words / own), places[-1] if places else 0)
            if tag.kind == "closing" and opened:
                start, words_before = opened.pop()
                if tag.words_before > words_before:  # it held words, so it holds one now
                    place = max(place, min(start + 1, words))
            elif tag.kind == "opening":
                place = min(place, words - 1) if not places or places[-1] < words else place
                opened.append((place, tag.words_before))
            places.append(place)
        return places


@dataclass(frozen=True)
class MarkedUpText:
    """A page as markup and sentences."""

    parts: tuple[str | MarkedSentence, ...]

    @property
    def sentences(self) -> list[str]:
        """The sentences in their order, none of them empty."""
        return [part.text for part in self.parts if isinstance(part, MarkedSentence)]

    def rebuilt(self, sentences: Sequence[str]) -> str:
        """The page with other sentences; all else stays as it is."""
        others = iter(sentences)
        return "".join(part if isinstance(part, str) else part.rebuilt(next(others)) for part in self.parts)


@dataclass
class Paragraph:
    """Text with inline tags, collected between two block tags."""

    parts: list[MarkupPart] = field(default_factory=list)

    def cut(self, language: str, fits: Fits) -> Iterator[str | MarkedSentence]:
        """Its sentences with their tags, and what stands between them."""
        text, tags = "", list[tuple[int, MarkupPart]]()
        for part in self.parts:
            if part.kind == "text":
                text += html.unescape(part.raw)
            else:
                tags.append((len(text), part))
        start = 0
        for passage in cut_passages(one_line(text), language, fits):
            end = start + len(passage.text)
            if not passage.is_sentence:
                yield from self._between(text[start:end], start, tags)
            else:
                while tags and tags[0][0] <= start:
                    yield tags.pop(0)[1].raw
                yield self._marked(passage.text, start, tags)
            start = end
        yield from (part.raw for _, part in tags)

    def _between(self, spaces: str, start: int, tags: list[tuple[int, MarkupPart]]) -> Iterator[str]:
        done = 0
        while tags and tags[0][0] < start + len(spaces):
            place, part = tags.pop(0)
            yield html.escape(spaces[done : max(place - start, done)], quote=False) + part.raw
            done = max(place - start, done)
        yield html.escape(spaces[done:], quote=False)

    def _marked(self, sentence: str, start: int, tags: list[tuple[int, MarkupPart]]) -> MarkedSentence:
        inside: list[InlineTag] = []
        while tags and (tags[0][0] < start + len(sentence) or self._closes_at(start + len(sentence), tags)):
            place, part = tags.pop(0)
            before = sentence[: place - start]
            splits_a_word = part.kind != "closing" and before[-1:].strip() != ""
            inside.append(InlineTag(part.raw, part.kind, len(before.split()) - splits_a_word))
        return MarkedSentence(sentence, tuple(inside))

    def _closes_at(self, end: int, tags: list[tuple[int, MarkupPart]]) -> bool:
        return tags[0][0] == end and tags[0][1].kind == "closing"


def one_line(text: str) -> str:
    """`text` with spaces for line breaks, which mean no more than these in HTML; as long as it was."""
    return "".join(" " if each in "\n\r\t\f\v\x1c\x1d\x1e\x85\u2028\u2029" else each for each in text)


def cut_markup(source: str, language: str, fits: Fits) -> MarkedUpText:
    """A page, or a fragment of one, as markup and sentences of `language`."""
    found: list[str | MarkedSentence] = []
    paragraph = Paragraph()
    for part in MarkupReader(source).parts():
        if part.kind != "kept":
            paragraph.parts.append(part)
            continue
        found += [*paragraph.cut(language, fits), part.raw]
        paragraph = Paragraph()
    return MarkedUpText((*found, *paragraph.cut(language, fits)))
