"""The choice of a vocabulary setting: the fewest words that keep the BLEU of all words."""

import pytest

from anydepth.errors import UsageError
from anydepth.evaluation.vocabulary_check import CheckSettings, chosen_vocabulary
from anydepth.runs.checked_vocabulary import MeasuredVocabulary

FULL = MeasuredVocabulary("full", 30.0, 2000.0, 1.0, 9)
SMALL = MeasuredVocabulary("table:20", 29.5, 150.0, 0.9, 5)
LARGE = MeasuredVocabulary("table:100", 29.95, 400.0, 0.98, 8)


@pytest.mark.parametrize(("tolerance", "chosen"), [(0.0, None), (0.04, None), (0.1, "table:100"), (0.6, "table:20")])
def test_the_fewest_words_within_the_tolerance_are_chosen_or_none(tolerance: float, chosen: str | None) -> None:
    assert chosen_vocabulary([FULL, SMALL, LARGE], tolerance) == chosen
    assert chosen_vocabulary([FULL, LARGE, SMALL], tolerance) == chosen


def test_a_tolerance_that_is_none_is_refused() -> None:
    for tolerance in (-0.1, 101.0, float("nan")):
        with pytest.raises(UsageError, match=r"--tolerance .* is a loss of BLEU; give one between 0 and 100"):
            CheckSettings.of_kind("table", tolerance=tolerance)
