"""A model of a given shape with random weights, random sentences for it, a made-up table of words, and
exits drawn from a histogram."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from anydepth.config.schema import Config
from anydepth.errors import UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.model.memory import check_memory
from anydepth.text.tokenizer import EOS, UNK
from anydepth.vocabulary.lexical_table import LexicalTable, StandingWords, TableSelection

CONTROLS = ("<pad>", "<s>", "</s>", "<unk>")
ALWAYS = 50  # words that every sentence may use, where a table chooses the others


@dataclass(frozen=True)
class Sizes:
    """What a shape's text is like: lengths count EOS on the source side, and tokens that are none
    on the output's. `words_per_piece` are the words that a source piece may bring; None: all words
    are chosen among."""

    vocab: int = 10_000
    source_length: int = 23
    output_length: int = 25
    words_per_piece: int | None = None

    def __post_init__(self) -> None:
        if self.vocab <= len(CONTROLS):
            raise UsageError(
                f"--vocab {self.vocab} has no room for words beside {len(CONTROLS)} control tokens; set it to 5 or more"
            )
        if self.source_length < 2:
            raise UsageError(f"--source-length {self.source_length} counts the end of the sentence, so it is 2 or more")
        if self.output_length < 2:
            raise UsageError(
                f"--output-length {self.output_length} leaves nothing after the first token to time; set it to 2 or "
                "more"
            )
        words = self.vocab - len(CONTROLS)
        if self.words_per_piece is not None and not 1 <= self.words_per_piece <= words:
            raise UsageError(
                f"--words-per-piece {self.words_per_piece} cannot be drawn from the {words:,} words of --vocab "
                f"{self.vocab}; set it between 1 and {words:,}"
            )


def shaped_model(config: Config, sizes: Sizes, *, units: int, seed: int) -> AdaptiveTransformer:
    """A model of the shape of `config` with random weights and a geometric-like halting module with
    `units`, ready to translate."""
    exits = config.exits.model_copy(update={"halting": "geometric", "halting_units": units})
    check_memory(config.model, source_vocab=sizes.vocab, target_vocab=sizes.vocab, is_joint=True, copies=1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AdaptiveTransformer(
            config.model_copy(update={"exits": exits}),
            source_vocab=sizes.vocab,
            target_vocab=sizes.vocab,
            is_joint=True,
        )
    return model.eval()


def random_table(sizes: Sizes, *, seed: int) -> TableSelection | None:
    """A table that brings each source piece as many words as the sizes say, drawn at random, and every
    sentence the first words of the vocabulary; None where all words are chosen among."""
    count, first = sizes.words_per_piece, len(CONTROLS)
    if count is None:
        return None
    generator = np.random.default_rng(seed)
    standing = StandingWords(
        always=np.array([EOS, *range(first, min(first + ALWAYS, sizes.vocab))], np.int32),
        copies=np.full(sizes.vocab, -1, np.int32),
        vocab=sizes.vocab,
    )
    words = [generator.choice(sizes.vocab - first, count, replace=False) + first for _ in range(sizes.vocab)]
    starts = np.arange(sizes.vocab + 1, dtype=np.int64) * count
    return TableSelection(LexicalTable(standing, starts, np.concatenate(words).astype(np.int32)), count)


def random_sentences(sizes: Sizes, count: int, *, seed: int) -> list[list[int]]:
    """`count` sentences of words drawn at random, all of the same length."""
    generator = torch.Generator().manual_seed(seed)
    words: list[list[int]] = torch.randint(
        UNK + 1, sizes.vocab, (count, sizes.source_length - 1), generator=generator
    ).tolist()
    return words


def made_up_pieces(vocab: int) -> list[str]:
    """Names for the tokens of a vocabulary that has no words."""
    return [*CONTROLS, *(f"word{number}" for number in range(len(CONTROLS), vocab))]


def drawn_exits(shares: Sequence[float], *, sentences: int, length: int, seed: int) -> Int[Tensor, "sentence time"]:
    """An exit for every token, each drawn on its own from the exits 1..N with these shares."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.tensor(shares, dtype=torch.float64)
    return 1 + torch.multinomial(weights, sentences * length, replacement=True, generator=generator).view(
        sentences, length
    )


def parse_shares(text: str, blocks: int) -> list[float]:
    """The shares of the exits in a text such as "0.5,0.2,0.1,0.1,0.05,0.05", made to sum to 1."""
    try:
        values = [float(value) for value in text.split(",")]
    except ValueError:
        raise UsageError(
            f"--exits-histogram {text}: shares are numbers with commas between, as in 0.5,0.3,0.2"
        ) from None
    if len(values) != blocks:
        raise UsageError(
            f"--exits-histogram has {len(values)} shares but the shape has {blocks} exits; give one for each exit"
        )
    if any(not math.isfinite(value) or value < 0 for value in values) or not 0 < sum(values) < math.inf:
        raise UsageError(f"--exits-histogram {text}: shares are not negative, not all of them 0, and finite")
    return [value / sum(values) for value in values]
