"""Whether one system's BLEU is higher than another's by more than the choice of test sentences
explains."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from sacrebleu.metrics.bleu import BLEU

from anydepth.errors import UsageError

INTERVAL = (2.5, 97.5)  # percentiles
SAMPLES, SEED = 1000, 1


@dataclass(frozen=True)
class PairedComparison:
    """The difference of two systems' BLEU, its 95% interval from `low` to `high`, and the p-value
    of no difference."""

    difference: float
    low: float
    high: float
    p_value: float
    samples: int
    seed: int
    signature: str


def paired_bootstrap(
    translations: Sequence[str],
    baseline_translations: Sequence[str],
    references: Sequence[str],
    *,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> PairedComparison:
    """BLEU (13a) of `translations` minus that of `baseline_translations`, by paired bootstrap
    resampling (Koehn, 2004).

    Each sample draws as many sentences as there are, with replacement, and scores both systems on
    them. The interval is that of the percentiles of the differences. The p-value is twice the share
    of samples in which the difference is not on its more frequent side of 0, no more than 1; one
    sample is added to that side and to the whole, so that it is never 0.
    """
    counts = len(translations), len(baseline_translations), len(references)
    if len(set(counts)) > 1 or not references:
        raise UsageError(
            "a paired comparison needs two translations of every reference, and at least one reference, but there "
            f"are {counts[0]:,} translations, {counts[1]:,} of the baseline and {counts[2]:,} references; translate "
            "one test set with both systems"
        )
    if samples < 1:
        raise UsageError(f"samples = {samples} draws nothing; set it to 1 or more, as in 1000")
    metric = BLEU(tokenize="13a", force=True)
    system = sentence_statistics(metric, translations, references)
    baseline = sentence_statistics(metric, baseline_translations, references)
    drawn = [
        difference(system[rows], baseline[rows]) for rows in resamples(len(references), samples=samples, seed=seed)
    ]
    differences = np.array(drawn)
    low, high = np.percentile(differences, INTERVAL).tolist()
    return PairedComparison(
        difference(system, baseline),
        low,
        high,
        two_sided_p_value(differences),
        samples,
        seed,
        str(metric.get_signature()),
    )


def sentence_statistics(
    metric: BLEU, translations: Sequence[str], references: Sequence[str]
) -> Int[np.ndarray, "sentence 10"]:
    """What BLEU counts in each sentence: both lengths, the n-grams that match and all n-grams, n =
    1..4."""
    scores = [
        metric.corpus_score([line], [[reference]]) for line, reference in zip(translations, references, strict=True)
    ]
    return np.array([[score.sys_len, score.ref_len, *score.counts, *score.totals] for score in scores])


def corpus_bleu(statistics: Int[np.ndarray, "sentence 10"]) -> float:
    """The BLEU of a corpus from the counts of its sentences, by sacreBLEU."""
    system_length, reference_length, *ngrams = statistics.sum(axis=0).tolist()
    correct, total = ngrams[:4], ngrams[4:]
    return BLEU.compute_bleu(correct, total, system_length, reference_length, smooth_method="exp").score


def bleu_samples(
    statistics: Int[np.ndarray, "sentence 10"], *, samples: int = SAMPLES, seed: int = SEED
) -> Float[np.ndarray, " sample"]:
    """The BLEU of each bootstrap sample; those of two systems on one test set are of the same
    sentences, and so can be subtracted."""
    return np.array([corpus_bleu(statistics[rows]) for rows in resamples(len(statistics), samples=samples, seed=seed)])


def bleu_interval(
    statistics: Int[np.ndarray, "sentence 10"], *, samples: int = SAMPLES, seed: int = SEED
) -> tuple[float, float]:
    """The 95% interval of a BLEU over the choice of test sentences."""
    low, high = np.percentile(bleu_samples(statistics, samples=samples, seed=seed), INTERVAL).tolist()
    return low, high


def difference(system: Int[np.ndarray, "sentence 10"], baseline: Int[np.ndarray, "sentence 10"]) -> float:
    """The BLEU of `system` minus that of `baseline`."""
    return corpus_bleu(system) - corpus_bleu(baseline)


def resamples(sentences: int, *, samples: int, seed: int) -> Iterator[Int[np.ndarray, " sentence"]]:
    """The numbers of the sentences in each sample."""
    randomness = np.random.default_rng(seed)
    for _ in range(samples):
        yield randomness.integers(sentences, size=sentences)


def two_sided_p_value(differences: Float[np.ndarray, " sample"]) -> float:
    """min(1, 2 (1 + samples on the rarer side of 0, or on 0) / (1 + all samples))."""
    rarer = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    return min(1.0, 2 * (1 + rarer) / (1 + len(differences)))
