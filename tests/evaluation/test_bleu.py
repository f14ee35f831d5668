"""Scores: by hand, against sacreBLEU's own functions, and with their signatures."""

import math
from dataclasses import asdict

import pytest
import sacrebleu

from anydepth.evaluation.bleu import score_texts

TRANSLATIONS = ["The cat sat on the mat.", "a dog runs today, gladly", "Nobody knows", ""]
REFERENCES = [
    "The cat sat on a mat.",
    "A dog ran today, gladly.",
    "Nobody knows why it rains here",
    "Something was said",
]


def test_identical_texts_score_100() -> None:
    scores = score_texts(REFERENCES, REFERENCES)
    assert [score.value for score in (scores.bleu, scores.tokenized_bleu, scores.chrf)] == pytest.approx(
        [100, 100, 100]
    )


def test_bleu_is_the_geometric_mean_of_the_precisions() -> None:
    scores = score_texts(["the cat sat on the mat"], ["the cat sat on a mat"])
    assert scores.bleu.value == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** (1 / 4))
    assert scores.tokenized_bleu.value == pytest.approx(scores.bleu.value)


def test_only_13a_parts_a_full_stop_from_its_word() -> None:
    scores = score_texts(["one two three four five."], ["one two three four five ."])
    assert scores.bleu.value == pytest.approx(100)
    brevity = math.exp(1 - 6 / 5)
    assert scores.tokenized_bleu.value == pytest.approx(100 * brevity * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4))


def test_figures_agree_with_the_functions_of_sacrebleu() -> None:
    scores = score_texts(TRANSLATIONS, REFERENCES)
    assert scores.bleu.value == sacrebleu.corpus_bleu(TRANSLATIONS, [REFERENCES], tokenize="13a").score
    assert (
        scores.tokenized_bleu.value
        == sacrebleu.corpus_bleu(TRANSLATIONS, [REFERENCES], tokenize="none", force=True).score
    )
    assert scores.chrf.value == sacrebleu.corpus_chrf(TRANSLATIONS, [REFERENCES]).score


def test_every_figure_carries_the_signature_of_its_settings() -> None:
    scores = asdict(score_texts(TRANSLATIONS, REFERENCES))
    assert "tok:13a" in str(scores["bleu"]["signature"])
    assert "tok:none" in str(scores["tokenized_bleu"]["signature"])
    assert "nc:6" in str(scores["chrf"]["signature"])
    for name in ("bleu", "tokenized_bleu"):
        assert "case:mixed" in str(scores[name]["signature"]), "case counts"
        assert f"version:{sacrebleu.__version__}" in str(scores[name]["signature"])


def test_case_lowers_bleu() -> None:
    assert score_texts(["THE CAT SAT ON A MAT"], ["the cat sat on a mat"]).bleu.value < 10
