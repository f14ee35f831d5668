"""Real models from the built-in corpus, by the same functions as the commands: exits, six trained
combinations, and tuned thresholds."""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from anydepth.config.shipped import shipped_file
from anydepth.demo.corpus import write_corpus
from anydepth.evaluation.evaluate import Evaluation, EvaluationSettings, evaluate_run
from anydepth.evaluation.measure import Measurement
from anydepth.inference.engines.native.native_engine import has_native
from anydepth.inference.export.onnx_folder import export_folder, export_onnx
from anydepth.inference.translator import Translator
from anydepth.runs.operating_points import PointSet, Wish, choose_point
from anydepth.runs.run import Run
from anydepth.search.decoding import GREEDY
from anydepth.text.prepare import PrepareSettings, prepare
from anydepth.training.start import continued_run, new_run, train_run
from anydepth.tuning.candidates import segment_numbers
from anydepth.tuning.tune import TuneSettings, tune_run

SEGMENT = 0.5
NOISE = 1.0  # BLEU on 500 sentences
POLICIES = ["fixed:1", "fixed:3", "fixed:6", "uniform"]
HALTING = {"sequence": "sequence", "multinomial": "multinomial", "geometric": "geometric:0.5"}
COMBINATIONS = [(halting, oracle) for halting in HALTING for oracle in ("likelihood", "correctness")]
pytestmark = [pytest.mark.soak, pytest.mark.system, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the built-in corpus, its data and an aligned run of the demo's settings."""
    folder = tmp_path_factory.mktemp("system")
    write_corpus(folder / "text")
    train, valid, test = (str(folder / "text" / split) for split in ("train", "valid", "test"))
    settings = PrepareSettings(source_lang="de", target_lang="en", train=train, valid=valid, test=test, vocab_size=2000)
    prepare(settings, folder / "data")
    config = shipped_file("demo")
    run = folder / "run"
    train_run(run, lambda: new_run(run, config, folder / "data", [], overwrite=False))
    return folder


@pytest.fixture(scope="module")
def evaluation(trained: Path) -> Evaluation:
    return evaluate_run(
        trained / "run",
        str(trained / "text" / "test"),
        POLICIES,
        EvaluationSettings(decoding=GREEDY),
        say=lambda text: None,
    )


def test_a_short_training_translates_and_depth_pays(evaluation: Evaluation) -> None:
    bleu = {result.policy: result.scores.bleu.value for result in evaluation.results}
    assert bleu["fixed:6"] > 70
    assert bleu["fixed:1"] < bleu["fixed:6"] - 10
    assert bleu["fixed:1"] < bleu["uniform:seed=1"] < bleu["fixed:6"]


def test_average_exits_are_those_of_the_policies(evaluation: Evaluation) -> None:
    exits = {result.policy: result.average_exit for result in evaluation.results}
    assert (exits["fixed:1"], exits["fixed:3"], exits["fixed:6"]) == (1, 3, 6)
    assert 3.3 < exits["uniform:seed=1"] < 3.7


def test_the_validation_loss_falls_while_training_and_with_depth(trained: Path) -> None:
    lines = Run(trained / "run").metrics_file.read_text(encoding="utf-8").splitlines()
    first, *_, last = [event["nll"] for event in map(json.loads, lines) if event["event"] == "valid"]
    assert all(after < before - 0.5 for before, after in zip(first, last, strict=True))
    assert last[0] > last[1] > last[2]


@dataclass(frozen=True)
class Workshop:
    """An aligned run with its text, and a folder for the second stages that start from it."""

    folder: Path
    text: Path
    aligned: Path

    def second_stage(self, halting: str, oracle: str, penalty: float, *more: str, updates: int = 20) -> Path:
        """A run that learned where to stop."""
        run = self.folder / f"{halting}-{oracle}-{penalty:g}-{updates}"
        changes = [
            f"exits.halting={halting}",
            f"exits.oracle={oracle}",
            f"exits.exit_penalty={penalty}",
            f"training.updates={updates}",
        ]
        changes += [
            "training.learning_rate=2e-3",
            "training.warmup=10",
            "training.cooldown=0.8",
            "validation.sentences=0",
            *more,
        ]
        if not run.exists():
            train_run(run, lambda: continued_run(run, self.aligned, None, changes, overwrite=False))
        return run

    def measured(self, run: Path, *policies: str) -> dict[str, Measurement]:
        """Greedy figures of the policies on the test sentences, by the names that were given."""
        evaluation = evaluate_run(
            run, str(self.text / "test"), policies, EvaluationSettings(decoding=GREEDY), say=lambda text: None
        )
        return dict(zip(policies, evaluation.results, strict=True))


@pytest.fixture(scope="module")
def workshop(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("adaptive"), trained / "text", trained / "run")


@pytest.fixture(scope="module")
def taught(workshop: Workshop) -> Path:
    changes = [
        "exits.halting_units=128",
        "exits.stop_gradient=true",
        "exits.rate_factor=6.0",
        "training.batch_tokens=1200",
    ]
    return workshop.second_stage("geometric", "likelihood", 0.02, *changes, updates=400)


@pytest.fixture(scope="module")
def points(workshop: Workshop, taught: Path) -> PointSet:
    settings = TuneSettings(objective="average-exit", candidates=2000, segment=SEGMENT, decoding=GREEDY)
    return tune_run(taught, str(workshop.text / "valid"), "geometric", settings, say=lambda text: None)


@pytest.mark.parametrize(("halting", "oracle"), COMBINATIONS)
def test_every_combination_trains_translates_and_stops_earlier_for_a_higher_penalty(
    workshop: Workshop, halting: str, oracle: str
) -> None:
    # A wide kernel, because so many words are right at exit 1 that the oracle of the single word
    # would send all but a few there.
    width = [] if halting == "sequence" else ["exits.kernel_width=20.0"]
    free, dear = (workshop.second_stage(halting, oracle, penalty, *width) for penalty in (0.0, 5.0))
    policy = HALTING[halting]
    figures = workshop.measured(free, policy, "fixed:1", "fixed:6")
    low, chosen, high = (figures[name].scores.bleu.value for name in ("fixed:1", policy, "fixed:6"))
    assert low - 2 < chosen < high + 2
    assert 1 <= workshop.measured(dear, policy)[policy].average_exit < figures[policy].average_exit <= 6


def test_lower_thresholds_stop_earlier_and_gain_no_bleu(workshop: Workshop, taught: Path) -> None:
    for run, family in ((workshop.aligned, "confidence"), (taught, "geometric")):
        figures = list(workshop.measured(run, *(f"{family}:{tau}" for tau in (1, 0.95, 0.8, 0.5, 0))).values())
        depths = [each.average_exit for each in figures]
        assert depths[0] == 6 and depths[-1] == 1
        assert all(before >= after for before, after in pairwise(depths)), depths
        bleu = [each.scores.bleu.value for each in figures]
        assert bleu[-1] < bleu[0] - 5
        assert all(after < before + NOISE for before, after in pairwise(bleu)), bleu


def test_tuned_geometric_at_half_of_the_depth_loses_less_than_one_bleu(
    workshop: Workshop, taught: Path, points: PointSet
) -> None:
    policy = choose_point([points], Wish(average_exit=3.0))[0].policy
    figures = workshop.measured(taught, policy, "fixed:6")
    assert figures[policy].average_exit <= 3.05
    assert figures[policy].scores.bleu.value > figures["fixed:6"].scores.bleu.value - 1
    assert figures[policy].flops_share < 0.75


def test_points_found_by_replay_are_level_with_those_of_decoding(
    workshop: Workshop, taught: Path, points: PointSet
) -> None:
    settings = TuneSettings(objective="average-exit", method="decode", candidates=20, segment=SEGMENT, decoding=GREEDY)
    decoded = tune_run(taught, str(workshop.text / "valid"), "geometric", settings, say=lambda text: None)
    best = dict(zip(segments(points), (point.bleu for point in points.points), strict=True))
    for segment, point in zip(segments(decoded), decoded.points, strict=True):
        assert max(bleu for other, bleu in best.items() if other <= segment) > point.bleu - 0.1


def segments(found: PointSet) -> list[int]:
    """The segment of the average exit that each point lies in."""
    return segment_numbers(np.array([point.average_exit for point in found.points]), SEGMENT).tolist()


@pytest.mark.parametrize(
    "policy",
    ["fixed:6", "uniform", "geometric:0.9", "confidence:0.8", "margin:0.7", "similarity:0.9", "shortlist:16:0.8"],
)
def test_every_engine_translates_as_the_plain_step_does_with_trained_weights(
    workshop: Workshop, taught: Path, policy: str
) -> None:
    lines = (workshop.text / "test.de").read_text(encoding="utf-8").split("\n")[:64]
    run = Run(taught)
    if not export_folder(run, int8=False).exists():
        export_onnx(run, int8=False, say=lambda text: None)
    engines = ["torch", "onnx", *(["native"] if has_native() else [])]
    for beam in (1, 5):
        plain, *others = (
            [
                (each.text, each.exits)
                for each in Translator.load(taught, engine=engine).translate(lines, policy=policy, beam=beam)
            ]
            for engine in engines
        )
        assert all(other == plain for other in others)


@pytest.mark.skipif(not has_native(), reason="there was no C++ compiler when anydepth was installed")
def test_8_bit_products_cost_little(workshop: Workshop, taught: Path) -> None:
    exact, rough = (
        evaluate_run(
            taught,
            str(workshop.text / "test"),
            ["fixed:6", "geometric:0.9"],
            EvaluationSettings(decoding=GREEDY, int8=int8),
            say=lambda text: None,
        )
        for int8 in (False, True)
    )
    for before, after in zip(exact.results, rough.results, strict=True):
        assert after.scores.bleu.value > before.scores.bleu.value - NOISE
        assert after.average_exit == pytest.approx(before.average_exit, abs=0.1)
