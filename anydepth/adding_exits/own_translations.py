"""A model's own translations at full depth, which its exits learn from: made in parts, so that a
killed command loses one part at most."""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from anydepth.adding_exits.budget import TRANSLATING, AdoptionBudget
from anydepth.clock.rounds import Clock
from anydepth.errors import AdoptionError
from anydepth.files.atomic import write_text
from anydepth.files.checksums import checked_object, with_checksum
from anydepth.files.reading import checked
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say
from anydepth.runs.run import Run
from anydepth.vocabulary.names import FULL

PART = 250  # lines, between which the clock is looked at
FEWEST_PAIRS = 500
MOST_TOKENS = 250


@dataclass(frozen=True)
class OwnTranslations:
    """Lines and what the model makes of them, and the seconds that it took."""

    sources: list[str]
    targets: list[str]
    seconds: float = 0.0

    def __add__(self, other: "OwnTranslations") -> "OwnTranslations":
        """Both, one after the other."""
        return OwnTranslations(self.sources + other.sources, self.targets + other.targets, self.seconds + other.seconds)

    @property
    def seconds_per_line(self) -> float:
        return self.seconds / max(len(self.sources), 1)


def translate_within(
    run: Run, lines: Sequence[str], folder: Path, budget: AdoptionBudget, *, say: Say, clock: Clock = time.perf_counter
) -> OwnTranslations:
    """The translations of as many of `lines` as the budget allows; parts that are in `folder`
    already are not made again."""
    folder.mkdir(parents=True, exist_ok=True)
    translator = Translator.load(run.folder)
    found, read = OwnTranslations([], []), 0
    for number, start in enumerate(range(0, len(lines), PART)):
        if found.seconds >= budget.translating:
            break
        file, part = folder / f"{number:05d}.json", lines[start : start + PART]
        stored = stored_part(file)
        if stored is None:
            stored = translated(translator, part, clock)
            write_text(file, json.dumps(with_checksum(asdict(stored)), ensure_ascii=False) + "\n")
        found, read = found + stored, read + len(part)
        say(f"translated {read:,} of {len(lines):,} lines, {1 / max(found.seconds_per_line, 1e-9):,.0f} lines/s")
    check_enough(found, budget, read=read, lines=len(lines))
    if read < len(lines):
        say(f"--minutes {budget.minutes:g} has time for {read:,} of the {len(lines):,} lines; the rest is left out")
    return found


def check_enough(found: OwnTranslations, budget: AdoptionBudget, *, read: int, lines: int) -> None:
    """Refuses what is too little to learn from, for want of time or of lines that can be used."""
    pairs = len(found.sources)
    if pairs >= FEWEST_PAIRS:
        return
    if read < lines:
        minutes = found.seconds / max(pairs, 1) * FEWEST_PAIRS / TRANSLATING / 60
        raise AdoptionError(
            f"--minutes {budget.minutes:g} is enough to translate {pairs:,} lines, and exits are learned from at least "
            f"{FEWEST_PAIRS:,}; give --minutes {math.ceil(max(minutes, 2 * budget.minutes))} or more"
        )
    raise AdoptionError(
        f"{pairs:,} of {lines:,} lines could be used, and exits are learned from at least {FEWEST_PAIRS:,}: the others "
        "are too long for the model, or it says nothing; give one sentence per line"
    )


def translated(translator: Translator, lines: Sequence[str], clock: Clock) -> OwnTranslations:
    """What the model says at full depth with all words; lines that are too long to train on, and
    those that it says nothing to, are left out."""
    longest = longest_line(translator.model.config.max_length)
    started = clock()
    encoded = translator.source_tokenizer.encode_lines(lines)
    sources = [line for line, ids in zip(lines, encoded, strict=True) if 0 < len(ids) <= longest]
    targets = [each.line for each in translator.translate(sources, vocabulary=FULL)]
    kept = [(source, target) for source, target in zip(sources, targets, strict=True) if target.strip()]
    return OwnTranslations([source for source, _ in kept], [target for _, target in kept], clock() - started)


def longest_line(max_length: int) -> int:
    """The most tokens of a line that is trained on, by the model's longest sentence."""
    return max(1, min(MOST_TOKENS, max_length - 1))


def stored_part(file: Path) -> OwnTranslations | None:
    """A part that was made before; None if there is none, or it is damaged."""
    try:
        values = checked_object(file.read_bytes())
        part = checked(OwnTranslations, {name: values[name] for name in ("sources", "targets", "seconds")})
    except (OSError, ValueError, KeyError):
        return None
    return part if len(part.sources) == len(part.targets) else None
