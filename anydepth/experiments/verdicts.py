"""What the interval of a difference says of a claim: one rule for the verdicts of a study and for
the words of its page."""

from typing import Literal, TypeAlias

Decision: TypeAlias = Literal["agree", "disagree", "within noise"]
Verdict: TypeAlias = Literal["agree", "disagree", "within noise", "not comparable", "missing"]
MATCH = 0.5  # BLEU that a match may lack

MEANING = (
    "A difference above 0 speaks for the claim; where the claim is that one matches the other, one above "
    f"-{MATCH:g} BLEU does. Agree: the whole 95% interval lies above that bar. Disagree: all of it lies "
    "below. Within noise: the bar is "
    "inside, so that neither is shown. Not comparable: the two share no average exit at which to compare them. "
    "What each interval rests on stands below it."
)


def verdict_of(low: float, high: float, *, is_match: bool = False) -> Decision:
    """Whether the interval of a difference lies above its bar, below it, or around it.

    The bar is 0. For a match it is -MATCH: that two are equal is never shown, that one lacks no
    more than MATCH can be.
    """
    bar = -MATCH if is_match else 0.0
    if low > bar:
        return "agree"
    return "disagree" if high < bar else "within noise"
