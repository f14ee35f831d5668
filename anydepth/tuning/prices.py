"""Prices: how long a search takes, as a sum over what it does, fitted to a few searches that were
timed."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields, replace
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Float

from anydepth.exits.flops import DecoderShape
from anydepth.exits.policies import Policy
from anydepth.exits.thresholds import ThresholdExit
from anydepth.tuning.replay import Replayed, ReplayRecord, looks_made


@dataclass(frozen=True)
class SearchWork:
    """What a search did, by the exits of its best hypotheses: each of these has its price."""

    sentences: int
    selections: int  # sentences whose words were selected
    tokens: int
    blocks: int  # blocks run, one for each token that passes one
    copies: int  # blocks with keys of their own that a sentence reached and a token did not
    looks: int  # signals computed
    word_flops: int  # of decisions and words

    @classmethod
    def of_search(
        cls, shape: DecoderShape, policy: Policy, exits: Sequence[Sequence[int]], sizes: Sequence[int] | None
    ) -> "SearchWork":
        """What it took to find translations whose tokens left at `exits`, a row for each sentence,
        among so many words for each."""
        looked = [0] * (shape.blocks + 1)  # by exit
        if isinstance(policy, ThresholdExit):
            looked[1:] = looks_made(np.array([policy.thresholds]))[0].tolist()
        word_flops = 0
        for row, size in zip(exits, sizes or [shape.vocab] * len(exits), strict=True):
            left, times = torch.tensor(row, dtype=torch.long), torch.arange(1, len(row) + 1)
            word_flops += int(policy.cost(replace(shape, vocab=size), left, times).sum())
        return cls(
            sentences=len(exits),
            selections=0 if sizes is None else len(exits),
            tokens=sum(map(len, exits)),
            blocks=sum(map(sum, exits)),
            copies=sum(copies_made(shape, row) for row in exits),
            looks=sum(looked[left] for row in exits for left in row),
            word_flops=word_flops,
        )


def copies_made(shape: DecoderShape, exits: Sequence[int]) -> int:
    """The keys and values of a sentence's tokens that are made of states that left below the block."""
    made = [min(n, shape.last_key_block) for n in exits]
    return max(made, default=0) * len(made) - sum(made)


@dataclass(frozen=True)
class PriceList:
    """The seconds that each part of a search's work takes, in the order of SearchWork's fields."""

    prices: tuple[float, ...]
    largest_error: float  # of the searches that it was fitted to, as a share of their time

    def seconds(self, work: SearchWork) -> float:
        """What a search takes."""
        return float(np.dot(self.prices, astuple(work)))

    def time_shares(self, record: ReplayRecord, replayed: Replayed) -> Float[np.ndarray, " candidate"]:
        """What each candidate takes on the record, as a share of full depth's time with all
        words."""
        tokens, sentences = record.signals.shape[1], len(record.starts)
        is_selected = bool((record.words < record.shape.vocab).any())
        parts = {
            "sentences": np.full(len(replayed.looks), float(sentences)),
            "selections": np.full(len(replayed.looks), float(sentences if is_selected else 0)),
            "tokens": np.full(len(replayed.looks), float(tokens)),
            "blocks": replayed.average_exits * tokens,
            "copies": replayed.copies * tokens,
            "looks": replayed.looks * tokens,
            "word_flops": replayed.word_flops * tokens,
        }
        works = np.stack([parts[field.name] for field in fields(SearchWork)], axis=1)
        shape = record.shape
        full = SearchWork(sentences, 0, tokens, shape.blocks * tokens, 0, 0, 2 * shape.vocab * shape.dim * tokens)
        shares: Float[np.ndarray, " candidate"] = works @ np.array(self.prices) / self.seconds(full)
        return shares

    def describe(self, shape: DecoderShape) -> str:
        """The prices in one line, in microseconds."""
        named = dict(zip((field.name for field in fields(SearchWork)), self.prices, strict=True))
        word = 2 * shape.vocab * shape.dim * named["word_flops"]
        shown = [
            ("sentence", named["sentences"]),
            ("token", named["tokens"]),
            ("block", named["blocks"]),
            ("copied state", named["copies"]),
            ("look", named["looks"]),
            ("scoring all words", word),
        ]
        priced = ", ".join(f"{name} {1e6 * price:.1f}" for name, price in shown if price)
        return (
            f"prices in microseconds: {priced}; the timed searches lie within {100 * self.largest_error:.0f}% of them"
        )


def fit_prices(works: Sequence[SearchWork], seconds: Sequence[float]) -> PriceList:
    """The prices, none below 0, that come closest to the `seconds` of the timed searches, by the
    squares of the errors as shares of the time.

    With so few parts every set of parts that may have a price is tried, which finds the least
    squares without negative prices exactly.
    """
    table = np.array([astuple(work) for work in works], dtype=np.float64)
    scale = table.max(axis=0)
    rows = table / np.where(scale > 0, scale, 1) / np.asarray(seconds)[:, None]
    kinds = [kind for kind in range(table.shape[1]) if scale[kind] > 0]
    best, prices = np.inf, np.zeros(table.shape[1])
    for count in range(1, len(kinds) + 1):
        for chosen in map(list, combinations(kinds, count)):
            found, *_ = np.linalg.lstsq(rows[:, chosen], np.ones(len(rows)), rcond=None)
            error = float(((rows[:, chosen] @ found - 1) ** 2).sum())
            if (found >= 0).all() and error < best - 1e-12:
                best, prices = error, np.zeros(table.shape[1])
                prices[chosen] = found
    error = np.abs(rows @ prices - 1).max()
    return PriceList(tuple((prices / np.where(scale > 0, scale, 1)).tolist()), float(error))
