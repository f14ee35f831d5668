"""Word selections of the tiny sizes, and the obvious loops that say what they allow."""

from collections.abc import Sequence

import numpy as np
import torch
from tiny import ENCODER_DIM, FIRST_WORD, SOURCE_VOCAB, TARGET_VOCAB
from torch import Tensor

from anydepth.model.source import EncodedSource
from anydepth.text.batches import make_source
from anydepth.text.tokenizer import EOS
from anydepth.vocabulary.learned_selection import LearnedSelection
from anydepth.vocabulary.lexical_table import LexicalTable, StandingWords, TableSelection

SENTENCES = [[5, 6, 18, 8, 9, 10], [11], [4, 14, 14, 16]]
BYTES, BYTE_SOURCES = [20, 21, 22], [16, 18]


def standing(*, always: Sequence[int] = (EOS, 7, 9)) -> StandingWords:
    """Few words that are always there; half of the source pieces have a copy."""
    copies = [piece + 1 if piece >= FIRST_WORD and piece % 2 else -1 for piece in range(SOURCE_VOCAB)]
    as_numbers = (np.array(values, np.int32) for values in (always, copies))
    spelling = {"bytes": np.array(BYTES, np.int32), "byte_sources": np.array(BYTE_SOURCES, np.int32)}
    return StandingWords(*as_numbers, TARGET_VOCAB, **spelling)


def table(*, always: Sequence[int] = (EOS, 7, 9), seed: int = 1) -> LexicalTable:
    """Up to five words for each source piece but the control pieces."""
    randomness = np.random.default_rng(seed)
    rows = [
        randomness.permutation(np.arange(FIRST_WORD, TARGET_VOCAB))[: randomness.integers(0, 6)]
        if piece >= FIRST_WORD
        else np.zeros(0, np.int64)
        for piece in range(SOURCE_VOCAB)
    ]
    starts = np.cumsum([0, *(len(row) for row in rows)])
    return LexicalTable(standing(always=always), starts, np.concatenate(rows).astype(np.int32))


def learned(threshold: float = 0.4) -> LearnedSelection:
    """Random odds, which differ between words and sentences."""
    generator = torch.Generator().manual_seed(2)
    weight = torch.randn(TARGET_VOCAB, ENCODER_DIM, generator=generator)
    return LearnedSelection(standing(), weight, torch.randn(TARGET_VOCAB, generator=generator), threshold)


def encoded(sentences: Sequence[Sequence[int]] = SENTENCES, *, padding: int = 0) -> EncodedSource:
    """The sentences with random states, those of a sentence the same whoever stands beside it."""
    source, mask = make_source([*sentences, *([[5] * (6 + padding)] if padding else [])])
    memory = torch.full((*source.shape, ENCODER_DIM), 1000.0)  # what padding holds must not matter
    for row, (tokens, is_real) in enumerate(zip(source, mask, strict=True)):
        generator = torch.Generator().manual_seed(int(tokens[is_real].sum()))
        memory[row, is_real] = torch.randn(int(is_real.sum()), ENCODER_DIM, generator=generator)
    return EncodedSource(source, mask, memory)


def standing_of(words: StandingWords, sentence: Sequence[int]) -> set[int]:
    """The standing words of one sentence, by a loop."""
    found = set(words.always.tolist())
    for piece in sentence:
        if words.copies[piece] >= 0:
            found.add(int(words.copies[piece]))
        if piece in words.byte_sources:
            found.update(words.bytes.tolist())
    return found


def table_words(selection: TableSelection, sentence: Sequence[int]) -> set[int]:
    """The words that a table allows one sentence, by a loop."""
    found = standing_of(selection.table.standing, sentence)
    for piece in sentence:
        row = selection.table.words[selection.table.starts[piece] : selection.table.starts[piece + 1]]
        found.update(row[: selection.per_piece].tolist())
    return found


def learned_words(selection: LearnedSelection, sentence: Sequence[int], states: Tensor) -> set[int]:
    """The words that a learned selection allows one sentence with these states, by a loop."""
    found = standing_of(selection.standing, sentence)
    pooled = [max(float(state[place]) for state in states) for place in range(ENCODER_DIM)]
    for word in range(TARGET_VOCAB):
        odds = sum(float(a) * b for a, b in zip(selection.weight[word], pooled, strict=True))
        if 1 / (1 + np.exp(-(odds + float(selection.bias[word])))) > selection.threshold:
            found.add(word)
    return found
