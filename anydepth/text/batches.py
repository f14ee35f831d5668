"""Batches by token budget: padded tensors, and an endless shuffled stream that can be continued
from any position."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice

import numpy as np
import torch
from jaxtyping import Bool, Int, Integer
from torch import Tensor

from anydepth.errors import CorpusError
from anydepth.text.tokenizer import BOS, EOS, PAD
from anydepth.text.tokens import TokenPairs


class NoSuchPlaceError(CorpusError):
    """A place that the stream of batches does not have."""


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as padded tensors; masks are true at real tokens. Inputs at time t predict
    targets at time t."""

    source: Int[Tensor, "batch source"]
    source_mask: Bool[Tensor, "batch source"]
    target_inputs: Int[Tensor, "batch time"]
    targets: Int[Tensor, "batch time"]
    target_mask: Bool[Tensor, "batch time"]
    indices: list[int]

    @property
    def tokens(self) -> int:
        """Number of targets that are not padding, EOS included."""
        return int(self.target_mask.sum())

    def cut(self, length: int) -> "Batch":
        """The same pairs with no more than the first `length` positions of either side."""
        return self._with(lambda tensor: tensor[:, :length])

    def to(self, device: torch.device) -> "Batch":
        """The same batch on `device`."""
        return self._with(lambda tensor: tensor.to(device))

    def _with(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        return Batch(
            change(self.source),
            change(self.source_mask),
            change(self.target_inputs),
            change(self.targets),
            change(self.target_mask),
            self.indices,
        )


@dataclass(frozen=True)
class Position:
    """A place in the stream: the next batch is number `batch` of pool `pool` of epoch `epoch`, all
    from 0."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0

    def to_json(self) -> dict[str, int]:
        """The position as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, int]) -> "Position":
        """The position that `to_json` wrote."""
        return cls(**values)


def make_source(
    sequences: Sequence[Sequence[int] | Integer[np.ndarray, " _"]],
) -> tuple[Int[Tensor, "batch source"], Bool[Tensor, "batch source"]]:
    """Source tensor and mask for translating: each sequence is ended with EOS and padded."""
    return _pad([np.append(np.asarray(sequence, np.int64), EOS) for sequence in sequences])


def make_batch(pairs: TokenPairs, indices: Sequence[int] | Int[np.ndarray, " batch"]) -> Batch:
    """The pairs of these numbers, in this order."""
    numbers = [int(number) for number in indices]
    targets = [pairs.target(number).astype(np.int64) for number in numbers]
    source, source_mask = make_source([pairs.source(number) for number in numbers])
    target_inputs, target_mask = _pad([np.insert(target, 0, BOS) for target in targets])
    outputs, _ = _pad([np.append(target, EOS) for target in targets])
    return Batch(source, source_mask, target_inputs, outputs, target_mask, numbers)


def batch_plan(
    lengths: Int[np.ndarray, " pairs"], indices: Int[np.ndarray, " pairs"], *, max_tokens: int
) -> list[Int[np.ndarray, " batch"]]:
    """The indices sorted by length and cut into batches of rows * longest row <= max_tokens.

    `lengths` belong to the indices one by one and include EOS. Equal lengths stay in the order in
    which they come. A row that alone exceeds the budget is a batch of its own.
    """
    order = np.argsort(lengths, kind="stable")
    cuts: list[int] = []
    start = 0
    for place, length in enumerate(lengths[order].tolist()):
        if place > start and (place + 1 - start) * length > max_tokens:
            cuts.append(place)
            start = place
    return np.split(indices[order], cuts) if len(indices) else []


