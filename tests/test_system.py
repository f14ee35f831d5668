"""A real model from the built-in corpus, by the same functions as the commands."""

import json
from pathlib import Path

import pytest

from anydepth.evaluation.evaluate import Evaluation, Options, evaluate_run
from anydepth.model.run import Run

POLICIES = ["fixed:1", "fixed:3", "fixed:6", "uniform"]


@pytest.fixture(scope="module")
def evaluation(trained: Path) -> Evaluation:
    return evaluate_run(trained / "run", str(trained / "text" / "test"), POLICIES, options=Options(beam=1), say=lambda text: None)


@pytest.mark.system
@pytest.mark.timeout(540)
def test_a_short_training_translates_and_depth_pays(evaluation: Evaluation) -> None:
    bleu = {result.policy: result.scores.bleu.value for result in evaluation.results}
    assert bleu["fixed:6"] > 35
    assert bleu["fixed:1"] < bleu["fixed:6"] - 10
    assert bleu["fixed:1"] < bleu["uniform:seed=1"] < bleu["fixed:6"]


@pytest.mark.system
def test_average_exits_are_those_of_the_policies(evaluation: Evaluation) -> None:
    exits = {result.policy: result.average_exit for result in evaluation.results}
    assert (exits["fixed:1"], exits["fixed:3"], exits["fixed:6"]) == (1, 3, 6)
    assert 3.3 < exits["uniform:seed=1"] < 3.7


@pytest.mark.system
def test_the_validation_loss_falls_while_training_and_with_depth(trained: Path) -> None:
    lines = Run(trained / "run").metrics_file.read_text(encoding="utf-8").splitlines()
    first, *_, last = [event["nll"] for event in map(json.loads, lines) if event["event"] == "valid"]
    assert all(after < before - 0.5 for before, after in zip(first, last, strict=True))
    assert last[0] > last[1] > last[2]
