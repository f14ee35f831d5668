"""One rule says what an interval shows, for the verdicts of a study and for the words and signs of
its page."""

from pathlib import Path

import pytest
from report.pages import section
from report.reports import ask_only_for, page_of
from report.studies import change

from anydepth.experiments.verdicts import MATCH, MEANING, verdict_of
from anydepth.report.signs import KINDS, Difference, sign_kind


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.1, 2.0, "agree"),
        (-0.4, 0.3, "within noise"),
        (0.0, 2.0, "within noise"),
        (-2.0, 0.0, "within noise"),
        (0.0, 0.0, "within noise"),
        (-0.4, -0.1, "disagree"),
    ],
)
def test_a_difference_is_decided_by_where_0_lies(low: float, high: float, verdict: str) -> None:
    assert verdict_of(low, high) == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.1, 2.0, "agree"),  # better is no worse
        (-0.4, 0.3, "agree"),
        (-0.4, -0.1, "agree"),  # below, but by less than counts
        (-0.5, 0.3, "within noise"),
        (-1.2, 0.51, "within noise"),  # neither a match nor its absence is shown
        (-3.2, -0.1, "within noise"),  # below, and nobody knows whether by more than counts
        (-3.2, -0.5, "within noise"),
        (-3.2, -0.6, "disagree"),
    ],
)
def test_a_match_is_decided_by_where_minus_half_a_point_lies(low: float, high: float, verdict: str) -> None:
    assert MATCH == 0.5
    assert verdict_of(low, high, is_match=True) == verdict


@pytest.mark.parametrize(("low", "high"), [(0.1, 2.0), (-0.4, 0.3), (0.0, 2.0), (-2.0, 0.0), (-0.4, -0.1)])
def test_the_signs_of_a_table_follow_the_same_rule(low: float, high: float) -> None:
    ours = Difference((low + high) / 2, low, high, "by hand")
    assert sign_kind(ours, 0.3) == KINDS[verdict_of(low, high)]
    assert sign_kind(ours, -0.3) == KINDS[verdict_of(-high, -low)]


def test_the_page_says_by_which_bar_a_match_is_judged(small: Path) -> None:
    ask_only_for(small, "agreement")
    page = section(page_of(small), "agreement")
    assert MEANING in page and "one above -0.5 BLEU does" in page


def test_what_cannot_be_compared_is_counted_and_has_no_difference(small: Path) -> None:
    ask_only_for(small, "agreement")
    trends = small / "records" / "trends.json"
    for key, value in (("verdict", "not comparable"), ("difference", None), ("low", None), ("high", None)):
        change(trends, "trends", 0, key, to=value)
    page = section(page_of(small), "agreement")
    assert "2 claims: 0 agree, 0 disagree, 1 within noise, 1 not comparable, 0 missing." in page
    assert '<span class="mark unknown"' in page
