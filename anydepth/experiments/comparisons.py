"""The paired differences that the tables of a report show: every run of a table against the aligned
one."""

from anydepth.experiments.evidence import Estimate, Evidence, mean
from anydepth.experiments.measuring import SPLITS
from anydepth.experiments.records import ComparisonRecord, Split
from anydepth.experiments.variants import ALIGNED, seeded


def table_comparisons(evidence: Evidence) -> list[ComparisonRecord]:
    """Every run of a table against the aligned run of its seed, exit by exit and on average, on
    both sets."""
    rows = []
    for run, record in evidence.records.items():
        reference = seeded(ALIGNED, record.seed)
        if record.role not in ("mixed", "omega", "gamma", "baseline", "rival") or reference not in evidence.records:
            continue
        for split in SPLITS:
            pairs = [
                (policy, own, theirs)
                for policy in evidence.policies(run, split, "fixed", "uniform", "full")
                if (own := evidence.bleu(run, split, policy)) is not None
                and (theirs := evidence.bleu(reference, split, policy)) is not None
            ]
            fixed = [(own, theirs) for policy, own, theirs in pairs if policy != "uniform"]
            rows += [comparison(run, reference, split, policy, own - theirs) for policy, own, theirs in pairs]
            if len(fixed) > 1:
                rows.append(comparison(run, reference, split, "average", mean([own - theirs for own, theirs in fixed])))
    return [*rows, *baseline_averages(evidence)]


def baseline_averages(evidence: Evidence) -> list[ComparisonRecord]:
    """All baselines of a seed together against the aligned run, on average over their depths; the
    run is called "baseline"."""
    rows = []
    seeds = sorted({record.seed for record in evidence.records.values()})
    for seed in seeds:
        reference = seeded(ALIGNED, seed)
        runs = [
            (run, record)
            for run, record in evidence.records.items()
            if record.role == "baseline" and record.seed == seed
        ]
        for split in SPLITS:
            differences = []
            for run, record in runs:
                policy = f"fixed:{record.blocks}"
                own, theirs = evidence.bleu(run, split, policy), evidence.bleu(reference, split, policy)
                if own is not None and theirs is not None:
                    differences.append(own - theirs)
            if differences:
                rows.append(comparison(seeded("baseline", seed), reference, split, "average", mean(differences)))
    return rows


def comparison(run: str, against: str, split: Split, policy: str, difference: Estimate) -> ComparisonRecord:
    """The comparison of two runs with one policy."""
    low, high = difference.interval
    return ComparisonRecord(
        run=run,
        against=against,
        split=split,
        policy=policy,
        against_policy=policy,
        difference=round(difference.value, 4),
        low=round(low, 4),
        high=round(high, 4),
        p_value=round(difference.p_value, 5),
    )
