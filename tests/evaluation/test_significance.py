"""Paired bootstrap resampling, against sacreBLEU on texts that were resampled as texts."""

import random
import time
from dataclasses import replace

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics.bleu import BLEU

from anydepth.errors import UsageError
from anydepth.evaluation.significance import (
    corpus_bleu,
    paired_bootstrap,
    resamples,
    sentence_statistics,
    two_sided_p_value,
)

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "slept", "on", "under", "mat", "tree", "today,", "gladly.", "here"]


def sentences(count: int, *, seed: int = 1) -> list[str]:
    choice = random.Random(seed)
    return [" ".join(choice.choices(WORDS, k=choice.randint(1, 14))) for _ in range(count)]


def damaged(lines: list[str], share: float, *, seed: int) -> list[str]:
    """The lines with this share of their words replaced by random ones."""
    choice = random.Random(seed)
    return [
        " ".join(choice.choice(WORDS) if choice.random() < share else word for word in line.split()) for line in lines
    ]


def bleu(translations: list[str], references: list[str]) -> float:
    return sacrebleu.corpus_bleu(translations, [references], tokenize="13a", force=True).score


REFERENCES = sentences(60)
GOOD, MIDDLING, POOR = (damaged(REFERENCES, share, seed=number) for number, share in enumerate((0.1, 0.3, 0.5)))


def test_equal_systems_differ_by_nothing_and_that_is_certain() -> None:
    comparison = paired_bootstrap(GOOD, GOOD, REFERENCES, samples=50)
    assert (comparison.difference, comparison.low, comparison.high, comparison.p_value) == (0, 0, 0, 1)


def test_the_difference_is_that_of_the_corpus_bleu_of_sacrebleu() -> None:
    assert paired_bootstrap(GOOD, POOR, REFERENCES, samples=1).difference == bleu(GOOD, REFERENCES) - bleu(
        POOR, REFERENCES
    )


def test_a_clearly_better_system_is_told_from_chance() -> None:
    comparison = paired_bootstrap(GOOD, POOR, REFERENCES, samples=200)
    assert 0 < comparison.low < comparison.difference < comparison.high
    assert comparison.p_value == pytest.approx(2 / 201), "no sample has the worse system ahead"


def test_systems_of_the_same_quality_are_seldom_told_apart() -> None:
    systems = [damaged(REFERENCES, 0.3, seed=seed) for seed in range(80)]
    pairs = zip(systems[::2], systems[1::2], strict=True)
    comparisons = [paired_bootstrap(one, other, REFERENCES, samples=100) for one, other in pairs]
    assert sum(comparison.p_value < 0.05 for comparison in comparisons) <= 6, "about 2 of 40 are expected"
    assert {comparison.difference > 0 for comparison in comparisons} == {True, False}


def test_exchanging_the_systems_turns_the_comparison_round() -> None:
    one, other = (paired_bootstrap(*pair, REFERENCES, samples=80) for pair in ((GOOD, MIDDLING), (MIDDLING, GOOD)))
    assert (other.difference, other.p_value) == (-one.difference, one.p_value)
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low))


@pytest.mark.parametrize("translations", [GOOD, POOR, [""] * len(REFERENCES)], ids=["good", "poor", "empty"])
def test_a_resampled_corpus_scores_as_its_texts_do(translations: list[str]) -> None:
    statistics = sentence_statistics(BLEU(tokenize="13a", force=True), translations, REFERENCES)
    for rows in resamples(len(REFERENCES), samples=20, seed=3):
        texts = [translations[row] for row in rows], [REFERENCES[row] for row in rows]
        assert corpus_bleu(statistics[rows]) == bleu(*texts)


def test_the_interval_is_that_of_texts_drawn_for_both_systems_together() -> None:
    comparison = paired_bootstrap(GOOD, MIDDLING, REFERENCES, samples=40, seed=5)
    differences = []
    for rows in resamples(len(REFERENCES), samples=40, seed=5):
        good, middling, references = ([lines[row] for row in rows] for lines in (GOOD, MIDDLING, REFERENCES))
        differences.append(bleu(good, references) - bleu(middling, references))
    assert (comparison.low, comparison.high) == pytest.approx(tuple(np.percentile(differences, [2.5, 97.5])))
    assert comparison.p_value == two_sided_p_value(np.array(differences))


def test_samples_draw_every_sentence_equally_often_and_with_replacement() -> None:
    drawn = list(resamples(10, samples=2000, seed=1))
    assert {len(rows) for rows in drawn} == {10}
    np.testing.assert_allclose(np.bincount(np.concatenate(drawn)) / 20_000, 0.1, atol=0.01)
    assert any(len(set(rows.tolist())) < 10 for rows in drawn)


def test_the_same_seed_gives_the_same_comparison_and_another_seed_another() -> None:
    first, again, other = (paired_bootstrap(GOOD, MIDDLING, REFERENCES, samples=50, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert replace(other, seed=1) != first
    assert other.difference == first.difference


@pytest.mark.parametrize(
    ("differences", "p_value"),
    [
        ([1.0, 2.0, 3.0], 2 * 1 / 4),
        ([-1.0] * 19, 2 * 1 / 20),
        ([1.0, -1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2 * 2 / 8),
        ([0.0] * 5, 1.0),
    ],
)
def test_p_values_by_hand(differences: list[float], p_value: float) -> None:
    assert two_sided_p_value(np.array(differences)) == p_value


def test_one_sentence_has_no_spread() -> None:
    comparison = paired_bootstrap(
        ["the cat sat on a mat"], ["the cat sat on the mat"], ["the cat sat on a mat"], samples=5
    )
    assert comparison.low == comparison.high == comparison.difference > 0


def test_a_comparison_carries_its_recipe() -> None:
    comparison = paired_bootstrap(GOOD, POOR, REFERENCES, samples=3, seed=7)
    assert (comparison.samples, comparison.seed) == (3, 7)
    assert "tok:13a" in comparison.signature and "nrefs:1" in comparison.signature


def test_a_thousand_samples_of_a_thousand_sentences_take_moments() -> None:
    references = sentences(1000)
    good, poor = (damaged(references, share, seed=1) for share in (0.2, 0.3))
    started = time.process_time()
    paired_bootstrap(good, poor, references, samples=1000)
    assert time.process_time() - started < 10, "rescoring the texts would take minutes"


@pytest.mark.parametrize(("system", "baseline", "references"), [(3, 2, 3), (2, 3, 3), (3, 3, 2), (0, 0, 0)])
def test_systems_that_translated_different_sentences_are_refused(system: int, baseline: int, references: int) -> None:
    message = (
        rf"needs two translations of every reference.* {system} translations, {baseline} of the baseline and "
        rf"{references} references"
    )
    with pytest.raises(UsageError, match=message):
        paired_bootstrap(REFERENCES[:system], REFERENCES[:baseline], REFERENCES[:references])


def test_no_samples_are_refused() -> None:
    with pytest.raises(UsageError, match=r"samples = 0 draws nothing; set it to 1 or more"):
        paired_bootstrap(GOOD, POOR, REFERENCES, samples=0)
