"""What the decoder keeps between two time steps when its blocks run in ONNX Runtime.

All of it is NumPy: ONNX Runtime reads arrays where they are, and for a handful of rows NumPy's
calls take a third of torch's time.
"""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int
from torch import Tensor

from anydepth.inference.engines.onnx.sessions import Array, Program
from anydepth.model.cache import DecoderCache

ROOM = 8  # positions by which the arrays grow


@dataclass
class DeferredCache(DecoderCache):
    """A cache that makes the keys and values of a position for block n when its row next runs block
    n, if it ever does.

    Until then it keeps the state that the token left with. That is exact: a token that left below
    block n enters it with that state. Where blocks above the first attend to the states after it,
    those are kept, too.
    """

    # h_t^{n_t}, and at the present position the states so far
    states: Float[Array, "row capacity dim"] = field(init=False)
    attends_first: bool = False
    first: Float[Array, "row capacity dim"] = field(init=False)  # h_t^1, where blocks attend to it
    # by block, keys and values (2, row, head, capacity, head_dim)
    pairs: dict[int, Array] = field(default_factory=dict)
    done: dict[int, Array] = field(default_factory=dict)  # by block, how many positions of each row have them
    source_pairs: dict[int, Array] = field(default_factory=dict)  # by block, (2, sentence, head, source, head_dim)
    has_source: dict[int, Array] = field(default_factory=dict)  # by block, whether each sentence has them

    def __post_init__(self) -> None:
        self._look_at_rows()
        self._look_at_sentences()
        self._look_at_time()

    def catch_up(
        self, n: int, rows: Int[Array, " chosen"], states: Float[Array, "chosen dim"], program: Program
    ) -> None:
        """Makes the keys and values that block n lacks for `rows`, which enter it with `states`:
        all in one product."""
        attended = self.states
        if self.attends_first and n > 1:
            attended, states = self.first, self.first[rows, self.time]
        done = self.done[n][rows] if n in self.done else np.zeros(len(rows), np.int64)
        places, positions = rows, np.array(self.time)
        if done.min() < self.time:
            counts = self.time + 1 - done
            places = rows.repeat(counts)
            positions = np.arange(len(places)) - (counts.cumsum() - 1 - self.time).repeat(counts)
            states = attended[places, positions]
        self.keep(n, places, positions, *program(states=states))
        self.done[n][rows] = self.time + 1

    def keep(
        self,
        n: int,
        rows: Int[Array, " place"],
        positions: Int[Array, "*#place"],
        keys: Float[Array, "place head head_dim"],
        values: Float[Array, "place head head_dim"],
    ) -> None:
        """Keeps keys and values of block n at the given rows and positions.

        Room not yet used holds zeros: what a mask hides counts 0 times, and must not be 0 times
        infinity.
        """
        if n not in self.pairs:
            self.pairs[n] = np.zeros((2, len(self.rows), keys.shape[1], len(self.past_mask), keys.shape[2]), np.float32)
            self.done[n] = np.zeros(len(self.rows), np.int64)
        while self.pairs[n].shape[3] < len(self.past_mask):
            self.pairs[n] = _longer(self.pairs[n], axis=3)
        self.pairs[n][0, rows, :, positions], self.pairs[n][1, rows, :, positions] = keys, values

    def past_of_rows(self, n: int, rows: Int[Array, " chosen"]) -> Float[Array, "2 chosen head capacity head_dim"]:
        """The keys and values of block n for `rows`."""
        return self.pairs[n] if len(rows) == len(self.rows) else self.pairs[n][:, rows]

    def source_of_sentences(
        self, n: int, sentences: Int[Array, " chosen"], program: Program
    ) -> Float[Array, "2 chosen head source head_dim"]:
        """The source keys and values of block n, made now for sentences that have none."""
        ready = self.has_source.setdefault(n, np.zeros(len(self.masks), bool))
        missing = sentences if n not in self.source_pairs else sentences[~ready[sentences]]
        if len(missing):
            keys, values = program(memory=self.memory.numpy()[missing])
            if n not in self.source_pairs:
                self.source_pairs[n] = np.zeros((2, len(self.masks), *keys.shape[1:]), np.float32)
            self.source_pairs[n][0, missing], self.source_pairs[n][1, missing] = keys, values
            ready[missing] = True
        pairs = self.source_pairs[n]
        return pairs if len(sentences) == len(self.masks) else pairs[:, sentences]

    def side_by_side(
        self, rows: Int[Array, " chosen"]
    ) -> tuple[Int[Array, " sentence"], Int[Array, "sentence slot"], Int[Array, " chosen"]]:
        """The sentences of `rows`, which row stands in each slot of them, and where in that grid,
        flattened, each row stands."""
        if len(self.rows) == len(self.masks):  # one row for each sentence
            places = self.rows[: len(rows)]
            return rows, places[:, None], places
        sentences, first, number, counts = np.unique(
            self.sentences[rows], return_index=True, return_inverse=True, return_counts=True
        )
        place = number * counts.max() + self.rows[: len(rows)] - first[number]
        grid = np.zeros(len(sentences) * counts.max(), np.int64)
        grid[place] = self.rows[: len(rows)]
        return sentences, grid.reshape(len(sentences), -1), place

    def begin(self, states: Float[Array, "row dim"]) -> None:
        """Begins a position with the embedded inputs."""
        if self.time == 0:
            self.states = np.zeros((len(states), ROOM, states.shape[1]), np.float32)
            self.first = np.zeros_like(self.states) if self.attends_first else self.states
        elif self.time == self.states.shape[1]:
            self.states = _longer(self.states, axis=1)
            self.first = _longer(self.first, axis=1) if self.attends_first else self.states
        self.states[:, self.time] = states

    def keep_states(self, n: int, rows: Int[Array, " chosen"], states: Float[Array, "chosen dim"]) -> None:
        """Keeps the states of some rows after block n."""
        self.states[rows, self.time] = states
        if self.attends_first and n == 1:
            self.first[rows, self.time] = states

    def end(self) -> Float[Array, "row dim"]:
        """Ends the position; the states that its tokens left with."""
        left = np.ascontiguousarray(self.states[:, self.time])
        self.time += 1
        self._look_at_time()
        return left

    def choose_rows(self, rows: Int[Tensor, " chosen"]) -> None:
        """Makes row i what row `rows[i]` was."""
        before = self.sentence_of_row
        super().choose_rows(rows)
        if self.sentence_of_row is not before:
            chosen = rows.numpy()
            self.states = self.states[chosen]
            self.first = self.first[chosen] if self.attends_first else self.states
            self.pairs = {n: pairs[:, chosen] for n, pairs in self.pairs.items()}
            self.done = {n: done[chosen] for n, done in self.done.items()}
            self._look_at_rows()

    def choose_sentences(self, sentences: Int[Tensor, " chosen"]) -> None:
        """Keeps `sentences` (ascending) and their rows."""
        super().choose_sentences(sentences)
        chosen = sentences.numpy()
        self.source_pairs = {n: pairs[:, chosen] for n, pairs in self.source_pairs.items()}
        self.has_source = {n: ready[chosen] for n, ready in self.has_source.items()}
        self._look_at_rows()
        self._look_at_sentences()

    def _look_at_rows(self) -> None:
        self.sentences: Int[Array, " row"] = self.sentence_of_row.numpy()
        self.rows: Int[Array, " row"] = np.arange(len(self.sentences))

    def _look_at_sentences(self) -> None:
        self.masks: Bool[Array, "sentence source"] = np.ascontiguousarray(self.source_mask.numpy())

    def _look_at_time(self) -> None:
        self.position: Array = np.array([self.time])
        self.past_mask: Array = np.arange(-(-(self.time + 1) // ROOM) * ROOM) <= self.time  # (capacity)


def _longer(array: Array, *, axis: int) -> Array:
    """`array` with room for more positions."""
    shape = [*array.shape]
    shape[axis] = ROOM
    return np.concatenate([array, np.zeros(shape, np.float32)], axis=axis)
