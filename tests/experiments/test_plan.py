"""Plans: their order, their commands, and a study that is written down and read again."""

import json
import shlex
from pathlib import Path

import pytest

from anydepth.config.loading import make_config, with_changes
from anydepth.config.schema import Config
from anydepth.errors import UsageError
from anydepth.experiments.plan import (
    Places,
    Study,
    default_second_stage,
    load_study,
    make_plan,
    save_study,
    step_json,
    update_cost,
)
from anydepth.experiments.variants import EXPERIMENTS


def a_study(*experiments: str, config: Config | None = None, seeds: int = 1) -> Study:
    config = config or Config()
    about = {"data": {"vocabulary": 500}, "machine": {}, "versions": {}}
    return Study(
        experiments or tuple(EXPERIMENTS),
        config,
        "data",
        "0123",
        seeds,
        default_second_stage(config),
        "some text",
        "command",
        None,
        about,
    )


def test_no_step_needs_one_that_comes_after_it() -> None:
    seen: set[str] = set()
    for step in make_plan(a_study(seeds=2), Places(Path("study"))):
        assert set(step.needs) <= seen
        assert step.name not in seen
        seen.add(step.name)


def test_a_distilled_run_waits_for_the_text_of_the_deepest_baseline_of_its_seed() -> None:
    steps = {step.name: step for step in make_plan(a_study("rivals", seeds=2), Places(Path("study")))}
    assert steps["train rival-distilled-2.2"].needs == ("distil text.2",)
    assert (steps["distil text.2"].subject, steps["distil text.2"].needs) == ("baseline-6.2", ("train baseline-6.2",))


def test_the_bleu_oracle_s_scores_are_made_once_for_all_lambda() -> None:
    steps = make_plan(a_study("seq-bleu"), Places(Path("study")))
    assert [step.name for step in steps if step.kind == "score"] == ["score aligned"]
    assert [step.name for step in steps if "score aligned" in step.needs] == [
        f"train seq-bleu-l{penalty}" for penalty in ("0.5", "2", "8")
    ]


def test_comparing_is_the_last_step_and_needs_every_measurement() -> None:
    steps = make_plan(a_study("table1"), Places(Path("study")))
    assert steps[-1].name == "compare"
    assert set(steps[-1].needs) == {step.name for step in steps if step.kind == "measure"}


def test_the_command_of_a_run_says_all_that_it_changes() -> None:
    steps = {step.name: step for step in make_plan(a_study("figure3"), Places(Path("study")))}
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
    study, places = a_study("table1", "cost", config=make_config({"model": {"blocks": 3}}), seeds=2), Places(tmp_path)
    save_study(places, study, [step_json(step, "waiting", None, None) for step in make_plan(study, places)])
    assert load_study(places) == study


@pytest.mark.parametrize("text", ["", "{}", '{"format": 2}', "[1]"])
def test_a_damaged_study_is_refused_by_name(tmp_path: Path, text: str) -> None:
    places = Places(tmp_path)
    places.study_file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"study\.json cannot be read"):
        load_study(places)


def test_the_file_of_a_study_tells_updates_of_both_stages(tmp_path: Path) -> None:
    save_study(Places(tmp_path), a_study("table1"), [])
    values = json.loads((tmp_path / "study.json").read_text(encoding="utf-8"))
    assert (values["updates"], values["exit_updates"], values["seeds"]) == (50_000, 12_500, [1])
