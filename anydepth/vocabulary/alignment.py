"""Which target pieces translate each source piece: IBM model 1, learned from sentence pairs by
expectation maximization."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int

from anydepth.errors import CorpusError
from anydepth.messages.progress import ProgressBar
from anydepth.messages.say import Say
from anydepth.text.tokens import TokenPairs, TokenSide

KEPT = 300  # translations of a source piece that a round hands on to the next; what comes after them is noise
CELLS = 2**23  # of a dense part of the table
MEETINGS = 2**21  # that are looked at together
MOST_MEETINGS = 10**9  # in all: this bounds time and memory where sentences are long


@dataclass(frozen=True, eq=False)
class Translations:
    """The target pieces that translate each source piece and their probabilities, the most probable
    first; of equal ones the lower piece."""

    starts: Int[np.ndarray, " source_and_end"]  # where those of each source piece begin
    words: Int[np.ndarray, " entry"]
    probabilities: Float[np.ndarray, " entry"]


@dataclass(frozen=True, eq=False)
class Meetings:
    """The source tokens of some sentence pairs in the order of their pieces, each beside the target
    tokens of its pair, which it meets.

    Every pair also has one token of the piece NULL, which comes after all others: what it
    translates into comes from nothing.
    """

    firsts: Int[np.ndarray, " source_and_null_and_end"]  # where the tokens of each piece begin
    pairs: Int[np.ndarray, " token"]  # the pair of each token
    targets: Int[np.ndarray, " target_token"]
    starts: Int[np.ndarray, " pair_and_end"]  # where the targets of each pair begin
    target_vocab: int

    @classmethod
    def of(
        cls, pairs: TokenPairs, numbers: Int[np.ndarray, " chosen"], *, source_vocab: int, target_vocab: int
    ) -> "Meetings":
        """Those of the pairs of these numbers."""
        sources, source_lengths = gathered(pairs.source_side, numbers)
        targets, target_lengths = gathered(pairs.target_side, numbers)
        owners = np.repeat(np.arange(len(numbers), dtype=np.int32), source_lengths)
        counts = np.append(np.bincount(sources, minlength=source_vocab), len(numbers))
        in_order = owners[np.argsort(sources, kind="stable")]
        return cls(
            np.concatenate([[0], counts.cumsum()]),
            np.concatenate([in_order, np.arange(len(numbers), dtype=np.int32)]),
            targets,
            np.concatenate([[0], target_lengths.cumsum()]),
            target_vocab,
        )

    @property
    def sources(self) -> int:
        """Source pieces, NULL included."""
        return len(self.firsts) - 1

    @cached_property
    def count(self) -> int:
        """How many there are."""
        return int(np.diff(self.starts)[self.pairs].sum())

    def blocks(self, cells: int) -> Iterator[tuple[int, int]]:
        """Source pieces first..last-1 whose translations into all target pieces are at most `cells`,
        or those of one piece."""
        size = max(1, cells // self.target_vocab)
        return ((first, min(first + size, self.sources)) for first in range(0, self.sources, size))

    def parts(
        self, first: int, last: int, most: int
    ) -> Iterator[tuple[Int[np.ndarray, " meeting"], Int[np.ndarray, " meeting"]]]:
        """The meetings of the source pieces first..last-1, about `most` at a time: the cell of each
        in a dense table of these pieces, and the place of its target token."""
        begin, end = int(self.firsts[first]), int(self.firsts[last])
        rows = np.repeat(np.arange(last - first), np.diff(self.firsts[first : last + 1])) * self.target_vocab
        lengths = np.diff(self.starts)[self.pairs[begin:end]]
        total = int(lengths.sum())
        cuts = [0, *np.searchsorted(lengths.cumsum(), np.arange(most, total, most)).tolist(), end - begin]
        for low, high in pairwise(cuts):
            counts = lengths[low:high]
            shifts = self.starts[self.pairs[begin + low : begin + high]] - (counts.cumsum() - counts)
            places = np.repeat(shifts, counts) + np.arange(counts.sum())
            yield np.repeat(rows[low:high], counts) + self.targets[places], places


def learn_translations(
    meetings: Meetings, *, rounds: int, kept: int = KEPT, cells: int = CELLS, most: int = MEETINGS, say: Say
) -> Translations:
    """p(target | source) after `rounds` of expectation maximization from equal probabilities; NULL
    is the last source piece.

    Departure from the textbook: after each round only the `kept` best translations of a source
    piece live on. Memory holds one dense block of `cells`; how many meetings are looked at together
    changes nothing.
    """
    found: Translations | None = None
    with ProgressBar(max(2 * rounds * meetings.count, 1), "word pairs compared", say) as bar:
        for _ in range(rounds):
            found = _next_round(meetings, found, kept, cells, most, bar)
    assert found is not None, "there is at least one round"
    return found


def _next_round(
    meetings: Meetings, before: Translations | None, kept: int, cells: int, most: int, bar: ProgressBar
) -> Translations:
    """The probabilities after one more round."""
    sums = np.zeros(len(meetings.targets))  # over the source tokens of a pair, for each target token
    for first, last in meetings.blocks(cells):
        table = _dense(before, first, last, meetings.target_vocab)
        for at, places in meetings.parts(first, last, most):
            np.add.at(sums, places, table[at])
            bar.add(len(at))
    sums[sums == 0] = 1.0  # no translation of it lives on
    rows = []
    for first, last in meetings.blocks(cells):
        table = _dense(before, first, last, meetings.target_vocab)
        expected = np.zeros_like(table)
        for at, places in meetings.parts(first, last, most):
            np.add.at(expected, at, table[at] / sums[places])
            bar.add(len(at))
        rows += [_best(row, kept) for row in expected.reshape(last - first, meetings.target_vocab)]
    words, probabilities = zip(*rows, strict=True)
    starts = np.cumsum([0, *(len(row) for row in words)])
    return Translations(starts, np.concatenate(words), np.concatenate(probabilities))


def _dense(found: Translations | None, first: int, last: int, target_vocab: int) -> Float[np.ndarray, " cell"]:
    """The probabilities of the source pieces first..last-1 for all target pieces, row after row;
    equal ones before the first round."""
    if found is None:
        return np.ones((last - first) * target_vocab)
    table = np.zeros((last - first) * target_vocab)
    entries = slice(found.starts[first], found.starts[last])
    rows = np.repeat(np.arange(last - first), np.diff(found.starts[first : last + 1]))
    table[rows * target_vocab + found.words[entries]] = found.probabilities[entries]
    return table


def _best(
    counts: Float[np.ndarray, " target_vocab"], kept: int
) -> tuple[Int[np.ndarray, " entry"], Float[np.ndarray, " entry"]]:
    """The `kept` target pieces with the highest expected counts, highest first, and their shares of
    all counts."""
    words = np.flatnonzero(counts)
    if len(words) > kept:
        least = np.partition(counts[words], -kept)[-kept]
        words = words[counts[words] >= least]
    words = words[np.argsort(-counts[words], kind="stable")][:kept]
    return words.astype(np.int32), counts[words] / max(counts.sum(), np.finfo(float).tiny)


def draw_pairs(pairs: TokenPairs, *, most: int, seed: int) -> Int[np.ndarray, " chosen"]:
    """The numbers of at most `most` pairs, each with the same chance, in ascending order; fewer
    where sentences are so long that they would take hours."""
    if len(pairs) == 0:
        raise CorpusError("there are 0 pairs to learn a lexical table from; prepare data with at least one pair")
    randomness = np.random.Generator(np.random.PCG64(seed))
    numbers = np.arange(len(pairs))
    if len(pairs) > most:
        numbers = randomness.choice(len(pairs), size=most, replace=False, shuffle=True)
    elif _meetings_of(pairs, numbers).sum() > MOST_MEETINGS:
        numbers = randomness.permutation(len(pairs))
    fitting = int(np.searchsorted(_meetings_of(pairs, numbers).cumsum(), MOST_MEETINGS, side="right"))
    return np.sort(numbers[: max(1, fitting)])


def _meetings_of(pairs: TokenPairs, numbers: Int[np.ndarray, " chosen"]) -> Int[np.ndarray, " chosen"]:
    """How many meetings each of these pairs has, those with NULL included."""
    sources, targets = (
        side.offsets[numbers + 1] - side.offsets[numbers] for side in (pairs.source_side, pairs.target_side)
    )
    meetings: Int[np.ndarray, " chosen"] = (sources + 1) * targets
    return meetings


def gathered(
    side: TokenSide, numbers: Int[np.ndarray, " chosen"]
) -> tuple[Int[np.ndarray, " token"], Int[np.ndarray, " chosen"]]:
    """The tokens of the sentences of these numbers one after the other, and the sentences'
    lengths."""
    begins = np.asarray(side.offsets[numbers], np.int64)
    lengths = np.asarray(side.offsets[numbers + 1], np.int64) - begins
    tokens = np.empty(lengths.sum(), np.int32)
    place = 0
    for low in range(0, len(numbers), 2**16):
        counts = lengths[low : low + 2**16]
        shifts = begins[low : low + 2**16] - (counts.cumsum() - counts)
        taken = side.tokens[np.repeat(shifts, counts) + np.arange(counts.sum())]
        tokens[place : place + len(taken)] = taken
        place += len(taken)
    return tokens, lengths
