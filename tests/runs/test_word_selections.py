"""Word selections on disk: they come back as they were, and what does not fit the run is refused by
name."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from evaluation.translators import make_run, quiet
from safetensors.torch import load_file
from torch import Tensor

from anydepth.errors import RunError
from anydepth.model.checkpoint import load_notes, save_tensors
from anydepth.runs.fingerprints import weights_fingerprint
from anydepth.runs.run import Run
from anydepth.runs.vouching import seal_run
from anydepth.runs.word_selections import (
    LearnedWordsRecipe,
    TableSettings,
    learn_table,
    load_learned,
    load_table,
    save_learned,
)
from anydepth.text.tokenizer import EOS

SETTINGS = TableSettings(rounds=2, per_piece=7, frequent=5)


@pytest.fixture(scope="module")
def learned_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with a lexical table and a learned selection of random weights."""
    run = make_run(tmp_path_factory.mktemp("learned"))
    recipe = learn_table(run, SETTINGS, say=quiet)
    table, _ = load_table(run)
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(run.tokenizers()[1].size, run.config.model.encoder.dim, generator=generator)
    origin = {name: value for name, value in asdict(recipe).items() if name not in ("rounds", "per_piece")}
    details = {"weights": weights_fingerprint(run), "updates": 3, "positive_weight": 10.0, "learning_rate": 0.1}
    save_learned(run, weight, weight[:, 0], table.standing.always, LearnedWordsRecipe(**origin, **details))
    return run


@pytest.fixture
def own(learned_run: Run, tmp_path: Path) -> Run:
    return Run(Path(shutil.copytree(learned_run.folder, tmp_path / "run")))


def test_a_table_comes_back_as_it_was_learned_and_is_the_same_each_time(own: Run) -> None:
    before = load_file(own.table_file)
    recipe = learn_table(own, SETTINGS, say=quiet)
    assert all(torch.equal(tensor, before[name]) for name, tensor in load_file(own.table_file).items())
    table, loaded = load_table(own)
    source, target = own.tokenizers()
    assert loaded == recipe
    assert (recipe.pairs, recipe.rounds, recipe.per_piece, recipe.frequent) == (40, 2, 7, 5)
    assert len(table.starts) == source.size + 1 and table.standing.vocab == target.size
    assert 0 < np.diff(table.starts).max() <= 7
    assert EOS in table.standing.always and table.starts[EOS] == table.starts[EOS + 1]
    (dog,) = source.encode("hund")[:1]
    assert len(table.words[table.starts[dog] : table.starts[dog + 1]]), "a piece of the training text has translations"


def test_the_pairs_that_are_used_are_told(own: Run) -> None:
    told: list[str] = []
    learn_table(own, replace(SETTINGS, pairs=11, seed=4), say=told.append)
    assert told[0] == "learning a lexical table from 11 pairs of 40, drawn with seed 4 in 2 rounds"
    assert load_table(own)[1].pairs == 11


def test_a_learned_selection_comes_back_as_it_was(own: Run) -> None:
    selection, recipe = load_learned(own, threshold=0.3)
    assert selection.name == "learned:0.3" and recipe.updates == 3
    assert torch.equal(selection.weight, load_file(own.learned_words_file)["weight"])


