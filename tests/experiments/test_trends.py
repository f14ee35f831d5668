"""Verdicts on the paper's findings, from measurements made by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from experiments.studies import measured, small_study

from anydepth.experiments.definition import Study
from anydepth.experiments.measuring import SPLITS
from anydepth.experiments.records import MeasurementKind, Split
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.trends import TRENDS, compare
from anydepth.experiments.variants import EXPERIMENTS

GOOD, MIDDLING, BAD = 1000, 6, 2  # every so many-th sentence is wrong


def verdicts(study: Study, folder: StudyFolder) -> dict[str, dict[str, Any]]:
    compare(study, folder)
    found = json.loads(folder.trends_file.read_text(encoding="utf-8"))["trends"]
    return {trend["name"]: trend for trend in found}


def every_exit(wrong: int) -> list[tuple[Split, MeasurementKind, str, int, list[int]]]:
    """Fixed and uniform exits of a run with 4 blocks on both sets."""
    rows: list[tuple[Split, MeasurementKind, str, int, list[int]]] = []
    for split in SPLITS:
        rows += [(split, "fixed", f"fixed:{n}", wrong, [n]) for n in range(1, 5)]
        rows.append((split, "uniform", "uniform", wrong, [1, 4]))
    return rows


@pytest.mark.parametrize(
    ("aligned", "mixed", "verdict"), [(GOOD, BAD, "agree"), (BAD, GOOD, "disagree"), (BAD, BAD, "within noise")]
)
def test_aligned_against_mixed_is_decided_by_the_interval(
    tmp_path: Path, aligned: int, mixed: int, verdict: str
) -> None:
    folder = StudyFolder(tmp_path)
    measured(folder, "aligned", "aligned", every_exit(aligned))
    measured(folder, "mixed-4", "mixed", every_exit(mixed))
    found = verdicts(small_study("table1"), folder)
    for name in ("aligned-beats-mixed-fixed", "aligned-beats-mixed-uniform"):
        assert found[name]["verdict"] == verdict
        assert found[name]["low"] <= found[name]["difference"] <= found[name]["high"]


DEEPEST, BEST = "half-depth-matches-baseline", "half-depth-matches-best-baseline"


@pytest.mark.parametrize(
    ("half", "full", "verdict"), [(GOOD, BAD, "agree"), (BAD, BAD, "agree"), (BAD, GOOD, "disagree")]
)
def test_half_depth_matches_if_it_is_not_below(tmp_path: Path, half: int, full: int, verdict: str) -> None:
    folder = StudyFolder(tmp_path)
    measured(folder, "aligned", "aligned", every_exit(half))
    measured(folder, "baseline-4", "baseline", [("test", "full", "fixed:4", full, [4])])
    found = verdicts(small_study("table1"), folder)
    assert [found[name]["verdict"] for name in (DEEPEST, BEST)] == [verdict, verdict]


def test_half_depth_is_judged_against_the_deepest_baseline_and_in_a_row_of_its_own_against_the_best(
    tmp_path: Path,
) -> None:
    folder = StudyFolder(tmp_path)
    measured(folder, "aligned", "aligned", every_exit(MIDDLING))
    measured(folder, "baseline-4", "baseline", [("test", "full", "fixed:4", BAD, [4])])
    measured(folder, "baseline-2", "baseline", [("test", "full", "fixed:2", GOOD, [2])], blocks=2)
    found = verdicts(small_study("table1"), folder)
    deepest, best = found[DEEPEST], found[BEST]
    assert deepest["verdict"] == "agree" and deepest["low"] > 0
    assert deepest["ours"].endswith("with 4 blocks, test")
    assert "below that of 2, so to match it means less" in deepest["remark"]
    assert best["verdict"] == "disagree" and best["high"] < -0.5
    assert best["ours"].endswith("with 2 blocks, test")
    assert best["remark"] == "Chosen on test, which favours the baseline. Not measured: 1, 3 blocks."


def test_where_the_deepest_baseline_is_the_best_both_rows_say_the_same(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    measured(folder, "aligned", "aligned", every_exit(MIDDLING))
    for depth in range(1, 5):
        wrong = GOOD if depth == 4 else BAD
        measured(
            folder, f"baseline-{depth}", "baseline", [("test", "full", f"fixed:{depth}", wrong, [depth])], blocks=depth
        )
    found = verdicts(small_study("table1"), folder)
    kept = ("ours", "difference", "low", "high", "verdict")
    assert [found[DEEPEST][key] for key in kept] == [found[BEST][key] for key in kept]
    assert found[DEEPEST]["remark"] == ""


def test_without_the_deepest_baseline_only_the_best_of_the_others_is_matched(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    measured(folder, "aligned", "aligned", every_exit(GOOD))
    measured(folder, "baseline-2", "baseline", [("test", "full", "fixed:2", BAD, [2])], blocks=2)
    found = verdicts(small_study("table1"), folder)
    assert (found[DEEPEST]["verdict"], found[BEST]["verdict"]) == ("missing", "agree")


def test_what_was_not_measured_is_missing_and_says_which_runs_it_needs(tmp_path: Path) -> None:
    found = verdicts(small_study(*EXPERIMENTS), StudyFolder(tmp_path))
    assert len(found) == len(TRENDS)
    assert {trend["verdict"] for trend in found.values()} == {"missing"}
    assert found["aligned-beats-mixed-fixed"]["runs"] == ["aligned", "mixed-4"]


def test_only_the_trends_of_the_experiments_at_hand_are_examined(tmp_path: Path) -> None:
    assert set(verdicts(small_study("figure4"), StudyFolder(tmp_path))) == {"lambda-lowers-exits", "sigma-raises-exits"}


def test_geometric_against_multinomial_is_read_off_the_curve_at_the_same_average_exit(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    rows = [("test", "tuned", f"geometric:{n}", GOOD, [n]) for n in (1, 3)]
    measured(folder, "tok-c-geometric-l0.167", "halting", rows)
    measured(folder, "tok-c-multinomial-l0.167", "halting", [("test", "default", "multinomial", BAD, [2])])
    measured(folder, "tok-c-multinomial-l0.5", "halting", [("test", "default", "multinomial", BAD, [1, 2])])
    found = verdicts(small_study("figure3"), folder)["geometric-beats-multinomial"]
    assert found["verdict"] == "agree"
    assert found["ours"] == "AE 1.00 to 3.00 against 1.50 to 2.00, test"
    assert found["remark"] == "Compared at 2 points from AE 1.50 to 2.00."


def sequence_curves(folder: StudyFolder, correctness: list[int]) -> None:
    """Seq-LL from AE 2.5 to 3, Seq-C at one depth, and the control."""
    measured(folder, "aligned-continued", "continued", every_exit(MIDDLING))
    measured(folder, "seq-ll-l0.1", "halting", [("test", "default", "sequence", GOOD, [3])])
    measured(folder, "seq-ll-l0.5", "halting", [("test", "default", "sequence", GOOD, [2, 3])])
    measured(folder, "seq-c-l0.1", "halting", [("test", "default", "sequence", BAD, correctness)])


def test_curves_that_share_no_average_exit_are_not_comparable(tmp_path: Path) -> None:
    sequence_curves(StudyFolder(tmp_path), [1])
    found = verdicts(small_study("figure3"), StudyFolder(tmp_path))["sequence-ll-beats-c"]
    assert found["verdict"] == "not comparable"
    assert (found["difference"], found["low"], found["high"]) == (None, None, None)
    assert found["ours"] == "AE 2.50 to 3.00 against 1.00 to 1.00, test"
    assert found["remark"] == "They have no average exit in common."


def test_curves_that_share_one_average_exit_are_compared_there(tmp_path: Path) -> None:
    sequence_curves(StudyFolder(tmp_path), [2, 3, 3, 3])
    found = verdicts(small_study("figure3"), StudyFolder(tmp_path))["sequence-ll-beats-c"]
    assert found["verdict"] == "agree"
    assert found["remark"] == "Compared at 1 point, AE 2.75."


def test_a_seed_whose_curves_lie_apart_is_left_out_and_told(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    for suffix, deep in (("", 4), (".2", 1)):
        measured(folder, f"seq-ll-l0.1{suffix}", "halting", [("test", "default", "sequence", GOOD, [1])])
        measured(folder, f"seq-ll-l0.5{suffix}", "halting", [("test", "default", "sequence", GOOD, [deep])])
        measured(folder, f"seq-c-l0.1{suffix}", "halting", [("test", "default", "sequence", BAD, [2])])
        measured(folder, f"seq-c-l0.3{suffix}", "halting", [("test", "default", "sequence", BAD, [3])])
    found = verdicts(small_study("figure3", seeds=2), folder)["sequence-ll-beats-c"]
    assert found["verdict"] == "agree"
    assert found["remark"] == "Compared at 2 points from AE 2.00 to 3.00. Not comparable with 1 of the seeds."


@pytest.mark.parametrize(
    ("first", "last", "verdict"), [([3, 4], [1, 1], "agree"), ([1, 1], [3, 4], "disagree"), ([2], [2], "within noise")]
)
def test_lambda_lowers_exits_if_the_highest_leaves_earlier_than_the_lowest(
    tmp_path: Path, first: list[int], last: list[int], verdict: str
) -> None:
    folder = StudyFolder(tmp_path)
    measured(folder, "tok-ll-geometric-l0.01", "halting", [("valid", "default", "geometric", GOOD, first)])
    measured(folder, "tok-ll-geometric-l0.2", "halting", [("valid", "default", "geometric", GOOD, last)])
    found = verdicts(small_study("figure4"), folder)["lambda-lowers-exits"]
    assert (found["verdict"], found["unit"]) == (verdict, "exits")
    assert found["ours"].startswith(
        f"AE {sum(first) / len(first):.2f}, missing, missing, {sum(last) / len(last):.2f} as lambda goes"
    )


def test_a_trend_is_the_mean_over_seeds_and_tells_each(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    for suffix, wrong in (("", BAD), (".2", MIDDLING)):
        measured(folder, f"aligned{suffix}", "aligned", every_exit(GOOD))
        measured(folder, f"mixed-4{suffix}", "mixed", every_exit(wrong))
    one = verdicts(small_study("table1"), folder)["aligned-beats-mixed-uniform"]
    both = verdicts(small_study("table1", seeds=2), folder)["aligned-beats-mixed-uniform"]
    assert both["difference"] < one["difference"]
    assert f"By seed: {one['difference']:+.2f}, " in both["remark"]
    assert both["high"] >= one["difference"]
    assert "over 2 seeds" in both["basis"]


def test_tables_are_compared_exit_by_exit_on_average_and_on_both_sets(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    measured(folder, "aligned", "aligned", every_exit(GOOD))
    measured(folder, "omega-n", "omega", every_exit(BAD))
    measured(folder, "baseline-2", "baseline", [("valid", "full", "fixed:2", BAD, [2])], blocks=2)
    compare(small_study("table2"), folder)
    rows = json.loads(folder.comparisons_file.read_text(encoding="utf-8"))["comparisons"]
    found = {(row["run"], row["split"], row["policy"]): row for row in rows}
    policies = ["fixed:1", "fixed:2", "fixed:3", "fixed:4", "uniform", "average"]
    expected = {("omega-n", split, policy) for split in ("valid", "test") for policy in policies}
    assert set(found) == expected | {("baseline-2", "valid", "fixed:2"), ("baseline", "valid", "average")}
    assert all(row["high"] < 0 and row["p_value"] < 0.05 for row in rows)
    assert found["omega-n", "valid", "average"]["difference"] == found["omega-n", "valid", "fixed:1"]["difference"]
