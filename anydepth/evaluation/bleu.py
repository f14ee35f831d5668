"""Scores of translations against references; a score never travels without the signature of its
settings."""

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF


@dataclass(frozen=True)
class Score:
    """A figure between 0 and 100 and sacreBLEU's description of how it was computed."""

    value: float
    signature: str


@dataclass(frozen=True)
class QualityScores:
    """BLEU on detokenized text, BLEU on the tokens as they stand (the paper's measure on tokenized
    text), and chrF."""

    bleu: Score
    tokenized_bleu: Score
    chrf: Score


def score_texts(translations: Sequence[str], references: Sequence[str]) -> QualityScores:
    """The scores of `translations`, one for each reference.

    Tokenized BLEU splits at spaces alone: on Moses tokens, as IWSLT'14 has them, it is the
    tokenized BLEU of the paper; on raw text a punctuation mark belongs to its word.
    """
    assert len(translations) == len(references)
    return QualityScores(
        bleu=_score(BLEU(tokenize="13a", force=True), translations, references),
        tokenized_bleu=_score(BLEU(tokenize="none", force=True), translations, references),
        chrf=_score(CHRF(), translations, references),
    )


def _score(metric: BLEU | CHRF, translations: Sequence[str], references: Sequence[str]) -> Score:
    value = metric.corpus_score(list(translations), [list(references)]).score
    return Score(value, str(metric.get_signature()))
