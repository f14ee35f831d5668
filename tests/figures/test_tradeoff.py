"""Trade-off figures: what the files hold is what the lines show, and files of another kind are
refused by name."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from anydepth.errors import UsageError
from anydepth.evaluation.bleu import QualityScores, Score
from anydepth.evaluation.evaluate import Evaluation, EvaluationRecipe
from anydepth.evaluation.measure import Measurement
from anydepth.figures.curves import (
    CurvePoint,
    CurveSeries,
    CurveSetting,
    StoredCurves,
    StoredEvaluation,
    StoredRecipe,
    StoredResult,
    StoredScore,
    StoredScores,
    read_points,
)
from anydepth.figures.style import FAMILY_STYLES, save_figure
from anydepth.figures.tradeoff import plot_tradeoff, setting_labels

ROWS = [
    ("fixed:2", 34.4, 2.0, 0.41),
    ("fixed:1", 33.4, 1.0, 0.27),
    ("geometric:0.3,0.4", 34.7, 1.9, 0.40),
    ("geometric:0.5,0.5", 34.9, 2.4, 0.48),
    ("uniform:seed=1", 33.9, 3.5, 0.63),
]


def evaluation(
    rows: list[tuple[str, float, float, float]] = ROWS, *, run: str = "runs/base", test: str = "corpus/test"
) -> dict[str, Any]:
    results = [
        {
            "policy": policy,
            "scores": {"bleu": {"value": bleu, "signature": "s"}},
            "average_exit": average,
            "flops_share": share,
            "beam": 5,
        }
        for policy, bleu, average, share in rows
    ]
    return {"recipe": {"run": run, "weights": "0123", "test": test}, "results": results}


def operating_points() -> dict[str, Any]:
    points = [
        {"policy": policy, "average_exit": average, "flops_share": share, "bleu": bleu}
        for policy, bleu, average, share in ROWS[2:4]
    ]
    return {
        "weights": "0123",
        "sets": [
            {"policy": "geometric", "beam": 5, "valid": "corpus/valid", "full_depth_bleu": 35.5, "points": points}
        ],
    }


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def lines(figure: Figure, panel: int) -> dict[str, list[tuple[float, float]]]:
    """The points of each line of a panel, by the name in the legend."""
    drawn = figure.axes[panel].get_lines()
    return {str(line.get_label()): [(float(x), float(y)) for x, y in line.get_xydata()] for line in drawn}


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_lines_show_the_numbers_of_the_file_in_order_of_cost(tmp_path: Path) -> None:
    figure = plot_tradeoff(read_points([write(tmp_path / "e.json", evaluation())]))
    assert lines(figure, 0) == {
        "fixed": [(1.0, 33.4), (2.0, 34.4)],
        "geometric": [(1.9, 34.7), (2.4, 34.9)],
        "uniform": [(3.5, 33.9)],
    }
    assert lines(figure, 1) == {
        "fixed": [(0.27, 33.4), (0.41, 34.4)],
        "geometric": [(0.4, 34.7), (0.48, 34.9)],
        "uniform": [(0.63, 33.9)],
    }
    assert legend(figure) == ["fixed", "geometric", "uniform"]


@pytest.mark.parametrize(
    ("read", "written"),
    [
        (StoredEvaluation, Evaluation),
        (StoredRecipe, EvaluationRecipe),
        (StoredResult, Measurement),
        (StoredScores, QualityScores),
        (StoredScore, Score),
    ],
)
def test_every_name_that_must_be_there_is_one_that_evaluate_writes(read: type[StoredCurves], written: type) -> None:
    required = {name for name, field in read.model_fields.items() if field.is_required()}
    assert required and required <= {field.name for field in fields(written)}


def test_settings_and_points_come_from_the_evaluation(tmp_path: Path) -> None:
    fixed, *_ = read_points([write(tmp_path / "e.json", evaluation())])
    assert fixed.setting == CurveSetting(str(Path("runs/base").resolve()), "corpus/test", 5)
    assert fixed.points == (CurvePoint("fixed:1", 33.4, 1.0, 0.27), CurvePoint("fixed:2", 34.4, 2.0, 0.41))
    assert fixed.full_depth_bleu is None


def test_costs_have_an_order_of_their_own_in_each_panel(tmp_path: Path) -> None:
    rows = [("confidence:0.9", 34.0, 2.0, 0.9), ("confidence:0.5", 33.0, 3.0, 0.5)]
    figure = plot_tradeoff(read_points([write(tmp_path / "e.json", evaluation(rows))]))
    assert lines(figure, 0) == {"confidence": [(2.0, 34.0), (3.0, 33.0)]}
    assert lines(figure, 1) == {"confidence": [(0.5, 33.0), (0.9, 34.0)]}


@pytest.mark.parametrize("is_absent", [True, False])
def test_without_flops_there_is_one_panel(tmp_path: Path, is_absent: bool) -> None:
    stored = evaluation()
    for result in stored["results"]:
        result["flops_share"] = None
        if is_absent:
            del result["flops_share"]
    assert len(plot_tradeoff(read_points([write(tmp_path / "e.json", stored)])).axes) == 1


def test_a_point_without_flops_is_left_out_of_their_panel_alone(tmp_path: Path) -> None:
    stored = evaluation()
    stored["results"][0]["flops_share"] = None
    figure = plot_tradeoff(read_points([write(tmp_path / "e.json", stored)]))
    assert (len(lines(figure, 0)["fixed"]), len(lines(figure, 1)["fixed"])) == (2, 1)


def test_operating_points_belong_to_the_run_they_lie_in_and_bring_full_depth(tmp_path: Path) -> None:
    (series,) = read_points([write(tmp_path / "tuned" / "operating_points.json", operating_points())])
    assert series.setting == CurveSetting(str(tmp_path.resolve() / "tuned"), "corpus/valid", 5)
    assert series.points == (
        CurvePoint("geometric:0.3,0.4", 34.7, 1.9, 0.4),
        CurvePoint("geometric:0.5,0.5", 34.9, 2.4, 0.48),
    )
    figure = plot_tradeoff([series])
    assert legend(figure) == ["geometric", "full depth"]
    assert {bleu for _, bleu in lines(figure, 0)["full depth"]} == {35.5}


def test_the_legend_names_run_data_and_beam_only_where_they_differ(tmp_path: Path) -> None:
    tuned = write(tmp_path / "tuned" / "operating_points.json", operating_points())
    same = write(tmp_path / "same.json", evaluation(ROWS[:1], run=str(tmp_path / "tuned"), test="corpus/valid"))
    assert legend(plot_tradeoff(read_points([tuned, same]))) == ["geometric", "fixed", "full depth"]
    other = write(tmp_path / "other.json", evaluation(ROWS[:1], run="runs/$base$"))
    assert legend(plot_tradeoff(read_points([tuned, other]))) == [
        "geometric (tuned, valid)",
        "fixed ($base$, test)",
        "full depth (tuned, valid)",
    ]


def test_runs_that_end_alike_are_told_apart_by_their_paths() -> None:
    settings = [
        CurveSetting("/all/a/run", "test", 5),
        CurveSetting("/all/b/run", "test", 5),
        CurveSetting("/all/b/run", "test", None),
    ]
    assert list(setting_labels(settings).values()) == ["a/run, beam 5", "b/run, beam 5", "b/run, beam unknown"]
    assert list(setting_labels([CurveSetting("run", "test", 5), CurveSetting("/run", "test", 5)]).values()) == [
        "run",
        "/run",
    ]
    assert list(setting_labels([CurveSetting("run", "test", 5), CurveSetting("./run", "test", 5)]).values()) == [
        "run",
        "./run",
    ]
    assert list(setting_labels(settings[:1]).values()) == [""]


@pytest.mark.parametrize("length", [3, 50, 200])
def test_no_name_in_the_legend_is_cut_off_by_the_edge_of_the_figure(length: int) -> None:
    points = (CurvePoint("shortlist:1", 30.0, 1.0, None),)
    settings = [CurveSetting(letter * length, "test", 5) for letter in "nm"]
    figure = plot_tradeoff([CurveSeries("shortlist", setting, points, full_depth_bleu=31.0) for setting in settings])
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1
    assert all(axis.get_window_extent().y0 > box.y1 for axis in figure.axes)


def test_two_files_of_one_setting_are_one_series_and_a_point_counts_once(tmp_path: Path) -> None:
    first = write(tmp_path / "one.json", evaluation(ROWS[:1]))
    second = write(tmp_path / "two.json", evaluation(ROWS[:2], run="runs//base/", test="./corpus/test"))
    (series,) = read_points([first, second, first])
    assert [point.policy for point in series.points] == ["fixed:1", "fixed:2"]


def test_families_keep_their_markers_and_runs_differ_in_fill(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{run}.json", evaluation(ROWS[:4], run=run)) for run in ("one", "two")]
    drawn = {str(line.get_label()): line for line in plot_tradeoff(read_points(files)).axes[0].get_lines()}
    for family in ("fixed", "geometric"):
        one, two = drawn[f"{family} (one)"], drawn[f"{family} (two)"]
        assert one.get_marker() == two.get_marker() == FAMILY_STYLES[family].marker
        assert one.get_color() == two.get_color() == FAMILY_STYLES[family].colour
        assert (one.get_fillstyle(), one.get_linestyle()) != (two.get_fillstyle(), two.get_linestyle())
    assert drawn["fixed (one)"].get_linewidth() > drawn["geometric (one)"].get_linewidth()


def test_a_figure_of_every_family_is_saved_with_the_same_bytes_twice(tmp_path: Path) -> None:
    rows = [
        (f"{family}:{n}", 30.0 + n, 1.0 + n / 2, 0.1 * (1 + n))
        for family in (*FAMILY_STYLES, "новая")
        for n in range(4)
    ]
    series = read_points([write(tmp_path / "e.json", evaluation(rows))])
    for name in ("one.svg", "two.svg"):
        save_figure(plot_tradeoff(series), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


EXPECTED = 'expected what "anydepth evaluate --json" writes, or the operating_points.json of a run'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("BLEU 34.2", " cannot be used: it is not JSON: Expecting value: line 1 column 1 (char 0); "),
        ("", " cannot be used: it is not JSON: Expecting value: line 1 column 1 (char 0); "),
        ("[1, 2]", " has neither results nor sets of points; "),
        ('{"loss": 2.0}', " has neither results nor sets of points; "),
        (json.dumps(evaluation([])), " has no points; "),
        ('{"weights": "0", "sets": []}', " has no points; "),
        ('{"sets": [{"points": []}]}', " has no points; "),
        ('{"results": []}', ": recipe: field required; "),
        (json.dumps(evaluation()).replace("34.4", "NaN"), " cannot be used: it has NaN, which is no number; "),
        (json.dumps(evaluation()).replace('"value"', '"worth"'), ": results.0.scores.bleu.value: field required; "),
        (json.dumps(evaluation()).replace("0.41", "-1"), ": results.0.flops_share: input should be greater than 0; "),
        (json.dumps(operating_points()).replace('"bleu"', '"chrf"'), ": sets.0.points.0.bleu: field required; "),
    ],
)
def test_a_file_of_another_kind_is_refused_by_name(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=f"^{re.escape(f'{path}{problem}{EXPECTED}')}"):
        read_points([path])


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "latin.json").write_bytes(b'{"sets": "\xe9"}')
    with pytest.raises(
        UsageError, match=re.escape(f"{tmp_path / 'latin.json'} cannot be used: it is not UTF-8 (byte 0xE9 at 11)")
    ):
        read_points([tmp_path / "latin.json"])
    with pytest.raises(
        UsageError, match=re.escape(f"cannot read {tmp_path / 'none.json'}: No such file or directory; {EXPECTED}")
    ):
        read_points([tmp_path / "none.json"])
    with pytest.raises(UsageError, match="Is a directory"):
        read_points([tmp_path])


def test_nothing_to_draw_is_refused() -> None:
    for series in ([], [CurveSeries("fixed", CurveSetting("run", "test", 5), ())]):
        with pytest.raises(
            UsageError, match="at least one measured policy but there is none; give a stored evaluation"
        ):
            plot_tradeoff(series)
