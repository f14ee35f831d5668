"""Which vocabulary settings of a run were measured, which one is used by default, and the selection
that a setting stands for."""

import json
import logging
from dataclasses import asdict, dataclass, replace
from typing import Annotated

from pydantic import Field

from anydepth.errors import RunError, UsageError
from anydepth.files.reading import Unreadable, checked, json_of
from anydepth.files.seal import write_text
from anydepth.limits import MOST_BEAM, MOST_PIECES, MOST_UPDATES
from anydepth.runs.fingerprints import selection_fingerprint, weights_fingerprint
from anydepth.runs.operating_points import Bleu
from anydepth.runs.run import Run
from anydepth.runs.word_selections import load_learned, load_table
from anydepth.vocabulary.learned_selection import LearnedSelection
from anydepth.vocabulary.lexical_table import LexicalTable, TableSelection
from anydepth.vocabulary.names import (
    DEFAULT_PER_PIECE,
    DEFAULT_PROBABILITY,
    FULL,
    LEARNED,
    TABLE,
    VocabularyName,
    parse_vocabulary,
)
from anydepth.vocabulary.selection import WordSelection

LOG = logging.getLogger(__name__)
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class MeasuredVocabulary:
    """A vocabulary setting and what full depth gave with it: BLEU, words per sentence, the share of
    the reference's pieces among them, and how many sentences came out as with all words."""

    vocabulary: str
    bleu: Bleu
    words: Annotated[float, Field(ge=0, le=MOST_PIECES)]
    coverage: Share
    same: Annotated[int, Field(ge=0, le=MOST_UPDATES)]
    selection: str = ""  # the fingerprint of the word selection; empty: all words

    def __post_init__(self) -> None:
        parse_vocabulary(self.vocabulary)


@dataclass(frozen=True)
class CheckedVocabulary:
    """vocabulary.json: the settings that were measured, all words first, and the one that was
    chosen; None where no selection was within the tolerance."""

    weights: str
    chosen: str | None
    tolerance: Annotated[float, Field(ge=0, le=100)]
    beam: Annotated[int, Field(ge=1, le=MOST_BEAM)]
    length_penalty: Annotated[float, Field(ge=0, le=10)]
    engine: str
    valid: str
    valid_fingerprint: str
    sentences: Annotated[int, Field(ge=1, le=MOST_UPDATES)]
    pieces: Annotated[int, Field(ge=1, le=MOST_PIECES)]  # of the target's vocabulary
    measured: tuple[MeasuredVocabulary, ...]

    def __post_init__(self) -> None:
        if self.chosen is not None:
            parse_vocabulary(self.chosen)


def save_checked(run: Run, found: CheckedVocabulary) -> None:
    """Stores what a check found with the run, in place of an earlier check."""
    write_text(run.vocabulary_file, json.dumps(asdict(found), indent=1, ensure_ascii=False) + "\n")


def load_checked(run: Run) -> CheckedVocabulary | None:
    """What the last check of the run found; None if there was none."""
    if not run.seal.has(run.vocabulary_file):
        return None
    try:
        return checked(CheckedVocabulary, json_of(run.seal.read(run.vocabulary_file)))
    except (Unreadable, UsageError) as error:
        if isinstance(error, RunError):
            raise
        cure = f"remove it, call `anydepth seal {run.folder}` and check again with `anydepth vocabulary`"
        raise RunError(f"{run.vocabulary_file} cannot be read as vocabulary settings ({error}); {cure}") from error


class RunVocabulary:
    """The word selections of a run, each loaded when it is first asked for, and then kept."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.table: LexicalTable | None = None
        self.learned: LearnedSelection | None = None
        self.found: dict[str | None, WordSelection | None] = {}

    def selection(self, text: str | None) -> WordSelection | None:
        """The selection that the vocabulary setting `text` names, None for all words; without
        `text`, that which the run's check chose."""
        if text not in self.found:
            self.found[text] = self._default() if text is None else self._named(parse_vocabulary(text))
        return self.found[text]

    def _default(self) -> WordSelection | None:
        """The selection that the last check chose, if it was a check of the present weights."""
        known = load_checked(self.run)
        if known is None or known.chosen is None:
            return None
        if known.weights != weights_fingerprint(self.run):
            LOG.warning(
                "the vocabulary setting %s of %s was checked with other weights than it has now, so all words are "
                "used; check again with `anydepth vocabulary`",
                known.chosen,
                self.run.folder,
            )
            return None
        measured = {each.vocabulary: each.selection for each in known.measured}
        if measured.get(known.chosen) != selection_fingerprint(self.run, known.chosen):
            LOG.warning(
                "the word selection of %s is another than was checked as %s, so all words are used; check again with "
                "`anydepth vocabulary`",
                self.run.folder,
                known.chosen,
            )
            return None
        return self._named(parse_vocabulary(known.chosen))

    def _named(self, name: VocabularyName) -> WordSelection | None:
        if name.kind == FULL:
            return None
        size = self._checked_size(name.kind) if name.size is None else name.size
        if name.kind == TABLE:
            if self.table is None:
                self.table, _ = load_table(self.run)
            return TableSelection(self.table, int(size))
        if self.learned is None:
            self.learned, _ = load_learned(self.run, threshold=size)
        return replace(self.learned, threshold=size)

    def _checked_size(self, kind: str) -> float:
        """The size of a setting that was named without one: as it was checked, where it was."""
        known = load_checked(self.run)
        chosen = VocabularyName(FULL) if known is None or known.chosen is None else parse_vocabulary(known.chosen)
        if chosen.kind == kind and chosen.size is not None:
            return chosen.size
        return {TABLE: float(DEFAULT_PER_PIECE), LEARNED: DEFAULT_PROBABILITY}[kind]
