"""The paper's findings, looked at one by one in what a study measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from anydepth.config.schema import Config
from anydepth.experiments.comparisons import table_comparisons
from anydepth.experiments.evidence import Evidence, Figure, MeasuredPoint, common_depths, curve_difference, mean
from anydepth.experiments.plan import Places, Study, write_record
from anydepth.experiments.seeds import over_seeds
from anydepth.experiments.variants import (
    ALIGNED,
    FIGURE4_PENALTIES,
    FIGURE4_WIDTHS,
    Variant,
    baseline,
    baselines,
    halting,
    mixed,
    seeded,
    sequence_level,
    token_level,
)
from anydepth.experiments.verdicts import verdict_of
from anydepth.experiments.word_samples import word_figures

Variants = Callable[[Config], Sequence[Variant]]
PAIRED = "paired bootstrap over sentences, 95% interval"


@dataclass(frozen=True)
class Finding:
    """A difference that is positive where the study finds what the paper found, and the figures in
    words."""

    difference: Figure
    ours: str
    remark: str = ""


@dataclass(frozen=True)
class Apart:
    """What has no difference, because nothing was measured at the same depth."""

    ours: str
    remark: str


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


@dataclass(frozen=True)
class Verdict:
    """A trend as the records hold it."""

    name: str
    experiment: str
    claim: str
    paper: str
    ours: str
    difference: float | None
    low: float | None
    high: float | None
    unit: str
    verdict: str
    basis: str
    runs: list[str]
    remark: str


def examine(trend: Trend, evidence: Evidence, study: Study) -> Verdict:
    """The verdict on a trend, from the mean of all seeds that were measured.

    The interval covers that over sentences and, where there are several, that over seeds.
    """
    looked_at = [trend.find(evidence, study, seed) for seed in range(1, study.seeds + 1)]
    found = [finding for finding in looked_at if isinstance(finding, Finding)]
    apart = [finding for finding in looked_at if isinstance(finding, Apart)]
    about = (trend.name, trend.experiment, trend.claim, trend.paper)
    runs = list(trend.runs(study))
    if not found and apart:
        return Verdict(*about, apart[0].ours, None, None, None, trend.unit, "not comparable", "", runs, apart[0].remark)
    if not found:
        return Verdict(
            *about,
            "",
            None,
            None,
            None,
            trend.unit,
            "missing",
            PAIRED,
            runs,
            "what it is computed from was not measured",
        )
    figure = mean([finding.difference for finding in found])
    values = [finding.difference.value for finding in found]
    over, (low, high) = over_seeds(values), figure.interval
    if over.low is not None and over.high is not None:
        low, high = min(low, over.low), max(high, over.high)
    ours, remark, basis = found[0].ours, found[0].remark, PAIRED
    if len(found) > 1:
        ours, basis = f"first seed: {ours}", f"{PAIRED}, widened to that over {len(found)} seeds"
        remark = f"{remark} By seed: {', '.join(f'{value:+.2f}' for value in values)}.".strip()
    if apart:
        remark = f"{remark} Not comparable with {len(apart)} of the seeds.".strip()
    verdict, bounds = verdict_of(low, high, is_match=trend.is_match), (round(low, 4), round(high, 4))
    return Verdict(*about, ours, round(figure.value, 4), *bounds, trend.unit, verdict, basis, runs, remark)


def fixed_exits(evidence: Evidence, run: str, split: str) -> list[Figure]:
    """The BLEU of each fixed exit."""
    figures = [evidence.bleu(run, split, policy) for policy in evidence.policies(run, split, "fixed")]
    return [figure for figure in figures if figure is not None]


def against_mixed(evidence: Evidence, study: Study, seed: int) -> Finding | None:
    """The mean over fixed exits: aligned minus mixed training with N paths."""
    rival = mixed(study.config)[-1]
    ours, theirs = (fixed_exits(evidence, seeded(name, seed), "valid") for name in (ALIGNED, rival.name))
    if not ours or not theirs:
        return None
    first, second = mean(ours), mean(theirs)
    others = [
        (variant.name, fixed_exits(evidence, seeded(variant.name, seed), "valid"))
        for variant in mixed(study.config)[:-1]
    ]
    remark = "; ".join(f"{name}: {mean(figures).value:.2f}" for name, figures in others if figures)
    return Finding(
        first - second, f"{first.value:.2f} against {second.value:.2f} ({rival.name}), mean of the exits, valid", remark
    )


def uniform_against_mixed(evidence: Evidence, study: Study, seed: int) -> Finding | None:
    """Uniformly drawn exits: aligned minus mixed training with N paths."""
    rival = mixed(study.config)[-1]
    first, second = (evidence.bleu(seeded(name, seed), "valid", "uniform") for name in (ALIGNED, rival.name))
    if first is None or second is None:
        return None
    return Finding(first - second, f"{first.value:.2f} against {second.value:.2f} ({rival.name}), valid")


def half_against_deepest(evidence: Evidence, study: Study, seed: int) -> Finding | None:
    """The aligned model at half of the depth minus the deepest baseline, with a word where that is
    clearly not the best one.

    Deep decoders with one classifier may fail to train at a rate that suits the others; to match
    such a one would mean little.
    """
    blocks, known = study.config.model.blocks, baselines_on_test(evidence, study, seed)
    if blocks not in known:
        return None
    best = best_depth(known)
    lead = known[best] - known[blocks]
    is_behind = verdict_of(*lead.interval) == "agree"
    remark = (
        f"The baseline of {blocks} blocks is {lead.value:.2f} below that of {best}, so to match it means less."
        if is_behind
        else ""
    )
    return half_against(evidence, study, seed, blocks, known[blocks], remark)


def half_against_best(evidence: Evidence, study: Study, seed: int) -> Finding | None:
    """The aligned model at half of the depth minus the baseline with the highest BLEU on test,
    which the choice favours."""
    known = baselines_on_test(evidence, study, seed)
    if not known:
        return None
    best, gone = (
        best_depth(known),
        [str(depth) for depth in range(1, study.config.model.blocks + 1) if depth not in known],
    )
    remark = "Chosen on test, which favours the baseline."
    return half_against(
        evidence, study, seed, best, known[best], remark + (f" Not measured: {', '.join(gone)} blocks." if gone else "")
    )


def half_against(evidence: Evidence, study: Study, seed: int, depth: int, rival: Figure, remark: str) -> Finding | None:
    """The aligned model at half of the depth minus the baseline of `depth` blocks, on test."""
    half = max(1, study.config.model.blocks // 2)
    first = evidence.bleu(seeded(ALIGNED, seed), "test", f"fixed:{half}")
    if first is None:
        return None
    return Finding(
        first - rival, f"{first.value:.2f} at exit {half} against {rival.value:.2f} with {depth} blocks, test", remark
    )


def baselines_on_test(evidence: Evidence, study: Study, seed: int) -> dict[int, Figure]:
    """The BLEU of each baseline that was measured on test, by its depth."""
    depths = range(1, study.config.model.blocks + 1)
    found = {depth: evidence.bleu(seeded(baseline(depth).name, seed), "test", f"fixed:{depth}") for depth in depths}
    return {depth: figure for depth, figure in found.items() if figure is not None}


def best_depth(baselines: Mapping[int, Figure]) -> int:
    """The depth of the baseline with the highest BLEU."""
    return max(baselines, key=lambda depth: baselines[depth].value)


def curves_of(evidence: Evidence, variants: Sequence[Variant], seed: int) -> list[list[MeasuredPoint]]:
    """The curve of each variant that has tuned points, and one for all lambda of each mechanism
    that has one point a run."""
    curves = [evidence.curve([seeded(each.name, seed)], "test", "tuned") for each in variants if each.tuned is not None]
    single = [each for each in variants if each.tuned is None]
    mechanisms = dict.fromkeys(each.name.rpartition("-l")[0] for each in single)
    curves += [
        evidence.curve(
            [seeded(each.name, seed) for each in single if each.name.rpartition("-l")[0] == mechanism],
            "test",
            "default",
        )
        for mechanism in mechanisms
    ]
    return [curve for curve in curves if curve]


def between(first: Variants, second: Variants) -> Callable[[Evidence, Study, int], Finding | Apart | None]:
    """How far the curves of some variants lie above those of others, at the average exits that both
    have."""

    def find(evidence: Evidence, study: Study, seed: int) -> Finding | Apart | None:
        ours, theirs = (curves_of(evidence, choose(study.config), seed) for choose in (first, second))
        if not ours or not theirs:
            return None
        told = f"AE {span(ours)} against {span(theirs)}, test"
        depths = [depth for one in ours for other in theirs for depth in common_depths(one, other)]
        if not depths:
            return Apart(told, "They have no average exit in common.")
        differences = [found for one in ours for other in theirs if (found := curve_difference(one, other)) is not None]
        where = (
            f"{len(depths)} points from AE {min(depths):.2f} to {max(depths):.2f}"
            if len(depths) > 1
            else f"1 point, AE {depths[0]:.2f}"
        )
        return Finding(mean(differences), told, f"Compared at {where}.")

    return find


def span(curves: Sequence[Sequence[MeasuredPoint]]) -> str:
    """The average exits that some curves reach."""
    depths = [point.average_exit for curve in curves for point in curve]
    return f"{min(depths):.2f} to {max(depths):.2f}"


def by_penalty(evidence: Evidence, study: Study, seed: int) -> Finding | None:
    """The average exit at the lowest lambda minus that at the highest."""
    runs = {
        width: [halting("tok", "ll", "geometric", penalty, width) for penalty in FIGURE4_PENALTIES]
        for width in FIGURE4_WIDTHS[:2]
    }
    told = [exits_along(evidence, variants, seed) for variants in runs.values()]
    if not told[0]:
        return None
    ours = f"AE {told[0][1]} as lambda goes {listed(FIGURE4_PENALTIES)}, valid"
    return Finding(told[0][0], ours, f"With sigma {FIGURE4_WIDTHS[1]:g}: {told[1][1]}." if told[1] else "")


def by_width(evidence: Evidence, study: Study, seed: int) -> Finding | None:
    """The average exit with the widest kernel minus that with the narrowest."""
    runs = {
        penalty: [halting("tok", "ll", "geometric", penalty, width) for width in FIGURE4_WIDTHS]
        for penalty in FIGURE4_PENALTIES[:2]
    }
    told = [exits_along(evidence, variants, seed) for variants in runs.values()]
    if not told[0]:
        return None
    fall = told[0][0]
    ours = f"AE {told[0][1]} as sigma goes {listed(FIGURE4_WIDTHS)}, valid"
    return Finding(
        Figure(-fall.value, -fall.samples),
        ours,
        f"With lambda {FIGURE4_PENALTIES[1]:g}: {told[1][1]}." if told[1] else "",
    )


def exits_along(evidence: Evidence, variants: Sequence[Variant], seed: int) -> tuple[Figure, str] | None:
    """By how much the average exit falls from the first variant to the last, and all of them in
    words."""
    figures = [evidence.average_exit(seeded(each.name, seed), "valid", "geometric") for each in variants]
    first, last = figures[0], figures[-1]
    if first is None or last is None:
        return None
    return first - last, ", ".join("missing" if each is None else f"{each.value:.2f}" for each in figures)


def listed(values: Sequence[float]) -> str:
    """Numbers in words."""
    return ", ".join(f"{value:g}" for value in values)


def at_the_start(evidence: Evidence, study: Study, seed: int) -> Finding | None:
    """The mean exit of the first tenth of a sentence minus that of the last."""
    return from_samples(evidence, seed, "positions", "the first tenth leaves {:+.2f} blocks later than the last")


def with_scores(evidence: Evidence, study: Study, seed: int) -> Finding | None:
    """The mean probability of the words that leave in the first third of the blocks minus that of
    those that leave in the upper half."""
    return from_samples(
        evidence, seed, "scores", "words that leave low have {:+.2f} more probability than those that leave high"
    )


def from_samples(evidence: Evidence, seed: int, name: str, words: str) -> Finding | None:
    """A difference that was computed where the words were looked at; for the first seed alone, and
    the model with the middle depth."""
    found = word_figures(evidence.places, name) if seed == 1 else []
    if not found:
        return None
    depth, figure = found[len(found) // 2]
    remark = "; ".join(f"AE {each:.2f}: {difference.value:+.2f}" for each, difference in found)
    return Finding(figure, f"AE {depth:.2f}: " + words.format(figure.value), remark)


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


def compare(study: Study, places: Places) -> None:
    """Writes the verdicts on the trends of the study's experiments, and the comparisons of its
    tables."""
    evidence = Evidence(places)
    verdicts = [asdict(examine(trend, evidence, study)) for trend in TRENDS if trend.experiment in study.experiments]
    write_record(places.records / "trends.json", {"trends": verdicts})
    write_record(places.records / "comparisons.json", {"comparisons": table_comparisons(evidence)})
