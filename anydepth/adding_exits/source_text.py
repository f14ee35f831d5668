"""The source-language text that exits are learned from: its different lines, shuffled."""

import random
from itertools import islice
from pathlib import Path

from anydepth.errors import CorpusError
from anydepth.messages.say import Say
from anydepth.text.corpus import open_lines

FEWEST_LINES = 1000
MOST_LINES = 1_000_000  # more than a day's budget translates
SEED = 1


def shuffled_lines(path: Path, say: Say) -> list[str]:
    """The different lines of the text that are not blank, in an order drawn with a fixed seed, so
    that any number of the first ones stands for all."""
    stream = open_lines(path)
    lines = list(dict.fromkeys(line for raw in islice(stream, MOST_LINES) if (line := raw.strip())))
    if len(lines) < FEWEST_LINES:
        raise CorpusError(
            f"{path} has {len(lines):,} different lines, and exits are learned from at least {FEWEST_LINES:,}; give "
            "more text in the source language, one sentence per line"
        )
    if next(stream, None) is not None:
        say(f"{path} has more than {MOST_LINES:,} lines; these are read, and the rest is left out")
    random.Random(SEED).shuffle(lines)
    return lines
