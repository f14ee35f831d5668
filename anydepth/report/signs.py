"""Whether our differences have the sign of the paper's."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from anydepth.experiments.records import ComparisonRecord, Split
from anydepth.experiments.seeds import over_seeds
from anydepth.experiments.verdicts import Verdict, verdict_of
from anydepth.report.document import NOTHING, Kind, Mark
from anydepth.report.study_records import StudyRecords

SYMBOLS: dict[Kind, str] = {"agree": "✓", "disagree": "✗", "noise": "≈", "tie": "=", "unknown": "?", "missing": NOTHING}
WORDS: dict[Kind, str] = {
    "agree": "agree",
    "disagree": "disagree",
    "noise": "within noise",
    "tie": "the paper's figures are equal",
    "unknown": "no comparison stored",
    "missing": "missing",
}
KINDS: dict[Verdict, Kind] = {
    "agree": "agree",
    "disagree": "disagree",
    "within noise": "noise",
    "not comparable": "unknown",
    "missing": "missing",
}
LEGEND = (
    "✓ the sign of our difference is the paper's, ✗ it is the opposite, ≈ within noise (the interval of "
    "our difference contains 0), "
    "= the paper's two figures are equal and ours are not, ? no comparison is stored."
)


@dataclass(frozen=True)
class Difference:
    """Our value minus the reference's, with its interval."""

    mean: float
    low: float
    high: float
    basis: str

    @property
    def words(self) -> str:
        """The difference and its interval in words."""
        return f"{self.mean:+.2f} ({self.low:+.2f} to {self.high:+.2f}; {self.basis})"


def stored_difference(
    study: StudyRecords,
    *,
    split: Split,
    reference: str,
    is_row: Callable[[str], bool],
    is_policy: Callable[[ComparisonRecord], bool],
) -> Difference | None:
    """The stored difference of a row's runs from those of the variant `reference`, over all seeds;
    None where nothing is stored.

    A comparison that was made the other way round counts with its sign turned.
    """
    rows = study.compared.get((split, reference), {})
    found = [
        comparison
        for name, comparisons in rows.items()
        if is_row(name)
        for comparison in comparisons
        if is_policy(comparison)
    ]
    return _combined(found) if found else None


def _combined(comparisons: Sequence[ComparisonRecord]) -> Difference:
    """The mean over seeds. Its interval covers both the mean bootstrap interval and the interval
    over the seeds."""
    if len(comparisons) == 1:
        (only,) = comparisons
        return Difference(only.difference, only.low, only.high, "paired bootstrap over sentences")
    seeds = over_seeds([comparison.difference for comparison in comparisons])
    assert seeds.low is not None and seeds.high is not None
    low = min(seeds.low, sum(comparison.low for comparison in comparisons) / len(comparisons))
    high = max(seeds.high, sum(comparison.high for comparison in comparisons) / len(comparisons))
    return Difference(
        seeds.mean, low, high, f"mean of {seeds.seeds} seeds; covers the paired bootstrap and the {seeds.basis}"
    )


def sign_kind(ours: Difference | None, paper: float) -> Kind:
    """How the sign of our difference stands to that of the paper's."""
    if ours is None:
        return "unknown"
    verdict = verdict_of(-ours.high, -ours.low) if paper < 0 else verdict_of(ours.low, ours.high)
    return "tie" if paper == 0 and verdict != "within noise" else KINDS[verdict]


def sign_mark(ours: Difference | None, paper: float) -> Mark:
    """The mark of a value, with both differences in words."""
    kind = sign_kind(ours, paper)
    told = ours.words if ours else "not stored"
    return Mark(SYMBOLS[kind], kind, f"{WORDS[kind]}: our difference {told}, the paper's {paper:+.1f}")


def count_line(marks: Sequence[Mark]) -> str:
    """How many of the marks say what."""
    counts = Counter(mark.kind for mark in marks)
    told = [f"{counts[kind]} {word}" for kind, word in _COUNTED if counts[kind]]
    return f"Of {len(marks)} signs: {', '.join(told)}." if marks else ""


_COUNTED: tuple[tuple[Kind, str], ...] = (
    ("agree", "agree"),
    ("disagree", "disagree"),
    ("noise", "within noise"),
    ("tie", "equal in the paper only"),
    ("unknown", "without a stored comparison"),
)
