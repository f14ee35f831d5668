"""Output words by a table: those that translate the pieces of the source sentence."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from anydepth.model.source import EncodedSource
from anydepth.text.tokenizer import EOS


@dataclass(frozen=True, eq=False)
class StandingWords:
    """The words that a sentence may use whatever its translation is: some always, and those that
    its source pieces are written like, so that names and numbers can be copied.

    A sentence that has one of `byte_sources` may use all of `bytes`, so that any character can be
    spelled.
    """

    always: Int[np.ndarray, " always"]  # ascending, EOS among them
    copies: Int[np.ndarray, " source_vocab"]  # the target piece that is written like a source piece, or -1
    vocab: int  # of the target
    bytes: Int[np.ndarray, " byte"] = field(default_factory=lambda: np.zeros(0, np.int32))  # target pieces
    byte_sources: Int[np.ndarray, " byte_source"] = field(default_factory=lambda: np.zeros(0, np.int32))

    @property
    def pieces(self) -> tuple[int, int]:
        """How many pieces the source's and the target's vocabulary have."""
        return len(self.copies), self.vocab

    def __post_init__(self) -> None:
        assert EOS in self.always, "every sentence must be able to end"

    def allowed(self, source: EncodedSource) -> Bool[Tensor, "sentence vocab"]:
        """The standing words of each sentence."""
        allowed = torch.zeros(len(source), self.vocab, dtype=torch.bool)
        allowed[:, torch.from_numpy(self.always).long()] = True
        sentences, places = source.mask.cpu().nonzero(as_tuple=True)
        pieces = source.tokens.cpu()[sentences, places]
        copied = torch.from_numpy(self.copies).long()[pieces]
        allowed[sentences[copied >= 0], copied[copied >= 0]] = True
        is_spelled = torch.zeros(len(source), dtype=torch.bool)
        is_spelled[sentences[torch.isin(pieces, torch.from_numpy(self.byte_sources).long())]] = True
        allowed[:, torch.from_numpy(self.bytes).long()] |= is_spelled[:, None]
        return allowed.to(source.tokens.device)


@dataclass(frozen=True, eq=False)
class LexicalTable:
    """The target pieces that translate each source piece, the most probable first."""

    standing: StandingWords
    starts: Int[np.ndarray, " source_vocab_and_end"]  # where the pieces of each source piece begin in `words`
    words: Int[np.ndarray, " entry"]

    def cut(self, per_piece: int) -> "LexicalTable":
        """The table with no more than the best `per_piece` for each source piece."""
        counts = np.minimum(np.diff(self.starts), per_piece)
        starts = np.concatenate([[0], counts.cumsum()]).astype(self.starts.dtype)
        places = np.arange(starts[-1]) + np.repeat(self.starts[:-1] - starts[:-1], counts)
        return LexicalTable(self.standing, starts, self.words[places])


@dataclass(frozen=True, eq=False)
class TableSelection:
    """Of a lexical table the best `per_piece` words for each piece of the source, and the standing
    words."""

    table: LexicalTable
    per_piece: int

    @property
    def name(self) -> str:
        """The selection in the words of a recipe."""
        return f"table:{self.per_piece}"

    @property
    def pieces(self) -> tuple[int, int]:
        """Those that the table is of."""
        return self.table.standing.pieces

    @property
    def encoder_dim(self) -> None:
        """It looks at the source's pieces alone."""
        return None

    @property
    def smallest(self) -> int:
        """As many as are always there."""
        return len(self.table.standing.always)

    def flops(self) -> int:
        """Looking up takes no products."""
        return 0

    @cached_property
    def cut(self) -> LexicalTable:
        """The part of the table that is looked at."""
        return self.table.cut(self.per_piece)

    def allowed(self, source: EncodedSource) -> Bool[Tensor, "sentence vocab"]:
        """The words that each sentence may use."""
        allowed = self.table.standing.allowed(source)
        sentences, places = (each.numpy() for each in source.mask.cpu().nonzero(as_tuple=True))
        pieces = source.tokens.cpu().numpy()[sentences, places]
        counts = np.diff(self.cut.starts)[pieces]
        entries = np.arange(counts.sum()) + np.repeat(self.cut.starts[pieces] - (counts.cumsum() - counts), counts)
        words = torch.from_numpy(self.cut.words[entries]).long()
        allowed[torch.from_numpy(np.repeat(sentences, counts)).to(allowed.device), words.to(allowed.device)] = True
        return allowed
