"""The paper's findings, looked at one by one in what a study measured."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from anydepth.config.schema import Config
from anydepth.experiments.comparisons import table_comparisons
from anydepth.experiments.definition import Study
from anydepth.experiments.evidence import Evidence, mean
from anydepth.experiments.findings import (
    Apart,
    Finding,
    Variants,
    against_mixed,
    at_the_start,
    between,
    by_penalty,
    by_width,
    half_against_best,
    half_against_deepest,
    uniform_against_mixed,
    with_scores,
)
from anydepth.experiments.race_findings import race_findings
from anydepth.experiments.records import FORMAT, ComparisonsRecord, TrendRecord, TrendsRecord, write_record
from anydepth.experiments.seeds import over_seeds
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.variants import (
    ALIGNED,
    FIGURE4_PENALTIES,
    FIGURE4_WIDTHS,
    RACES,
    Variant,
    baseline,
    baselines,
    halting,
    mixed,
    sequence_level,
    token_level,
)
from anydepth.experiments.verdicts import Verdict, verdict_of

PAIRED = "paired bootstrap over sentences, 95% interval"


class Interval(NamedTuple):
    """A difference and where it lies."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Trend:
    """A claim of the paper, where it is examined, and how to find the difference in the evidence
    for one seed.

    `is_match` marks a claim of equal quality.
    """

    name: str
    experiment: str
    claim: str
    paper: str
    unit: str
    find: Callable[[Evidence, Study, int], Finding | Apart | None]
    runs: Callable[[Study], Sequence[str]]
    is_match: bool = False

    def record(
        self,
        verdict: Verdict,
        runs: list[str],
        ours: str,
        remark: str,
        basis: str = "",
        found: Interval | None = None,
    ) -> TrendRecord:
        """The claim with its verdict and the difference that was found, as the records hold it."""
        return TrendRecord(
            name=self.name,
            experiment=self.experiment,
            claim=self.claim,
            paper=self.paper,
            ours=ours,
            difference=None if found is None else round(found.value, 4),
            low=None if found is None else round(found.low, 4),
            high=None if found is None else round(found.high, 4),
            unit=self.unit,
            verdict=verdict,
            basis=basis,
            runs=runs,
            remark=remark,
        )


def examine(trend: Trend, evidence: Evidence, study: Study) -> TrendRecord:
    """The verdict on a trend, from the mean of all seeds that were measured.

    The interval covers that over sentences and, where there are several, that over seeds.
    """
    looked_at = [trend.find(evidence, study, seed) for seed in range(1, study.seeds + 1)]
    found = [finding for finding in looked_at if isinstance(finding, Finding)]
    apart = [finding for finding in looked_at if isinstance(finding, Apart)]
    runs = list(trend.runs(study))
    if not found and apart:
        return trend.record("not comparable", runs, apart[0].ours, apart[0].remark)
    if not found:
        return trend.record("missing", runs, "", "what it is computed from was not measured", PAIRED)
    difference = mean([finding.difference for finding in found])
    values = [finding.difference.value for finding in found]
    over, (low, high) = over_seeds(values), difference.interval
    if over.low is not None and over.high is not None:
        low, high = min(low, over.low), max(high, over.high)
    ours, remark, basis = found[0].ours, found[0].remark, PAIRED
    if len(found) > 1:
        ours, basis = f"first seed: {ours}", f"{PAIRED}, widened to that over {len(found)} seeds"
        remark = f"{remark} By seed: {', '.join(f'{value:+.2f}' for value in values)}.".strip()
    if apart:
        remark = f"{remark} Not comparable with {len(apart)} of the seeds.".strip()
    verdict = verdict_of(low, high, is_match=trend.is_match)
    return trend.record(verdict, runs, ours, remark, basis, Interval(difference.value, low, high))


def names(variants: Sequence[Variant]) -> list[str]:
    """The names of some variants."""
    return [variant.name for variant in variants]


def geometric(config: Config) -> list[Variant]:
    """All runs with geometric-like halting that figure 3 shows."""
    return [*token_level("c", "geometric", config), *token_level("ll", "geometric", config)]


def multinomial(config: Config) -> list[Variant]:
    """All runs with token-level multinomial halting."""
    return [*token_level("c", "multinomial", config), *token_level("ll", "multinomial", config)]


def sequences(oracle: str) -> Variants:
    """The runs of a sequence-level oracle, which are the same for every depth."""
    return lambda config: sequence_level(oracle)


