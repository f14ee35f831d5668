"""Plans: their order, their commands, and a study that is written down and read again."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from experiments.studies import study_of

from anydepth.config.loading import make_config, with_changes
from anydepth.config.schema import Config
from anydepth.errors import UsageError
from anydepth.experiments.definition import Study, load_study, save_study
from anydepth.experiments.plan import make_plan
from anydepth.experiments.steps import DistilStep, MeasureStep, ScoreStep
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.update_costs import update_cost
from anydepth.experiments.variants import EXPERIMENTS

FOLDER = StudyFolder(Path("study"))
RIVALS = ("plain-1", "plain-2", "plain-3", "deep-encoder")


def a_study(*experiments: str, config: Config | None = None, seeds: int = 1, repeated: tuple[str, ...] = ()) -> Study:
    return replace(study_of(config or Config(), *(experiments or EXPERIMENTS), seeds=seeds), repeated=repeated)


def test_no_step_needs_one_that_comes_after_it() -> None:
    seen: set[str] = set()
    for step in make_plan(a_study(seeds=2), FOLDER):
        assert set(step.needs) <= seen
        assert step.name not in seen
        seen.add(step.name)


def test_a_distilled_run_waits_for_the_text_of_the_deepest_baseline_of_its_seed() -> None:
    steps = {step.name: step for step in make_plan(a_study("rivals", seeds=2), FOLDER)}
    assert steps["train rival-distilled-2.2"].needs == ("distil text.2",)
    distilling = steps["distil text.2"]
    assert isinstance(distilling, DistilStep)
    assert (distilling.teacher, distilling.needs) == ("baseline-6.2", ("train baseline-6.2",))


def test_the_bleu_oracle_s_scores_are_made_once_for_all_lambda() -> None:
    steps = make_plan(a_study("seq-bleu"), FOLDER)
    assert [step.name for step in steps if isinstance(step, ScoreStep)] == ["score aligned"]
    assert [step.name for step in steps if "score aligned" in step.needs] == [
        f"train seq-bleu-l{penalty}" for penalty in ("0.5", "2", "8")
    ]


def test_comparing_is_the_last_step_and_needs_every_measurement() -> None:
    steps = make_plan(a_study("table1"), FOLDER)
    assert steps[-1].name == "compare"
    assert set(steps[-1].needs) == {step.name for step in steps if isinstance(step, MeasureStep)}


def test_a_heat_waits_for_the_words_of_every_run_that_takes_part_and_for_the_thresholds_of_ours() -> None:
    steps = {step.name: step for step in make_plan(a_study("race", seeds=2, repeated=("race-plain-3",)), FOLDER)}
    words = {f"choose words race-{name}" for name in (*RIVALS, "adaptive", "adaptive.2", "plain-3.2")}
    assert set(steps["agree on words"].needs) == words
    assert steps["tune race-adaptive"].needs == ("agree on words",)
    first = {"agree on words", "tune race-adaptive"}
    for precision in ("fp32", "int8"):
        assert set(steps[f"race {precision} beam 1"].needs) == first | {"tune race-adaptive.2"}
        assert set(steps[f"race {precision} beam 5"].needs) == first, "a wide beam is for the first seed alone"
        assert {f"race {precision} beam {beam}" for beam in (1, 5)} <= set(steps["compare"].needs)
    assert "measure race-adaptive" not in steps


def test_a_race_of_ones_own_has_the_adaptive_model_alone_which_learns_from_the_text() -> None:
    steps = {step.name: step for step in make_plan(a_study("race-own", seeds=3), FOLDER)}
    trainings = [name.removeprefix("train ") for name in steps if name.startswith("train ")]
    assert trainings == ["race-start", "race-own", "race-own.2", "race-own.3"]
    for run in trainings[1:]:
        assert steps[f"train {run}"].needs == ("train race-start",)
        assert "--from study/runs/race-start --data data " in steps[f"train {run}"].command
    assert set(steps["race fp32 beam 1"].needs) == {"agree on words", *(f"tune {run}" for run in trainings[1:])}


def test_everybody_in_a_race_is_taught_by_one_baseline_whatever_the_seed() -> None:
    steps = {step.name: step for step in make_plan(a_study("race", seeds=3, repeated=("race-plain-3",)), FOLDER)}
    trainings = [name.removeprefix("train ") for name in steps if name.startswith("train ")]
    assert trainings == [
        *("baseline-6", "race-start", "race-adaptive"),
        *("race-plain-1", "race-plain-2", "race-plain-3", "race-deep-encoder"),
        *("race-adaptive.2", "race-plain-3.2", "race-adaptive.3", "race-plain-3.3"),
    ]
    for run in trainings[2:]:
        origin = {"race-adaptive": "race-start", "race-deep-encoder": None}.get(run.partition(".")[0], "baseline-6")
        assert steps[f"train {run}"].needs == (*([] if origin is None else [f"train {origin}"]), "join both")
        assert ("--from " in steps[f"train {run}"].command) == (origin is not None)
        assert f"--from study/runs/{origin} " in steps[f"train {run}"].command or origin is None
        assert "--data study/distilled/both " in steps[f"train {run}"].command


def test_words_and_thresholds_are_chosen_on_the_part_of_valid_that_is_written_for_it() -> None:
    steps = {step.name: step for step in make_plan(a_study("race"), FOLDER)}
    choosing = [step for name, step in steps.items() if name.startswith("choose words")]
    assert len(choosing) == 5
    assert all("hold out valid" in step.needs for step in choosing)


def test_a_beam_of_one_is_raced_once() -> None:
    config = make_config({"decoding": {"beam": 1}})
    steps = make_plan(a_study("race", config=config), FOLDER)
    assert [step.name for step in steps if step.name.startswith("race ")] == ["race fp32 beam 1", "race int8 beam 1"]


def test_the_command_of_a_run_says_all_that_it_changes() -> None:
    steps = {step.name: step for step in make_plan(a_study("figure3"), FOLDER)}
    words = shlex.split(steps["train tok-c-geometric-l0.3"].command)
    assert words[:4] == ["anydepth", "train", "--from", "study/runs/aligned"]
    assert {
        'exits.halting="geometric"',
        'exits.oracle="correctness"',
        "exits.exit_penalty=0.3",
        "training.updates=12500",
    } <= set(words)
    assert words[-2:] == ["--to", "study/runs/tok-c-geometric-l0.3"]


def test_training_costs_more_with_more_paths_and_less_with_fewer_blocks() -> None:
    config = Config()
    costs = [
        update_cost(with_changes(config, changes), 1000)
        for changes in (
            ["model.blocks=1", "model.exits=last"],
            ["model.blocks=6", "model.exits=last"],
            [],
            ["training.mode=mixed", "training.paths=6"],
        )
    ]
    assert costs == sorted(costs)
    assert len(set(costs)) == 4


def test_a_study_that_is_written_down_is_read_as_it_was(tmp_path: Path) -> None:
    study = a_study("table1", "cost", config=make_config({"model": {"blocks": 3}}), seeds=2)
    folder = StudyFolder(tmp_path)
    save_study(folder, study, [step.record("waiting", None, None) for step in make_plan(study, folder)])
    assert load_study(folder) == study


@pytest.mark.parametrize("text", ["", "{}", '{"format": 2}', "[1]"])
def test_a_damaged_study_is_refused_by_name(tmp_path: Path, text: str) -> None:
    folder = StudyFolder(tmp_path)
    folder.study_file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"study\.json cannot be read"):
        load_study(folder)


def test_the_file_of_a_study_tells_updates_of_both_stages(tmp_path: Path) -> None:
    save_study(StudyFolder(tmp_path), a_study("table1"), [])
    values = json.loads((tmp_path / "study.json").read_text(encoding="utf-8"))
    assert (values["updates"], values["exit_updates"], values["seeds"]) == (50_000, 12_500, [1])