class BatchStream:
    """An endless stream of batches, each a list of pair numbers, that is the same for the same
    seed.

    An epoch gathers runs of `run_pairs` neighbouring pairs into pools of at most `pool_pairs`. Of
    each stretch of as many runs as there are pools, every pool gets one, drawn at random: so each
    pool has of every part of the corpus what the whole has. Inside a pool pairs are shuffled, sorted
    by length, cut into batches, and the batches are shuffled. So every pair comes once an epoch, a
    corpus of one pool is shuffled as a whole, and memory holds one pool and one number a run
    whatever the corpus.
    """

    def __init__(
        self, pairs: TokenPairs, *, max_tokens: int, seed: int, pool_pairs: int = 262_144, run_pairs: int = 1024
    ) -> None:
        if len(pairs) == 0:
            raise CorpusError("there are 0 pairs to train on; prepare data with at least one pair")
        if max_tokens < 1:
            raise CorpusError(f"max_tokens = {max_tokens} leaves no room in a batch; set it to 1 or more, as in 4096")
        assert pool_pairs >= 1 and run_pairs >= 1, (pool_pairs, run_pairs)
        self.pairs = pairs
        self.max_tokens = max_tokens
        self.seed = seed
        self.run_pairs = run_pairs
        self.pool_runs = max(1, pool_pairs // run_pairs)
        self.runs = -(-len(pairs) // run_pairs)
        self.pools = -(-self.runs // self.pool_runs)

    def from_position(self, position: Position) -> Iterator[tuple[Int[np.ndarray, " batch"], Position]]:
        """Batches from `position` on, each with the position of the next."""
        epoch, pool, first = position.epoch, position.pool, position.batch
        while True:
            batches = self._pool_batches(epoch, pool)
            if first >= len(batches):
                raise NoSuchPlaceError(
                    f"the stream has no {position}: pool {pool} of epoch {epoch} has {len(batches)} batches; "
                    "continue with the data and the max_tokens with which the position was saved"
                )
            following = Position(epoch, pool + 1) if pool + 1 < self.pools else Position(epoch + 1)
            for number in range(first, len(batches)):
                is_last = number + 1 == len(batches)
                yield batches[number], following if is_last else Position(epoch, pool, number + 1)
            epoch, pool, first = following.epoch, following.pool, 0

    def _pool_batches(self, epoch: int, pool: int) -> list[Int[np.ndarray, " batch"]]:
        """The batches of one pool in their order; none if the epoch has no such pool."""
        # Pool numbers start at 1 here because SeedSequence pads with zeros: [seed, epoch] would
        # equal [seed, epoch, 0].
        if pool >= self.pools:
            return []
        runs = self._runs_of_pool(epoch, pool)
        randomness = self._randomness(epoch, pool + 1)
        spans = [(run * self.run_pairs, min((run + 1) * self.run_pairs, len(self.pairs))) for run in runs.tolist()]
        indices = np.concatenate([np.arange(start, stop) for start, stop in spans])
        lengths = np.concatenate([_row_lengths(self.pairs, start, stop) for start, stop in spans])
        shuffled = randomness.permutation(len(indices))
        batches = batch_plan(lengths[shuffled], indices[shuffled], max_tokens=self.max_tokens)
        return [batches[number] for number in randomness.permutation(len(batches))]

    def _runs_of_pool(self, epoch: int, pool: int) -> Int[np.ndarray, " runs"]:
        """The numbers of the runs of one pool in random order."""
        randomness = self._randomness(epoch, 0)
        if self.pools == 1:
            return randomness.permutation(self.runs)
        stretches = -(-self.runs // self.pools)
        dealt = randomness.permuted(np.arange(stretches * self.pools).reshape(stretches, self.pools), axis=1)
        chosen = dealt[:, pool]
        return randomness.permutation(chosen[chosen < self.runs])  # the last stretch may be short

    def _randomness(self, epoch: int, purpose: int) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, epoch, purpose])))


def training_batches(
    stream: BatchStream, position: Position, *, rank: int, world: int, accumulation: int
) -> Iterator[tuple[list[Batch], Position]]:
    """One item per optimizer update: the batches of this rank, and the position after the update,
    equal on all ranks.

    An update takes world * accumulation batches of the stream, and rank r those in slots r, r +
    world, r + 2 world, ... So two processes that accumulate 3 batches make the same updates as one
    that accumulates 6.
    """
    assert 0 <= rank < world and accumulation >= 1, (rank, world, accumulation)
    numbered = stream.from_position(position)
    while True:
        update = list(islice(numbered, world * accumulation))
        yield [make_batch(stream.pairs, indices) for indices, _ in update[rank::world]], update[-1][1]


def ordered_batches(pairs: TokenPairs, *, max_tokens: int) -> Iterator[Batch]:
    """Every pair once, short ones first, always in the same batches."""
    lengths = _row_lengths(pairs, 0, len(pairs))
    for indices in batch_plan(lengths, np.arange(len(pairs)), max_tokens=max_tokens):
        yield make_batch(pairs, indices)


def _row_lengths(pairs: TokenPairs, start: int, stop: int) -> Int[np.ndarray, " pairs"]:
    """Length of the longer side of each pair with its EOS: what a row costs."""
    source, target = pairs.lengths(start, stop)
    longer: Int[np.ndarray, " pairs"] = np.maximum(source, target)
    return longer + 1


def _pad(rows: Sequence[Int[np.ndarray, " _"]]) -> tuple[Int[Tensor, "batch length"], Bool[Tensor, "batch length"]]:
    """The rows one below the other, PAD after the shorter ones, and the mask of what is real."""
    lengths = np.array([len(row) for row in rows], np.int64)
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]  # (batch, length)
    padded = np.full(mask.shape, PAD, np.int64)
    if rows:
        padded[mask] = np.concatenate(rows)
    return torch.from_numpy(padded), torch.from_numpy(mask)
