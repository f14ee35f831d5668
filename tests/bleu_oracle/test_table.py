"""Scores of exits: looked up by pair, joined, stored with their recipe, and refused where they do
not belong."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from evaluation.translators import make_run
from tiny import BLOCKS, tiny_config

from anydepth.bleu_oracle.table import (
    ExitScores,
    ScoreRecipe,
    ScoreTable,
    load_scores,
    save_scores,
    scores_to_learn_from,
    training_scores,
)
from anydepth.errors import RunError
from anydepth.model.checkpoint import load_tensors, save_tensors
from anydepth.runs.run import Run
from anydepth.text.prepare import file_hash

RECIPE = ScoreRecipe("bleu", "nrefs:1", 1, 1.0, "weights", "data")
SEQ_BLEU = tiny_config("exits.halting=sequence", "exits.oracle=bleu")


def table(*pairs: int, blocks: int = BLOCKS) -> ScoreTable:
    """Scores that tell pair and exit: pair 7 has 71, 72, ..."""
    scores = [[10.0 * pair + n for n in range(1, blocks + 1)] for pair in pairs]
    return ScoreTable(
        torch.tensor(pairs, dtype=torch.long), torch.tensor(scores, dtype=torch.float64).view(len(pairs), blocks)
    )


def test_pairs_are_looked_up_in_any_order_and_those_without_scores_are_told_apart() -> None:
    scores, is_scored = table(2, 5, 7).scores_of([7, 3, 2, 9, 0, 5, 7])
    assert is_scored.tolist() == [True, False, True, False, False, True, True]
    assert scores.shape == (BLOCKS, 7)
    assert scores[:, is_scored].t().tolist() == [[71, 72, 73, 74], [21, 22, 23, 24], [51, 52, 53, 54], [71, 72, 73, 74]]
    assert not scores[:, ~is_scored].any()


def test_an_empty_table_knows_no_pair() -> None:
    scores, is_scored = table().scores_of([0, 4])
    assert (scores.shape, is_scored.tolist()) == ((BLOCKS, 2), [False, False])


def test_joined_tables_have_the_pairs_of_both_in_order_and_the_first_ones_scores_of_shared_ones() -> None:
    other = replace(table(1, 5), scores=table(1, 5).scores + 0.5)
    both = table(2, 5, 7).joined(other)
    assert both.pairs.tolist() == [1, 2, 5, 7]
    assert both.scores[:, 0].tolist() == [11.5, 21, 51, 71]


def test_scores_come_back_with_their_recipe(tmp_path: Path) -> None:
    save_scores(tmp_path / "scores.safetensors", RECIPE, {"train": table(2, 5), "valid": table(0)})
    found = load_scores(tmp_path / "scores.safetensors")
    assert found.recipe == RECIPE
    assert (found.train.pairs.tolist(), found.valid.pairs.tolist()) == ([2, 5], [0])
    assert found.train.scores.equal(table(2, 5).scores)
    assert load_tensors(tmp_path / "scores.safetensors")[1]["sentences"] == '{"train": 2, "valid": 1}'


def test_a_file_of_other_tensors_has_no_scores(tmp_path: Path) -> None:
    save_tensors(tmp_path / "other.safetensors", {"train.pairs": torch.zeros(1)})
    with pytest.raises(
        RunError, match=r"other.safetensors has no scores of exits \(.*\); make them with `anydepth score-exits`"
    ):
        load_scores(tmp_path / "other.safetensors")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("scored"))


def scores_of(run: Run, **changes: str) -> ExitScores:
    """Scores that belong to the run's weights and data, but for the `changes`."""
    own = replace(RECIPE, weights=file_hash(run.weights_file), data=run.data_note()["fingerprint"])
    return ExitScores(replace(own, **changes), table(2, 5), table(0))


def store(scores: ExitScores, path: Path) -> None:
    save_scores(path, scores.recipe, scores.tables)


def test_only_scores_of_the_runs_weights_and_of_the_text_at_hand_are_learned_from(run: Run) -> None:
    data, command = run.data_note()["fingerprint"], re.escape(f"`anydepth score-exits {run.folder}`")
    run.seal.remove([run.scores_file])
    with pytest.raises(
        RunError, match=rf'^exits.oracle = "bleu" learns from the scores .* which has none; make them with {command}$'
    ):
        scores_to_learn_from(run, data)
    store(scores_of(run, weights="others"), run.scores_file)
    with pytest.raises(
        RunError, match=rf"were made with other weights than the run has now; make them again with {command}$"
    ):
        scores_to_learn_from(run, data)
    store(scores_of(run, data="others"), run.scores_file)
    with pytest.raises(
        RunError, match=rf"are of other training text than this; make them again with {command} --data DIR$"
    ):
        scores_to_learn_from(run, data)
    store(scores_of(run), run.scores_file)
    assert scores_to_learn_from(run, data) == run.scores_file


def test_a_run_without_a_bleu_oracle_needs_no_scores(run: Run) -> None:
    assert training_scores(run, tiny_config("exits.halting=sequence")) is None


def test_a_run_whose_oracle_lost_its_scores_or_has_those_of_another_is_refused(run: Run) -> None:
    again = "make the run again with --from and --overwrite$"
    run.seal.remove([run.oracle_scores_file])
    with pytest.raises(
        RunError, match=rf"there is no .*oracle_scores.safetensors, which the oracle of this run needs; {again}"
    ):
        training_scores(run, SEQ_BLEU)
    store(scores_of(run, data="others"), run.oracle_scores_file)
    with pytest.raises(RunError, match=rf"oracle_scores.safetensors has scores of other training text; {again}"):
        training_scores(run, SEQ_BLEU)
    store(replace(scores_of(run), train=table(2, 5, blocks=3)), run.oracle_scores_file)
    with pytest.raises(RunError, match=r"oracle_scores.safetensors has the scores of 3 exits, but the model has 4$"):
        training_scores(run, SEQ_BLEU)
    store(scores_of(run), run.oracle_scores_file)
    found = training_scores(run, SEQ_BLEU)
    assert found is not None
    assert found.train.pairs.tolist() == [2, 5]