def test_what_was_never_learned_is_refused_with_the_command_that_learns_it(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    with pytest.raises(RunError, match=r"has no lexical table; learn one with `anydepth vocabulary .* --valid PREFIX`"):
        load_table(run)
    with pytest.raises(RunError, match=r"has no learned word selection; train one with `anydepth .* --learned --valid"):
        load_learned(run, threshold=0.5)


def test_a_table_of_another_vocabulary_is_refused(own: Run) -> None:
    rewrite(own.table_file, recipe={"target_tokenizer": "0" * 64})
    with pytest.raises(RunError, match=r"lexical_table.safetensors is of another vocabulary than .*; learn one with"):
        load_table(own)


def test_a_learned_selection_of_other_weights_is_refused_and_the_table_is_not(own: Run) -> None:
    weights = load_file(own.weights_file)
    save_tensors(own.weights_file, {name: tensor + 1 for name, tensor in weights.items()})
    with pytest.raises(RunError, match=r"was trained with other weights than .* has now; train one with"):
        load_learned(own, threshold=0.5)
    load_table(own)


def test_a_file_that_was_changed_or_came_from_elsewhere_is_refused(own: Run) -> None:
    damaged = bytearray(own.table_file.read_bytes())
    damaged[-3] ^= 1
    own.table_file.write_bytes(damaged)
    with pytest.raises(RunError, match=r"lexical_table.safetensors is not as the run wrote it"):
        load_table(own)
    with pytest.raises(RunError, match=r"does not have the contents that were saved"):
        seal_run(own.folder)
    own.table_file.write_bytes(b"nonsense")
    with pytest.raises(RunError, match=r"lexical_table.safetensors is damaged or cut short"):
        seal_run(own.folder)


def swap_kinds(run: Run) -> None:
    shutil.copy(run.learned_words_file, run.table_file)
    seal_run(run.folder)


def change_table(**tensors: Callable[[Tensor], Tensor]) -> Callable[[Run], None]:
    return lambda run: rewrite(run.table_file, tensors)


def drop_words(run: Run) -> None:
    tensors = load_file(run.table_file)
    del tensors["words"]
    save_tensors(run.table_file, tensors, load_notes(run.table_file))


TABLE_DAMAGES: dict[str, tuple[Callable[[Run], None], str]] = {
    "another kind": (swap_kinds, "its header does not name a table of format 1"),
    "an odd recipe": (lambda run: rewrite(run.table_file, recipe={"rounds": 0}), "its recipe cannot be read: rounds"),
    "no words": (drop_words, "it has no words"),
    "a word too high": (change_table(words=lambda words: words + 10_000), "but the vocabulary has"),
    "a word below 0": (change_table(words=lambda words: words - 10_000), "its words are numbers from -"),
    "words of another type": (change_table(words=lambda words: words.long()), "its words is of type torch.int64"),
    "words of two axes": (change_table(words=lambda words: words[None]), "its words has 2 axes, not 1"),
    "starts that fall": (change_table(starts=lambda starts: starts.flip(0)), "its starts do not divide its words"),
    "too few starts": (change_table(starts=lambda starts: starts[:-1]), "its starts do not divide its words"),
    "no EOS": (change_table(always=lambda always: always[always != EOS]), "do not ascend, or lack </s>"),
    "always twice": (change_table(always=lambda always: always.repeat(2)), "do not ascend, or lack </s>"),
}


@pytest.mark.parametrize("damage", TABLE_DAMAGES)
def test_a_table_that_cannot_be_is_refused(own: Run, damage: str) -> None:
    change, reason = TABLE_DAMAGES[damage]
    change(own)
    with pytest.raises(RunError) as refusal:
        load_table(own)
    assert str(refusal.value).startswith(f"{own.table_file} cannot be used (") and reason in str(refusal.value)
    assert "learn one with `anydepth vocabulary" in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("weight", lambda weight: weight[:, 1:], "its weight is ("),
        ("weight", lambda weight: weight * float("nan"), "its weight has what is no number"),
        ("bias", lambda bias: bias / 0, "its bias has what is no number"),
        ("bias", lambda bias: bias.double(), "its bias is of type torch.float64"),
    ],
    ids=["narrow", "NaN", "infinite", "double"],
)
def test_a_learned_selection_that_cannot_be_is_refused(
    own: Run, name: str, change: Callable[[Tensor], Tensor], reason: str
) -> None:
    rewrite(own.learned_words_file, {name: change})
    with pytest.raises(RunError) as refusal:
        load_learned(own, threshold=0.5)
    assert reason in str(refusal.value) and "train one with `anydepth vocabulary" in str(refusal.value)


def rewrite(
    file: Path, tensors: dict[str, Callable[[Tensor], Tensor]] | None = None, *, recipe: dict[str, object] | None = None
) -> None:
    """The file again with some tensors or parts of its recipe changed, whole and sealed."""
    notes, stored = load_notes(file), load_file(file)
    notes["recipe"] = json.dumps(json.loads(notes["recipe"]) | (recipe or {}))
    save_tensors(
        file, stored | {name: change(stored[name]).contiguous() for name, change in (tensors or {}).items()}, notes
    )
