"""Steps of each kind: names, files and locks, which a study that was begun before relies on."""

import shutil
from pathlib import Path

import pytest
from experiments.studies import small_study

from anydepth.bleu_oracle.table import load_scores
from anydepth.experiments.plan import make_plan
from anydepth.experiments.steps import CostStep, ScoreStep, StudyStep, TrainStep
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.variants import EXPERIMENTS

FOLDER = Path("study")
SAMPLES = Path(__file__).parents[1] / "samples"


@pytest.fixture(scope="module")
def steps() -> dict[str, StudyStep]:
    return {step.name: step for step in make_plan(small_study(*EXPERIMENTS, seeds=2), StudyFolder(FOLDER))}


@pytest.mark.parametrize(
    ("name", "files", "result", "lock"),
    [
        ("train mixed-2.2", "train-mixed-2.2", "runs/mixed-2.2/model.safetensors", "run-mixed-2.2"),
        ("measure mixed-2.2", "measure-mixed-2.2", "records/runs/mixed-2.2.json", "run-mixed-2.2"),
        ("score aligned.2", "score-aligned.2", "runs/aligned.2/exit_scores.safetensors", "run-aligned.2"),
        ("distil text", "distil-text", "distilled/text", "distil-text"),
        ("distil text.2", "distil-text.2", "distilled/text.2", "distil-text.2"),
        ("look at words", "look-at-words", "records/tokens.json", "look-at-words"),
        ("time updates", "time-updates", "records/cost.json", "time-updates"),
        ("join both", "join-both", "distilled/both", "join-both"),
        (
            "choose words race-plain-1",
            "choose-words-race-plain-1",
            "records/runs/race-plain-1.json",
            "run-race-plain-1",
        ),
        ("agree on words", "agree-on-words", "held_out/words.json", "agree-on-words"),
        ("tune race-adaptive", "tune-race-adaptive", "runs/race-adaptive/operating_points.json", "run-race-adaptive"),
        ("race int8 beam 1", "race-int8-beam-1", "records/race/int8-beam-1.json", "race-int8-beam-1"),
        ("compare", "compare", "records/trends.json", "compare"),
    ],
)
def test_a_step_has_the_files_that_it_always_had(
    steps: dict[str, StudyStep], name: str, files: str, result: str, lock: str
) -> None:
    step = steps[name]
    assert (step.marker, step.log) == (FOLDER / "steps" / f"{files}.json", FOLDER / "logs" / f"{files}.log")
    assert (step.result, step.lock) == (FOLDER / result, FOLDER / "steps" / f"{lock}.lock")


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("train aligned", ()),
        ("train aligned-continued.2", ("train aligned.2",)),
        ("train rival-distilled-1", ("distil text",)),
        ("train seq-bleu-l2.2", ("train aligned.2", "score aligned.2")),
        ("measure seq-bleu-l2", ("train seq-bleu-l2",)),
        ("distil text", ("train baseline-4",)),
        ("look at words", ("measure tok-ll-geometric-l0.05",)),
        ("time updates", ()),
        ("join both", ("distil text",)),
        ("train race-adaptive.2", ("train race-start", "join both")),
        ("hold out valid", ()),
        ("choose words race-deep-encoder", ("train race-deep-encoder", "hold out valid")),
        ("tune race-adaptive.2", ("agree on words",)),
    ],
)
def test_a_step_needs_what_its_result_is_made_from(
    steps: dict[str, StudyStep], name: str, needs: tuple[str, ...]
) -> None:
    assert steps[name].needs == needs


def test_only_training_costs_updates_and_has_a_command(steps: dict[str, StudyStep]) -> None:
    for step in steps.values():
        is_training = isinstance(step, TrainStep)
        assert (step.cost > 0, step.command.startswith("anydepth train ")) == (is_training, is_training)


def test_a_second_stage_costs_its_own_updates_at_the_price_of_the_aligned_model(steps: dict[str, StudyStep]) -> None:
    assert (steps["train aligned"].cost, steps["train aligned-continued"].cost) == (50_000, 12_500)
    assert steps["train mixed-4"].cost > 50_000


def test_only_the_clock_is_watched_alone_and_only_comparing_takes_what_there_is(steps: dict[str, StudyStep]) -> None:
    heats = [f"race {precision} beam {beam}" for beam in (1, 5) for precision in ("fp32", "int8")]
    tunings = [f"tune race-{run}" for run in ("adaptive", "own", "adaptive.2", "own.2")]
    assert [name for name, step in steps.items() if step.is_alone] == ["time updates", *tunings, *heats]
    assert [name for name, step in steps.items() if step.takes_what_there_is] == ["compare"]


def test_a_step_tells_with_which_results_of_others_it_was_done(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    study = small_study("table1")
    training, measuring = make_plan(study, folder)[:2]
    for step in (training, measuring):
        for file in (step.result, step.marker):
            file.parent.mkdir(parents=True, exist_ok=True)
        step.result.write_text("something", encoding="utf-8")
    training.mark([], 2.0)
    measuring.mark([training], 0.5)
    assert (measuring.minutes([training]), training.minutes()) == (0.5, 2.0)
    training.mark([], 2.0)
    assert measuring.minutes([training]) is None
    assert measuring.minutes([CostStep(study, folder)]) == 0.5  # neither was done


def test_a_step_that_scores_works_in_its_own_process_and_goes_on_with_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(crew: object) -> None:
        raise AssertionError("a step has its share of the machine already")

    monkeypatch.setattr("anydepth.bulk.local_crew.LocalCrew._start", start)
    monkeypatch.chdir(SAMPLES)  # where the run finds its text
    folder = StudyFolder(tmp_path)
    shutil.copytree(SAMPLES / "runs" / "aligned", folder.run("aligned"))
    step, said = ScoreStep(small_study("seq-bleu"), folder, "aligned"), list[str]()
    before = load_scores(step.result).train
    step.perform(say=said.append)
    after = load_scores(step.result).train
    assert len(before) == 50 < len(after), "else this shows little"
    assert after.scores_of(before.pairs.tolist())[0].equal(before.scores.t())
    assert said[0].startswith("50 training and ") and said[0].endswith("are scored already; going on with the rest")
