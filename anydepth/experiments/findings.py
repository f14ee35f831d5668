"""How the paper's findings are looked for in what a study measured: for each claim the difference
that is positive where the study finds the same."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from anydepth.config.schema import Config
from anydepth.experiments.definition import Study
from anydepth.experiments.evidence import Estimate, Evidence, MeasuredPoint, common_depths, curve_difference, mean
from anydepth.experiments.records import Split
from anydepth.experiments.variants import (
    ALIGNED,
    FIGURE4_PENALTIES,
    FIGURE4_WIDTHS,
    Variant,
    baseline,
    halting,
    mixed,
    seeded,
)
from anydepth.experiments.verdicts import verdict_of
from anydepth.experiments.word_samples import position_differences, score_differences

Variants = Callable[[Config], Sequence[Variant]]


@dataclass(frozen=True)
class Finding:
    """A difference that is positive where the study finds what the paper found, and its values in
    words."""

    difference: Estimate
    ours: str
    remark: str = ""


@dataclass(frozen=True)
class Apart:
    """What has no difference, because nothing was measured at the same depth."""

    ours: str
    remark: str


def fixed_exits(evidence: Evidence, run: str, split: Split) -> list[Estimate]:
    """The BLEU of each fixed exit."""
    found = [evidence.bleu(run, split, policy) for policy in evidence.policies(run, split, "fixed")]
    return [bleu for bleu in found if bleu is not None]


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
    remark = "; ".join(f"{name}: {mean(exits).value:.2f}" for name, exits in others if exits)
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


def half_against(
    evidence: Evidence, study: Study, seed: int, depth: int, rival: Estimate, remark: str
) -> Finding | None:
    """The aligned model at half of the depth minus the baseline of `depth` blocks, on test."""
    half = max(1, study.config.model.blocks // 2)
    first = evidence.bleu(seeded(ALIGNED, seed), "test", f"fixed:{half}")
    if first is None:
        return None
    return Finding(
        first - rival, f"{first.value:.2f} at exit {half} against {rival.value:.2f} with {depth} blocks, test", remark
    )


def baselines_on_test(evidence: Evidence, study: Study, seed: int) -> dict[int, Estimate]:
    """The BLEU of each baseline that was measured on test, by its depth."""
    depths = range(1, study.config.model.blocks + 1)
    found = {depth: evidence.bleu(seeded(baseline(depth).name, seed), "test", f"fixed:{depth}") for depth in depths}
    return {depth: bleu for depth, bleu in found.items() if bleu is not None}


def best_depth(baselines: Mapping[int, Estimate]) -> int:
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
        Estimate(-fall.value, -fall.samples),
        ours,
        f"With lambda {FIGURE4_PENALTIES[1]:g}: {told[1][1]}." if told[1] else "",
    )


def exits_along(evidence: Evidence, variants: Sequence[Variant], seed: int) -> tuple[Estimate, str] | None:
    """By how much the average exit falls from the first variant to the last, and all of them in
    words."""
    exits = [evidence.average_exit(seeded(each.name, seed), "valid", "geometric") for each in variants]
    first, last = exits[0], exits[-1]
    if first is None or last is None:
        return None
    return first - last, ", ".join("missing" if each is None else f"{each.value:.2f}" for each in exits)


def listed(values: Sequence[float]) -> str:
    """Numbers in words."""
    return ", ".join(f"{value:g}" for value in values)


def at_the_start(evidence: Evidence, study: Study, seed: int) -> Finding | None:
    """The mean exit of the first tenth of a sentence minus that of the last."""
    found = position_differences(evidence.folder) if seed == 1 else []
    return from_words(found, "the first tenth leaves {:+.2f} blocks later than the last")


def with_scores(evidence: Evidence, study: Study, seed: int) -> Finding | None:
    """The mean probability of the words that leave in the first third of the blocks minus that of
    those that leave in the upper half."""
    found = score_differences(evidence.folder) if seed == 1 else []
    return from_words(found, "words that leave low have {:+.2f} more probability than those that leave high")


def from_words(found: Sequence[tuple[float, Estimate]], words: str) -> Finding | None:
    """The difference of the model with the middle depth, of those that were found where words were
    looked at: with the first seed alone."""
    if not found:
        return None
    depth, middle = found[len(found) // 2]
    remark = "; ".join(f"AE {each:.2f}: {difference.value:+.2f}" for each, difference in found)
    return Finding(middle, f"AE {depth:.2f}: " + words.format(middle.value), remark)
