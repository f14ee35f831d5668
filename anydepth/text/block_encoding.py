"""Blocks of raw lines become tokens: checked, cut, filtered, and packed as token files hold
them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from jaxtyping import Bool, Int

from anydepth.text.corpus import REASONS, PairBlock, PairFilter
from anydepth.text.marian import AnyTokenizer
from anydepth.text.tokens import EncodedSentences, token_type
from anydepth.text.word_encoding import LineEncoder, line_encoder


@dataclass(frozen=True)
class EncodedBlock:
    """The pairs of a block that were kept, how many were read, and how many dropped by reason."""

    source: EncodedSentences
    target: EncodedSentences
    read: int
    dropped: Mapping[str, int]


class BlockEncoder:
    """Encodes blocks with the tokenizers of both sides; without `fit` every pair is kept."""

    def __init__(
        self, source: AnyTokenizer, target: AnyTokenizer, fit: PairFilter | None, *, threads: int | None = None
    ) -> None:
        self._source = line_encoder(source, threads=threads)
        self._target = self._source if target is source else line_encoder(target, threads=threads)
        self._sizes = token_type(source.size).itemsize, token_type(target.size).itemsize
        self._fit = fit

    def encode(self, block: PairBlock) -> EncodedBlock:
        """The tokens of the block's pairs that are fit, in their order. Text of spaces alone is
        empty."""
        sources, targets = block.sides()
        source_ids, source_lengths = _cut(self._source, sources, self._sizes[0])
        target_ids, target_lengths = _cut(self._target, targets, self._sizes[1])
        if self._fit is None:
            source, target = (
                EncodedSentences(b"".join(source_ids), source_lengths),
                EncodedSentences(b"".join(target_ids), target_lengths),
            )
            return EncodedBlock(source, target, len(sources), {})
        reasons = self._fit.reasons(source_lengths, target_lengths)
        reasons[_are_spaces(sources) | _are_spaces(targets)] = REASONS.index("empty")
        kept = reasons == 0
        counts = np.bincount(reasons, minlength=len(REASONS)).tolist()
        dropped = {reason: count for reason, count in zip(REASONS, counts, strict=True) if reason and count}
        return EncodedBlock(
            _chosen(source_ids, source_lengths, kept), _chosen(target_ids, target_lengths, kept), len(sources), dropped
        )


def _cut(encoder: LineEncoder, lines: Sequence[str], size: int) -> tuple[list[bytes], Int[np.ndarray, " lines"]]:
    ids = encoder.encode(lines)
    return ids, np.fromiter(map(len, ids), np.int64, len(ids)) // size


def _are_spaces(lines: Sequence[str]) -> Bool[np.ndarray, " lines"]:
    return np.fromiter(map(str.isspace, lines), np.bool_, len(lines))


def _chosen(
    ids: Sequence[bytes], lengths: Int[np.ndarray, " lines"], kept: Bool[np.ndarray, " lines"]
) -> EncodedSentences:
    return EncodedSentences(b"".join(compress(ids, kept.tolist())), lengths[kept])
