"""Made-up word selections for tiny models."""

from dataclasses import replace

import numpy as np
import torch

from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.text.tokenizer import EOS
from anydepth.vocabulary.learned_selection import LearnedSelection
from anydepth.vocabulary.lexical_table import LexicalTable, StandingWords, TableSelection
from anydepth.vocabulary.selection import WordSelection

ALWAYS = 11  # as many as a beam of 5 wants


def standing_words(model: AdaptiveTransformer, *, always: int = ALWAYS, seed: int = 1) -> StandingWords:
    """Random words beside EOS, a word for two thirds of the source pieces, and words that two of the
    pieces bring with them."""
    generator = np.random.default_rng(seed)
    source, vocab = model.source_embedding.num_embeddings, model.target_embedding.num_embeddings
    words = generator.permutation(np.arange(4, vocab))[: always - 1]
    copies = generator.integers(4, vocab, source)
    copies[generator.random(source) < 1 / 3] = -1
    spelled = generator.permutation(np.arange(4, source))[:2]
    spelling = generator.permutation(np.arange(4, vocab))[:5]
    return StandingWords(np.sort(np.append(words, EOS)), copies, vocab, spelling, spelled)


def table_selection(
    model: AdaptiveTransformer, *, per_piece: int = 2, always: int = ALWAYS, seed: int = 1
) -> TableSelection:
    """A selection by a table of up to 4 random words for each source piece."""
    generator = np.random.default_rng(seed)
    counts = generator.integers(0, 5, model.source_embedding.num_embeddings)
    words = generator.integers(4, model.target_embedding.num_embeddings, counts.sum())
    starts = np.concatenate([[0], counts.cumsum()])
    return TableSelection(LexicalTable(standing_words(model, always=always, seed=seed), starts, words), per_piece)


def learned_selection(model: AdaptiveTransformer, *, threshold: float = 0.6, seed: int = 1) -> LearnedSelection:
    """A selection by random weights, which takes about a third of the words."""
    generator = torch.Generator().manual_seed(seed)
    vocab, dim = model.target_embedding.num_embeddings, model.config.encoder.dim
    weight, bias = torch.randn(vocab, dim, generator=generator), torch.randn(vocab, generator=generator)
    return LearnedSelection(standing_words(model, seed=seed), weight / dim**0.5, bias - 1, threshold)


SELECTIONS = {"table": table_selection, "learned": learned_selection}


def every_word(model: AdaptiveTransformer) -> WordSelection:
    """A selection that leaves nothing out."""
    table = table_selection(model).table
    return TableSelection(replace(table, standing=replace(table.standing, always=np.arange(table.standing.vocab))), 1)
