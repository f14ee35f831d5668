"""Tables and JSON: the same figures in both, a column only where there is something to tell, and
recipes that are complete."""

import json
from dataclasses import asdict, replace

import pytest
from evaluation.translators import REFERENCES, SOURCES, make_translator

from anydepth.evaluation.evaluate import Evaluation, EvaluationRecipe
from anydepth.evaluation.evaluation_table import (
    aligned_table,
    evaluation_json,
    evaluation_table,
    points_json,
    points_table,
)
from anydepth.evaluation.measure import Measurement, measure
from anydepth.evaluation.significance import PairedComparison
from anydepth.runs.operating_points import OperatingPoint, PointSet
from anydepth.search.decoding import GREEDY

HEADINGS = ["policy", "BLEU", "tokenized", "chrF", "AE", "MFLOPs/token", "% of full depth", "tokens/s"]
RECIPE = EvaluationRecipe("runs/x", "0123456789ab", "corpus/test", "de-en", "0.0", "2.0", 1, "torch", None, None)
FOUND = PointSet(
    policy="geometric",
    method="decode",
    candidates=1200,
    seed=4,
    beam=5,
    length_penalty=0.6,
    valid="corpus/valid",
    valid_fingerprint="12-34",
    sentences=2169,
    full_depth_bleu=34.256,
    points=(
        OperatingPoint("geometric:0.2,0.1", 31.004, 1.254, 0.3754),
        OperatingPoint("geometric:0.9", 34.5, 2.75, 1.0625),
    ),
)


@pytest.fixture(scope="module")
def figures() -> Measurement:
    translator = make_translator()
    return measure(translator, SOURCES, REFERENCES, translator.policy("uniform:2"), GREEDY)[0]


def headings(line: str) -> list[str]:
    """The headings in the first line of a table, which stand at least two spaces apart."""
    return [part.strip() for part in line.split("  ") if part.strip()]


def test_the_table_and_json_show_the_same_measurement(figures: Measurement) -> None:
    head, row, *notes = evaluation_table(Evaluation(RECIPE, [figures])).splitlines()
    stored = json.loads(evaluation_json(Evaluation(RECIPE, [figures])))["results"][0]
    assert len(head) == len(row)
    assert headings(head) == HEADINGS
    assert row.split() == [
        stored["policy"],
        *(f"{stored['scores'][name]['value']:.2f}" for name in ("bleu", "tokenized_bleu", "chrf")),
        f"{stored['average_exit']:.2f}",
        f"{stored['mflops_per_token']:.3f}",
        f"{100 * stored['flops_share']:.1f}",
        f"{stored['tokens_per_second']:,.0f}",
    ]
    assert [note.split()[0] for note in notes] == ["BLEU", "tokenized", "chrF", "recipe"]
    assert stored == asdict(figures)
    assert json.loads(evaluation_json(Evaluation(RECIPE, [figures])))["recipe"] == asdict(RECIPE)


def test_executed_flops_and_a_comparison_have_columns_only_where_they_were_asked_for(figures: Measurement) -> None:
    comparison = PairedComparison(-0.125, -1.5, 1.25, 0.75, 1000, 1, "sig")
    told = replace(figures, executed_mflops_per_token=1.23456, comparison=comparison)
    evaluation = Evaluation(
        replace(RECIPE, against="fixed:2"), [told, replace(told, comparison=replace(comparison, difference=2.0))]
    )
    head, first, second, *notes = evaluation_table(evaluation).splitlines()
    assert headings(head) == [*HEADINGS, "executed MFLOPs/token", "BLEU against fixed:2"]
    assert "1.235" in first.split()
    assert first.endswith("-0.12 [-1.50, +1.25] p=0.750")
    assert second.endswith("+2.00 [-1.50, +1.25] p=0.750")
    assert "against    paired bootstrap of 1,000 samples, seed 1: difference, 95% interval, p-value" in notes
    assert headings(evaluation_table(Evaluation(RECIPE, [figures])).splitlines()[0]) == HEADINGS
    assert json.loads(evaluation_json(evaluation))["results"][0]["comparison"] == asdict(comparison)


def test_a_wish_is_part_of_the_recipe(figures: Measurement) -> None:
    table = evaluation_table(Evaluation(replace(RECIPE, wish="--flops 0.4"), [figures]))
    assert " | wish --flops 0.4 | " in table.splitlines()[-1]
    assert "wish" not in evaluation_table(Evaluation(RECIPE, [figures]))


def test_the_table_of_points_tells_where_full_depth_was_the_judge() -> None:
    judge = "judge       BLEU is against what full depth makes of the same sentences, not against references"
    assert judge in points_table(replace(FOUND, judge="full-depth")).splitlines()
    assert "judge" not in points_table(FOUND)


def test_the_table_of_points_has_a_row_for_each_and_their_recipe() -> None:
    head, first, second, full, recipe = points_table(FOUND).splitlines()
    assert headings(head) == ["policy", "BLEU", "AE", "% of the FLOPs"]
    assert first.split() == ["geometric:0.2,0.1", "31.00", "1.25", "37.5"]
    assert second.split() == ["geometric:0.9", "34.50", "2.75", "106.2"]
    assert full == "full depth  BLEU 34.26"
    for part in (
        "decode of 1,200 candidates",
        "seed 4",
        "valid corpus/valid (2,169 sentences)",
        "beam 5",
        "length penalty 0.6",
    ):
        assert part in recipe


def test_points_in_json_are_the_points() -> None:
    stored = json.loads(points_json(FOUND))
    assert PointSet(**stored | {"points": tuple(OperatingPoint(**point) for point in stored["points"])}) == FOUND


def test_columns_of_figures_end_together() -> None:
    assert aligned_table([["policy", "AE"], ["fixed:10", "1"], ["x", "10.00"]]) == [
        "policy       AE",
        "fixed:10      1",
        "x         10.00",
    ]