TRENDS = [
    Trend(
        "aligned-beats-mixed-fixed", "table1", "Aligned training beats mixed training at fixed exits.",
        "35.6 against 35.5 with M = 6, mean of the exits, valid", "BLEU", against_mixed,
        lambda study: [ALIGNED, mixed(study.config)[-1].name],
    ),
    Trend(
        "aligned-beats-mixed-uniform", "table1", "Aligned training beats mixed training at uniformly drawn exits.",
        "35.5 against 35.3 with M = 6, valid", "BLEU", uniform_against_mixed,
        lambda study: [ALIGNED, mixed(study.config)[-1].name],
    ),
    Trend(
        "half-depth-matches-baseline", "table1", "The aligned model at half of the depth matches the deepest baseline.",
        "34.8 at exit 3 against 34.8 with 6 blocks, test", "BLEU", half_against_deepest,
        lambda study: [ALIGNED, baseline(study.config.model.blocks).name], is_match=True,
    ),
    Trend(
        "half-depth-matches-best-baseline", "table1", "The aligned model at half of the depth matches the best "
                                                      "baseline.",
        "34.8 at exit 3 against 34.8 with 6 blocks, the best, test", "BLEU", half_against_best,
        lambda study: [ALIGNED, *names(baselines(study.config))], is_match=True,
    ),
    Trend(
        "geometric-beats-multinomial", "figure3", "Geometric-like halting beats the multinomial one at the same "
                                                  "average exit.",
        "figure 3a: filled above empty triangles", "BLEU", between(geometric, multinomial),
        lambda study: names([*geometric(study.config), *multinomial(study.config)]),
    ),
    Trend(
        "geometric-c-beats-ll", "figure3", "For geometric-like halting the correctness oracle beats the likelihood "
                                           "oracle.",
        "figure 3a: 34.73 at AE 1.42 and 34.99 at 1.97 are Tok-C", "BLEU",
        between(partial(token_level, "c", "geometric"), partial(token_level, "ll", "geometric")),
        lambda study: names(geometric(study.config)),
    ),
    Trend(
        "sequence-ll-beats-c", "figure3", "For sequences the likelihood oracle beats the correctness oracle.",
        "figure 3b", "BLEU", between(sequences("ll"), sequences("c")),
        lambda study: names([*sequence_level("ll"), *sequence_level("c")]),
    ),
    Trend(
        "lambda-lowers-exits", "figure4", "A higher lambda lowers the average exit.", "figure 4a", "exits", by_penalty,
        lambda study: names([halting("tok", "ll", "geometric", penalty) for penalty in FIGURE4_PENALTIES]),
    ),
    Trend(
        "sigma-raises-exits", "figure4", "A wider kernel raises the average exit.", "figure 4b", "exits", by_width,
        lambda study: names(
            [halting("tok", "ll", "geometric", FIGURE4_PENALTIES[0], width) for width in FIGURE4_WIDTHS]
        ),
    ),
    Trend(
        "deeper-at-the-start", "figures6-9",
        "Words at the start of a sentence leave deeper than those at its end.", "figure 8", "exits", at_the_start,
        lambda study: ["look at words"],
    ),
    Trend(
        "low-exits-high-scores", "figures6-9", "Low exits go with high scores.",
        "figure 9: exits up to 2 in [0.8, 1], exits from 4 in [0, 0.5]", "probability", with_scores,
        lambda study: ["look at words"],
    ),
    Trend(
        "seq-bleu-beats-ll", "seq-bleu", "Beyond the paper: for sequences the BLEU oracle beats the likelihood oracle.",
        "named as future work", "BLEU", between(sequences("bleu"), sequences("ll")),
        lambda study: names([*sequence_level("bleu"), *sequence_level("ll")]),
    ),
    Trend(
        "seq-bleu-beats-c", "seq-bleu", "Beyond the paper: for sequences the BLEU oracle beats the correctness oracle.",
        "named as future work", "BLEU", between(sequences("bleu"), sequences("c")),
        lambda study: names([*sequence_level("bleu"), *sequence_level("c")]),
    ),
]  # fmt: skip


def compare(study: Study, folder: StudyFolder) -> None:
    """Writes the verdicts on the trends of the study's experiments, the comparisons of its tables,
    and what its race shows."""
    evidence = Evidence(folder)
    trends = [examine(trend, evidence, study) for trend in TRENDS if trend.experiment in study.experiments]
    write_record(folder.trends_file, TrendsRecord(format=FORMAT, trends=trends))
    comparisons = table_comparisons(evidence)
    write_record(folder.comparisons_file, ComparisonsRecord(format=FORMAT, comparisons=comparisons))
    if set(RACES) & set(study.experiments):
        write_record(folder.race_file, race_findings(folder))
