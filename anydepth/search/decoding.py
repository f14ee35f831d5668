"""How to search: what a user asks for, and the complete settings that search takes."""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from anydepth.config.schema import DecodingConfig
from anydepth.errors import UsageError
from anydepth.limits import MOST_BATCH_TOKENS, MOST_BEAM
from anydepth.text.tokenizer import BOS, EOS, PAD, UNK
from anydepth.vocabulary.selection import WordSelection

NEVER_PRODUCED = [PAD, BOS, UNK]
MOST_PENALTY = 10.0
DEFAULTS = DecodingConfig()


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """How wide, how far and among which words to search, and how much at a time; a hypothesis scores sum of
    log-probabilities / length ** length_penalty.

    At any time as many sentences are searched together as fit: sentences * beam * longest source <=
    `batch_tokens`, and no more than `batch_sentences`.
    """

    beam: int = DEFAULTS.beam
    length_penalty: float = DEFAULTS.length_penalty
    length_ratio: float = DEFAULTS.length_ratio
    length_offset: int = DEFAULTS.length_offset
    early_stopping: bool = DEFAULTS.early_stopping
    batch_tokens: int = DEFAULTS.batch_tokens
    batch_sentences: int | None = None
    best: int = 1
    exact_length: int | None = None  # for timing: every output has this many tokens, none of them EOS
    words: WordSelection | None = None  # chooses the words of each sentence; None: all of the vocabulary

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise UsageError(f"beam = {self.beam} holds no hypothesis; set it to 1 or more")
        if self.beam > MOST_BEAM:
            raise UsageError(
                f"beam = {self.beam} holds more hypotheses than memory may; set it to {MOST_BEAM:,} or less"
            )
        if not 0 <= self.length_penalty <= MOST_PENALTY:
            raise UsageError(f"length_penalty = {self.length_penalty} must lie between 0 and {MOST_PENALTY:g}")
        if not 1 <= self.best <= self.beam:
            raise UsageError(
                f"best = {self.best} must lie between 1 and beam = {self.beam}; lower best or widen the beam"
            )
        if self.exact_length is not None and self.exact_length < 1:
            raise UsageError(f"exact_length = {self.exact_length} leaves nothing to produce; set it to 1 or more")
        if self.words is not None and not self.has_room(self.words):
            raise UsageError(
                f"beam = {self.beam} wants {self.wanted_words} words to choose from, but the vocabulary selection "
                f"{self.words.name} may leave {self.words.smallest}; narrow the beam or take --vocabulary full"
            )

    @property
    def wanted_words(self) -> int:
        """How many words a sentence must have at least: search looks at twice as many continuations
        as it keeps, and at EOS."""
        return 2 * self.beam + 1

    def has_room(self, words: WordSelection) -> bool:
        """Whether `words` leaves every sentence as many words as the search looks at."""
        return self.wanted_words <= words.smallest

    @property
    def never_produced(self) -> list[int]:
        """The tokens that continue nothing."""
        return NEVER_PRODUCED if self.exact_length is None else [*NEVER_PRODUCED, EOS]

    def limits(self, source_mask: Bool[Tensor, "sentence source"], *, max_length: int) -> Int[Tensor, " sentence"]:
        """The most tokens that each output may have, EOS included; it depends on the length of its
        own source only."""
        limits = [self.limit(length, max_length=max_length) for length in source_mask.sum(dim=1).tolist()]
        return torch.tensor(limits, dtype=torch.long, device=source_mask.device)

    def limit(self, source_length: int, *, max_length: int) -> int:
        """The most tokens that the output of a source of so many tokens may have; both with EOS."""
        return min(max_length, self.exact_length or math.ceil(self.length_ratio * source_length) + self.length_offset)


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """What a user asks of search; None is what the run's configuration says, and 1 for `best`.

    `vocabulary` is a selection of words, or the name of one, as in "table:50"; None is the one that
    the run's check chose, if there is one, and "full" is all words.
    """

    beam: int | None = None
    length_penalty: float | None = None
    batch_tokens: int | None = None
    best: int | None = None
    vocabulary: WordSelection | str | None = None

    def among(self, vocabulary: str) -> "DecodingOptions":
        """The same with this vocabulary setting, unless one was asked for."""
        return self if self.vocabulary is not None else replace(self, vocabulary=vocabulary)

    def resolved(self, config: DecodingConfig, words: WordSelection | None = None) -> SearchSettings:
        """The complete settings, checked; what is not asked for comes from `config`, and the
        selection that `vocabulary` names is `words`."""
        tokens = config.batch_tokens if self.batch_tokens is None else self.batch_tokens
        if not 1 <= tokens <= MOST_BATCH_TOKENS:
            raise UsageError(f"batch_tokens = {tokens} must lie between 1 and {MOST_BATCH_TOKENS:,}, as in 4096")
        return SearchSettings(
            beam=config.beam if self.beam is None else self.beam,
            length_penalty=config.length_penalty if self.length_penalty is None else self.length_penalty,
            length_ratio=config.length_ratio,
            length_offset=config.length_offset,
            early_stopping=config.early_stopping,
            batch_tokens=tokens,
            best=1 if self.best is None else self.best,
            words=words,
        )


AS_CONFIGURED = DecodingOptions()
GREEDY = DecodingOptions(beam=1)
