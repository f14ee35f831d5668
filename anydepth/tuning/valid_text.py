"""The held-out text that thresholds are tuned on."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from anydepth.errors import CorpusError, RunError
from anydepth.messages.say import Say
from anydepth.runs.fingerprints import text_fingerprint
from anydepth.runs.run import Run, training_data, without_text
from anydepth.text.corpus import read_pairs
from anydepth.text.overlap import MOST_OVERLAP, pairs_seen_in_training
from anydepth.text.prepared import MANIFEST_NAME


@dataclass(frozen=True)
class ValidationText:
    """The sentences that thresholds are tuned on."""

    prefix: str
    fingerprint: str
    sources: list[str]
    references: list[str]
    judged_by: str = ""  # the fingerprint of translations that stand in place of the references

    def with_translations(self, translations: Sequence[str]) -> "ValidationText":
        """The same sources with these translations in place of the references."""
        own = hashlib.sha256("\n".join(translations).encode()).hexdigest()[:16]
        return replace(self, references=list(translations), judged_by=own)


def validation_text(run: Run, valid: str, say: Say) -> ValidationText:
    """The pairs of PREFIX `valid`, which must not be empty nor part of the training text."""
    note = run.data_note()
    languages = note["source_lang"], note["target_lang"]
    pairs = list(read_pairs(valid, *languages))
    if not any(source.strip() for source, _ in pairs):
        raise CorpusError(f"{valid}.{languages[0]} has no sentences; thresholds need some held-out text")
    try:
        data = training_data(run)
    except (RunError, CorpusError) as error:
        if isinstance(error, CorpusError) and (Path(note["folder"]) / MANIFEST_NAME).exists():
            raise  # the text is there, and damaged
        say(f"warning: {without_text(note)}, so whether {valid} is part of it was not looked at")
        seen = []
    else:
        seen = pairs_seen_in_training(data, pairs)
    if seen:
        told = (
            f"{len(seen):,} of the {len(pairs):,} pairs of {valid} are in the training text (the first is line "
            f"{seen[0] + 1:,})"
        )
        if len(seen) > MOST_OVERLAP * len(pairs):
            raise CorpusError(
                f"{told}; thresholds tuned on text that was trained on stop too early, so give held-out text"
            )
        say(f"warning: {told}")
    sources, references = (list(side) for side in zip(*pairs, strict=True))
    return ValidationText(valid, text_fingerprint(valid, *languages), sources, references)
