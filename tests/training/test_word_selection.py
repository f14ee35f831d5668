"""Learned selections: the words that translate a sentence get the highest odds, and the same seed
gives the same selection."""

from pathlib import Path

import numpy as np
import pytest
import torch
from evaluation.translators import make_run, quiet
from safetensors.torch import load_file
from tiny import BATCH, ENCODER_DIM, TARGET_VOCAB, tiny_model, tiny_pairs

from anydepth.model.source import EncodedSource
from anydepth.runs.fingerprints import weights_fingerprint
from anydepth.runs.models import load_model
from anydepth.runs.run import Run, training_data
from anydepth.runs.word_selections import load_learned
from anydepth.text.batches import make_source
from anydepth.training import word_selection
from anydepth.training.word_selection import (
    PooledStates,
    SelectionTraining,
    fresh_classifier,
    occurrence_loss,
    train_selection,
)

SETTINGS = SelectionTraining(updates=40, sentences=16, frequent=2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = make_run(tmp_path_factory.mktemp("trained"))
    train_selection(run, SETTINGS, say=quiet)
    return run


def test_pooled_states_are_those_of_each_sentence_alone() -> None:
    model, pairs = tiny_model(), tiny_pairs(9)
    found = PooledStates.of(model, pairs, SelectionTraining(batch_tokens=20), quiet)
    assert sorted(found.numbers.tolist()) == list(range(9))
    for row, number in enumerate(found.numbers.tolist()):
        source, mask = make_source([pairs.source(number)])
        with torch.no_grad():
            expected = model.encode(source, mask)[0].max(dim=0).values
        torch.testing.assert_close(found.states[row], expected)
        occurs = found.occurring(torch.tensor([row]), TARGET_VOCAB)[0]
        assert set(occurs.nonzero()[:, 0].tolist()) == set(pairs.target(number).tolist())


def test_memory_bounds_the_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_selection, "MOST_NUMBERS", 4 * ENCODER_DIM + 1)
    assert len(PooledStates.of(tiny_model(), tiny_pairs(9), SETTINGS, quiet).numbers) == 4


def test_a_fresh_classifier_has_the_odds_of_the_words_frequencies() -> None:
    classifier = fresh_classifier(ENCODER_DIM, np.array([0, 3, 10**6]), 9)
    odds = classifier(torch.randn(2, ENCODER_DIM)).sigmoid()
    torch.testing.assert_close(odds, torch.tensor([[0.05, 0.35, 0.99]] * 2))


def test_a_word_that_occurs_weighs_more() -> None:
    logits = torch.zeros(BATCH, 2)
    occurs = torch.tensor([[1.0, 0.0]] * BATCH)
    loss = occurrence_loss(logits, occurs, SelectionTraining(positive_weight=7.0))
    assert float(loss) == pytest.approx((7 + 1) * np.log(2))


def test_words_of_the_reference_get_higher_odds_than_others(trained: Run) -> None:
    selection, recipe = load_learned(trained, threshold=0.5)
    assert (recipe.updates, recipe.pairs, recipe.weights) == (40, 40, weights_fingerprint(trained))
    model, pairs = load_model(trained), training_data(trained).pairs("train")
    source, mask = make_source([pairs.source(number) for number in range(40)])
    with torch.no_grad():
        odds = selection.logits(EncodedSource(source, mask, model.encode(source, mask)))
    inside = [odds[number, pairs.target(number).astype(np.int64)].mean() for number in range(40)]
    seen = sorted({int(word) for number in range(40) for word in pairs.target(number)})
    outside = [
        odds[number, sorted(set(seen) - set(pairs.target(number).tolist()))].mean()
        for number in range(40)
        if set(seen) - set(pairs.target(number).tolist())
    ]
    assert torch.stack(inside).mean() > torch.stack(outside).mean() + 2


def test_the_same_seed_trains_the_same_selection(trained: Run, tmp_path: Path) -> None:
    again = make_run(tmp_path)
    train_selection(again, SETTINGS, say=quiet)
    first, second = load_file(trained.learned_words_file), load_file(again.learned_words_file)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_time_ends_the_training(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    recipe = train_selection(run, SelectionTraining(updates=10**6, minutes=0.002, frequent=2), say=quiet)
    assert 1 <= recipe.updates < 10**6
