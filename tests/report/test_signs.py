"""Intervals over seeds and the marks of signs, by hand-made numbers."""

from pathlib import Path

import pytest
from report.studies import comparison, write_json, write_study

from anydepth.experiments.records import ComparisonRecord, MeasurementRecord
from anydepth.experiments.seeds import Value, bleu_of, over_seeds
from anydepth.report.signs import Difference, count_line, sign_kind, sign_mark, stored_difference
from anydepth.report.study_records import StudyRecords, read_study


def measured(bleu: float) -> MeasurementRecord:
    return MeasurementRecord(
        split="test",
        kind="fixed",
        policy="fixed:1",
        family="fixed",
        bleu=bleu,
        low=bleu - 1,
        high=bleu + 3,
        average_exit=1.0,
    )


def test_one_run_keeps_its_bootstrap_interval() -> None:
    value = bleu_of([measured(20.0)])
    assert value == Value(20.0, 19.0, 23.0, 1, "95% bootstrap over sentences")
    assert value.spread == "±2.00"
    assert value.words == "20.00 (19.00 to 23.00; 95% bootstrap over sentences)"


def test_two_seeds_give_their_mean_and_range_and_not_the_bootstrap() -> None:
    assert bleu_of([measured(20.0), measured(21.0)]) == Value(20.5, 20.0, 21.0, 2, "range of 2 seeds")


def test_three_seeds_give_a_t_interval() -> None:
    """1, 2 and 3 have a deviation of 1, and t with two degrees of freedom is 4.303: 2 ± 4.303 /
    sqrt(3)."""
    value = over_seeds([1.0, 2.0, 3.0])
    assert (value.mean, value.seeds, value.basis) == (2.0, 3, "95% t-interval over 3 seeds")
    assert (value.low, value.high) == (pytest.approx(2 - 2.4843, abs=1e-4), pytest.approx(2 + 2.4843, abs=1e-4))


def test_many_seeds_use_the_normal_quantile() -> None:
    value = over_seeds([0.0, 1.0] * 20)
    deviation = (40 * 0.25 / 39) ** 0.5
    assert value.high == pytest.approx(0.5 + 1.96 * deviation / 40**0.5)


def test_one_value_has_no_interval() -> None:
    assert (over_seeds([3.0]).low, over_seeds([3.0]).spread) == (None, "")


def difference(mean: float, low: float, high: float) -> Difference:
    return Difference(mean, low, high, "")


@pytest.mark.parametrize(
    ("ours", "paper", "kind"),
    [
        (difference(-0.4, -0.7, -0.1), -1.2, "agree"),
        (difference(0.4, 0.1, 0.7), 0.1, "agree"),
        (difference(0.4, 0.1, 0.7), -0.1, "disagree"),
        (difference(-0.4, -0.7, -0.1), 0.3, "disagree"),
        (difference(0.4, -0.1, 0.9), 0.3, "noise"),
        (difference(0.4, -0.1, 0.9), -0.3, "noise"),
        (difference(0.4, 0.0, 0.9), 0.3, "noise"),
        (difference(0.4, 0.1, 0.9), 0.0, "tie"),
        (difference(0.4, -0.1, 0.9), 0.0, "noise"),
        (None, 0.3, "unknown"),
    ],
)
def test_a_sign_agrees_disagrees_or_is_noise(ours: Difference | None, paper: float, kind: str) -> None:
    assert sign_kind(ours, paper) == kind


def test_a_mark_tells_both_differences() -> None:
    mark = sign_mark(Difference(-0.4, -0.7, -0.1, "paired"), 0.3)
    assert (mark.symbol, mark.kind) == ("✗", "disagree")
    assert mark.tip == "disagree: our difference -0.40 (-0.70 to -0.10; paired), the paper's +0.3"


def test_the_count_names_every_kind_that_occurs() -> None:
    marks = [sign_mark(difference(0.4, 0.1, 0.7), sign) for sign in (1.0, 1.0, -1.0, 0.0)] + [sign_mark(None, 1.0)]
    assert (
        count_line(marks)
        == "Of 5 signs: 2 agree, 1 disagree, 1 equal in the paper only, 1 without a stored comparison."
    )


def study_with(folder: Path, comparisons: list[dict[str, object]]) -> StudyRecords:
    write_study(folder, blocks=2, seeds=(1, 2))
    write_json(folder / "records" / "comparisons.json", {"format": 1, "comparisons": comparisons})
    return read_study(folder)


def find(study: StudyRecords) -> Difference | None:
    def is_policy(found: ComparisonRecord) -> bool:
        return found.policy == "fixed:1"

    return stored_difference(
        study, split="valid", reference="aligned", is_row=lambda name: name == "mixed-1", is_policy=is_policy
    )


def test_a_difference_is_that_of_the_row_the_split_and_the_policy(tmp_path: Path) -> None:
    others = [
        comparison("mixed-2", "aligned", "valid", "fixed:1", 5.0),
        comparison("mixed-1", "aligned", "test", "fixed:1", 6.0),
        comparison("mixed-1", "aligned", "valid", "fixed:2", 7.0),
        comparison("mixed-1", "baseline-1", "valid", "fixed:1", 8.0),
    ]
    assert find(study_with(tmp_path / "none", others)) is None
    found = find(
        study_with(tmp_path / "one", [*others, comparison("mixed-1", "aligned", "valid", "fixed:1", -0.5, reach=0.25)])
    )
    assert found == Difference(-0.5, -0.75, -0.25, "paired bootstrap over sentences")


def test_a_comparison_the_other_way_round_is_turned(tmp_path: Path) -> None:
    turned = comparison("aligned", "mixed-1", "valid", "fixed:1", 0.5) | {"low": 0.25, "high": 1.0}
    assert find(study_with(tmp_path, [turned])) == Difference(-0.5, -1.0, -0.25, "paired bootstrap over sentences")


def test_the_difference_of_two_seeds_covers_their_range_and_their_mean_bootstrap(tmp_path: Path) -> None:
    """Means of the bounds: (-0.8 - 0.6) / 2 and (-0.4 + 0.4) / 2; the range of the differences:
    -0.6 to -0.1."""
    first = comparison("mixed-1", "aligned", "valid", "fixed:1", -0.6, reach=0.2)
    second = comparison("mixed-1.2", "aligned.2", "valid", "fixed:1", -0.1, reach=0.5)
    found = find(study_with(tmp_path, [first, second]))
    assert found is not None
    assert (found.mean, found.low, found.high) == (pytest.approx(-0.35), pytest.approx(-0.7), pytest.approx(0.0))
    assert sign_kind(found, 0.3) == "noise"
