"""The sentences of test sets in XML or SGML, which stand between <seg> tags, one per line."""

import re
from collections.abc import Iterable, Iterator

from anydepth.text.recipes.archives import TextFile
from anydepth.text.recipes.pairs import Pair, in_step

SEGMENT = "<seg id"
START = re.compile(r'<seg id="[0-9]*">\s*')
END = re.compile(r"\s*</seg>\s*")


def segments(lines: Iterable[str]) -> Iterator[str]:
    """The text of each line that has a segment, with ' for the typographic apostrophe; entities
    stay as they are."""
    return (END.sub("", START.sub("", line)).replace("’", "'") for line in lines if SEGMENT in line)  # noqa: RUF001


def segment_pairs(test_sets: Iterable[tuple[TextFile, TextFile]]) -> Iterator[Pair]:
    """The segments of all test sets, one set after the other."""
    for source, target in test_sets:
        yield from in_step(segments(source.lines()), segments(target.lines()), (str(source), str(target)))
