"""The word selections of a run on disk: learned, stored, and checked before they are believed."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import numpy as np
import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from anydepth.errors import RunError
from anydepth.files.reading import Unreadable, checked, json_of
from anydepth.limits import LARGEST_FACTOR, LARGEST_SEED, MOST_PIECES, MOST_UPDATES
from anydepth.messages.say import Say
from anydepth.model.checkpoint import load_tensors, not_finite, save_tensors
from anydepth.runs.fingerprints import weights_fingerprint
from anydepth.runs.run import Run, usable_data
from anydepth.text.tokenizer import EOS
from anydepth.vocabulary.alignment import Meetings, draw_pairs, learn_translations
from anydepth.vocabulary.learned_selection import LearnedSelection
from anydepth.vocabulary.lexical_table import LexicalTable
from anydepth.vocabulary.standing_words import always_words, standing_words

FORMAT = "1"
MOST_ROUNDS = 100
Record = TypeVar("Record")


@dataclass(frozen=True, kw_only=True)
class SelectionOrigin:
    """What every word selection was made of: two tokenizers, and text, by their fingerprints."""

    source_tokenizer: str
    target_tokenizer: str
    data: str
    pairs: Annotated[int, Field(ge=1, le=MOST_UPDATES)]
    frequent: Annotated[int, Field(ge=0, le=MOST_PIECES)]
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)]


@dataclass(frozen=True, kw_only=True)
class TableRecipe(SelectionOrigin):
    """How a lexical table was learned."""

    rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS)]
    per_piece: Annotated[int, Field(ge=1, le=MOST_PIECES)]


@dataclass(frozen=True, kw_only=True)
class LearnedWordsRecipe(SelectionOrigin):
    """How a learned selection was trained, and the weights whose encoder it looks at."""

    weights: str
    updates: Annotated[int, Field(ge=1, le=MOST_UPDATES)]
    positive_weight: Annotated[float, Field(gt=0, le=LARGEST_FACTOR)]
    learning_rate: Annotated[float, Field(gt=0, le=LARGEST_FACTOR)]


@dataclass(frozen=True, kw_only=True)
class TableSettings:
    """How a lexical table is learned: from how many pairs, drawn at random, in how many rounds, and
    how many words each source piece keeps; `frequent` words may always be used."""

    pairs: int = 1_000_000
    rounds: int = 5
    per_piece: int = 100
    frequent: int = 100
    seed: int = 1


def learn_table(run: Run, settings: TableSettings, *, data_folder: Path | None = None, say: Say) -> TableRecipe:
    """Learns the lexical table of the run from its training text, or from prepared text in its
    vocabulary, and stores it."""
    data = usable_data(run, data_folder, use="--data")
    source, target = run.tokenizers()
    pairs = data.pairs("train")
    numbers = draw_pairs(pairs, most=settings.pairs, seed=settings.seed)
    drawn = "" if len(numbers) == len(pairs) else f" of {len(pairs):,}, drawn with seed {settings.seed}"
    say(f"learning a lexical table from {len(numbers):,} pairs{drawn} in {settings.rounds} rounds")
    meetings = Meetings.of(pairs, numbers, source_vocab=source.size, target_vocab=target.size)
    found = learn_translations(meetings, rounds=settings.rounds, say=say)
    occurrences = np.bincount(meetings.targets, minlength=target.size)
    always = always_words(target, occurrences, frequent=settings.frequent)
    # NULL, the last row, is no source piece
    whole = LexicalTable(standing_words(source, target, always), found.starts[:-1], found.words)
    recipe = TableRecipe(
        source_tokenizer=source.fingerprint,
        target_tokenizer=target.fingerprint,
        data=data.fingerprint,
        pairs=len(numbers),
        frequent=settings.frequent,
        seed=settings.seed,
        rounds=settings.rounds,
        per_piece=settings.per_piece,
    )
    save_table(run, whole.cut(settings.per_piece), recipe)
    return recipe


def save_table(run: Run, table: LexicalTable, recipe: TableRecipe) -> None:
    """Stores the table with the run."""
    arrays = {"always": table.standing.always, "starts": table.starts.astype(np.int64), "words": table.words}
    save_tensors(
        run.table_file, {name: torch.from_numpy(each) for name, each in arrays.items()}, _notes("table", recipe)
    )


def load_table(run: Run) -> tuple[LexicalTable, TableRecipe]:
    """The lexical table of the run and its recipe; one that does not fit the run is refused."""
    again = f"learn one with `anydepth vocabulary {run.folder} --valid PREFIX`"
    if not run.seal.has(run.table_file):
        raise RunError(f"{run.folder} has no lexical table; {again}")
    stored = StoredWords(run, run.table_file, again)
    recipe = stored.recipe("table", TableRecipe)
    source, target = run.tokenizers()
    starts = stored.numbers("starts", torch.int64)
    words = stored.numbers("words", torch.int32, below=target.size)
    if len(starts) != source.size + 1 or starts[0] != 0 or starts[-1] != len(words) or (np.diff(starts) < 0).any():
        stored.refuse("its starts do not divide its words among the source pieces")
    return LexicalTable(standing_words(source, target, stored.always(target.size)), starts, words), recipe


def save_learned(
    run: Run, weight: Tensor, bias: Tensor, always: Int[np.ndarray, " always"], recipe: LearnedWordsRecipe
) -> None:
    """Stores the learned selection with the run."""
    tensors = {"always": torch.from_numpy(always), "weight": weight, "bias": bias}
    save_tensors(run.learned_words_file, tensors, _notes("learned", recipe))


def load_learned(run: Run, *, threshold: float) -> tuple[LearnedSelection, LearnedWordsRecipe]:
    """The learned selection of the run at `threshold`, and its recipe; one that was trained with
    other weights is refused, too."""
    again = f"train one with `anydepth vocabulary {run.folder} --learned --valid PREFIX`"
    if not run.seal.has(run.learned_words_file):
        raise RunError(f"{run.folder} has no learned word selection; {again}")
    stored = StoredWords(run, run.learned_words_file, again)
    recipe = stored.recipe("learned", LearnedWordsRecipe)
    if recipe.weights != weights_fingerprint(run):
        raise RunError(f"{stored.file} was trained with other weights than {run.folder} has now; {again}")
    source, target = run.tokenizers()
    weight, bias = (stored.tensor(name, torch.float32) for name in ("weight", "bias"))
    if weight.shape != (target.size, run.config.model.encoder.dim) or bias.shape != (target.size,):
        stored.refuse(f"its weight is {tuple(weight.shape)} and its bias {tuple(bias.shape)}")
    if bad := not_finite({"weight": weight, "bias": bias}):
        stored.refuse(f"its {bad} has what is no number")
    standing = standing_words(source, target, stored.always(target.size))
    return LearnedSelection(standing, weight, bias, threshold), recipe


class StoredWords:
    """A file of a word selection, whose parts are checked when they are taken out; `again` tells
    how to make another."""

    def __init__(self, run: Run, file: Path, again: str) -> None:
        self.run, self.file, self.again = run, file, again
        self.tensors, self.notes = load_tensors(file)

    def refuse(self, reason: str) -> NoReturn:
        """Says why the file cannot be used."""
        raise RunError(f"{self.file} cannot be used ({reason}); {self.again}")

    def recipe(self, kind: str, record: type[Record]) -> Record:
        """The recipe in the header; it must be of that kind, and of the run's tokenizers."""
        if (self.notes.get("format"), self.notes.get("kind")) != (FORMAT, kind):
            self.refuse(f"its header does not name a {kind} of format {FORMAT}")
        try:
            found = checked(record, json_of(self.notes.get("recipe", "").encode()))
        except Unreadable as error:
            self.refuse(f"its recipe cannot be read: {error}")
        assert isinstance(found, SelectionOrigin)
        source, target = self.run.tokenizers()
        if (found.source_tokenizer, found.target_tokenizer) != (source.fingerprint, target.fingerprint):
            raise RunError(f"{self.file} is of another vocabulary than {self.run.folder}; {self.again}")
        return found

    def tensor(self, name: str, dtype: torch.dtype) -> Tensor:
        """The tensor of that name, which must be of that type."""
        if name not in self.tensors:
            self.refuse(f"it has no {name}")
        if self.tensors[name].dtype != dtype:
            self.refuse(f"its {name} is of type {self.tensors[name].dtype}, not {dtype}")
        return self.tensors[name]

    def numbers(self, name: str, dtype: torch.dtype, *, below: int | None = None) -> Int[np.ndarray, " number"]:
        """The row of whole numbers of that name, all of them from 0 to `below` - 1 where that is
        given."""
        tensor = self.tensor(name, dtype)
        if tensor.ndim != 1:
            self.refuse(f"its {name} has {tensor.ndim} axes, not 1")
        if below is not None and len(tensor) and not 0 <= int(tensor.min()) <= int(tensor.max()) < below:
            self.refuse(
                f"its {name} are numbers from {int(tensor.min())} to {int(tensor.max())}, but the vocabulary has "
                f"{below:,} pieces"
            )
        found: Int[np.ndarray, " number"] = tensor.numpy()
        return found

    def always(self, vocab: int) -> Int[np.ndarray, " always"]:
        """The words that every sentence may use: ascending, EOS among them."""
        always = self.numbers("always", torch.int32, below=vocab)
        if (np.diff(always) <= 0).any() or EOS not in always:
            self.refuse("its standing words do not ascend, or lack </s>")
        return always


def _notes(kind: str, recipe: SelectionOrigin) -> Mapping[str, str]:
    return {"format": FORMAT, "kind": kind, "recipe": json.dumps(asdict(recipe))}
