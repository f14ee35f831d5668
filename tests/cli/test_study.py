"""`anydepth study`: the plan, the refusals, and what a study writes and goes on with."""

import json
import os
import shutil
from pathlib import Path

import pytest
from cli.commands import Outcome, anydepth, assert_refused, contents, done
from cli.conftest import write_text_pairs
from cli.studies import do_in_this_process, plan_study

from anydepth.experiments import wishes as wishing
from anydepth.experiments.definition import load_study
from anydepth.experiments.places import LocalPlace
from anydepth.experiments.records import (
    PlanRecord,
    PositionsRecord,
    RunRecord,
    ScoresRecord,
    StoredRecord,
    TrendsRecord,
    read_record,
)
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.training_runs import is_of, train_variant
from anydepth.experiments.variants import variant_config
from anydepth.files.locks import one_writer
from anydepth.model.checkpoint import load_tensors, save_tensors
from anydepth.runs.run import Run
from anydepth.text.prepared import PreparedData


@pytest.fixture(scope="module")
def whole(study_data: Path, study_settings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that was done without a pause; tests only read it."""
    folder = tmp_path_factory.mktemp("whole") / "study"
    plan_study(folder, study_data, study_settings, "figures6-9")
    do_in_this_process(folder)
    return folder


def test_a_finished_study_does_nothing_but_say_so(whole: Path, study_data: Path, study_settings: Path) -> None:
    before = contents(whole)
    outcome = done("study", "figures6-9", "--data", study_data, "--to", whole, "--config", study_settings)
    assert "2 runs, 0 of them to train" in outcome.err
    assert {name: data for name, data in contents(whole).items() if name != ".lock"} == before


def test_a_dry_run_prints_the_plan_with_its_commands_and_writes_nothing(
    study_data: Path, study_settings: Path, tmp_path: Path
) -> None:
    outcome = done(
        "study", "table1", "--data", study_data, "--to", tmp_path / "study", "--config", study_settings, "--dry-run"
    )
    assert [outcome.out.count(f"train {name} ") for name in ("aligned", "mixed-3", "baseline-3", "mixed-6")] == [
        1,
        1,
        1,
        0,
    ]
    assert outcome.out.count(f"anydepth train {tmp_path / 'study' / 'config.toml'} --data {study_data} ") == 6
    assert "'model.exits=\"last\"'" in outcome.out
    assert "runs, 6 of them to train" in outcome.err
    assert not (tmp_path / "study").exists()


def test_minutes_a_run_become_updates_that_stay_the_same_for_all(
    study_data: Path, study_settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wishing, "update_seconds", lambda configs, data, *, rounds, updates: [[0.1, 0.2, 0.3]])
    wishes = wishing.StudyWishes(
        names=["table1"], data=study_data, to=tmp_path / "study", config=study_settings, minutes_per_run=1.5
    )
    study = wishing.planned_study(wishes, StudyFolder(tmp_path / "study"), LocalPlace.of(None))[0]
    assert study.config.training.updates == 90 / 0.2
    configs = [variant_config(variant, study.config, study.second_stage) for variant in study.variants()]
    assert {config.training.updates for config in configs} == {study.config.training.updates}


def test_a_study_goes_on_with_further_experiments_but_not_with_other_settings(
    whole: Path, study_data: Path, study_settings: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(whole, tmp_path / "study")
    more = ["study", "table1", "--data", study_data, "--to", folder, "--config", study_settings]
    outcome = done(*more, "--dry-run")
    assert "7 runs, 5 of them to train" in outcome.err
    assert "14 runs, 12 of them to train" in done(*more, "--dry-run", "--seeds", 2).err
    note = folder / "study.json"
    note.write_text(
        note.read_text(encoding="utf-8").replace('"seeds": [\n  1\n ]', '"seeds": [\n  1,\n  2\n ]'), "utf-8"
    )
    assert_refused(anydepth(*more), "has 2 seeds already", "--seeds 2 or more")


def test_bad_wishes_are_refused_before_anything_is_written(
    data: Path, study_data: Path, study_settings: Path, tmp_path: Path
) -> None:
    to, plain = ["--to", tmp_path / "study"], ["--data", study_data, "--config", study_settings]
    assert_refused(anydepth("study", "table9", *plain, *to), "no study 'table9'", "choose from table1")
    assert_refused(
        anydepth("study", "table1", "--data", data, "--config", study_settings, *to), "has no test set", "--test PREFIX"
    )
    for text, word in (
        ('[model]\nexits = "last"\n', "leave out model.exits = 'last'"),
        ("[training]\npatience = 2\n", "leave out training.patience = 2"),
        ('[training]\nexit_weights = "n"\n', "leave out training.exit_weights = 'n'"),
        ("[training]\ngradient_ratio = 0.5\n", "leave out training.gradient_ratio = 0.5"),
        ("[model]\nblocks = 1\n", "model.blocks = 1 leaves no exit to choose"),
    ):
        own = tmp_path / "own.toml"
        own.write_text(text, encoding="utf-8")
        assert_refused(anydepth("study", "table1", "--data", study_data, "--config", own, *to), "own.toml", word)
    own.write_text("updates = 5\n", encoding="utf-8")
    assert_refused(
        anydepth("study", "table1", *plain, "--exit-config", own, *to), "updates stands outside of a section"
    )
    own.write_text("[training]\nupdate = 5\n", encoding="utf-8")
    assert_refused(
        anydepth("study", "table1", *plain, "--exit-config", own, *to),
        f"error: {own}: there is no setting training.update",
    )
    assert_refused(
        anydepth("study", "table1", "--data", study_data, "--config", tmp_path / "none.toml", *to),
        "no configuration at",
    )
    assert not (tmp_path / "study").exists()
    assert_refused(anydepth("study", "table1", *plain, "--to", tmp_path), "exists and is no study")
    assert_refused(anydepth("study-step", tmp_path / "study", "compare"), "study.json cannot be read")


def test_a_run_at_the_place_of_another_variant_is_refused(
    whole: Path, study_data: Path, study_settings: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "study"
    plan_study(folder, study_data, study_settings, "table1")
    shutil.copytree(whole / "runs" / "aligned", folder / "runs" / "baseline-1")
    assert_refused(
        anydepth("study-step", folder, "train baseline-1"), "was made with other settings than the study's", "remove it"
    )
    assert not (folder / "steps" / "train-baseline-1.json").exists()


def test_a_step_that_is_not_in_the_plan_is_refused(whole: Path) -> None:
    assert_refused(anydepth("study-step", whole, "train nothing"), "has no step 'train nothing'")


def test_the_records_of_a_run_tell_what_made_them(whole: Path) -> None:
    record = json.loads((whole / "records" / "runs" / "tok-ll-geometric-l0.05.json").read_text(encoding="utf-8"))
    assert record["settings"] == {
        "exits.halting": "geometric", "exits.oracle": "likelihood", "exits.exit_penalty": 0.05,
        "exits.kernel_width": 0.0,
    }  # fmt: skip
    assert (record["origin"], record["role"], record["updates"]) == ("aligned", "halting", 15)
    kinds = {(row["split"], row["kind"]) for row in record["measurements"]}
    assert kinds == {("valid", "default"), ("test", "default"), ("test", "tuned")}
    assert all(row["low"] <= row["bleu"] <= row["high"] for row in record["measurements"])


def test_a_study_writes_every_value_that_its_records_have_a_field_for(whole: Path) -> None:
    folder = StudyFolder(whole)
    plan = read_record(folder.study_file, PlanRecord)
    runs = [read_record(file, RunRecord) for file in folder.run_records()]
    written: list[StoredRecord] = [
        *(plan, plan.data, plan.machine, *plan.steps),
        *runs,
        *(row for run in runs for row in run.measurements),
        *read_record(folder.trends_file, TrendsRecord).trends,
        *read_record(folder.positions_file, PositionsRecord).models,
        *read_record(folder.scores_file, ScoresRecord).models,
    ]
    for record in written:
        assert record.model_fields_set == set(type(record).model_fields)


def test_a_study_that_another_process_is_at_is_left_alone(whole: Path, study_data: Path, study_settings: Path) -> None:
    with one_writer(whole):
        outcome = anydepth("study", "figures6-9", "--data", study_data, "--to", whole, "--config", study_settings)
    assert outcome.code == 2
    assert (
        f"another anydepth command is writing to {whole} (process {os.getpid()} since " in outcome.err.splitlines()[-1]
    )


def test_a_kill_before_the_study_was_written_down_does_not_bar_its_place(
    study_data: Path, study_settings: Path, tmp_path: Path
) -> None:
    (tmp_path / "study" / "steps").mkdir(parents=True)
    (tmp_path / "study" / "config.toml").write_text("", encoding="utf-8")
    outcome = done(
        "study", "table1", "--data", study_data, "--to", tmp_path / "study", "--config", study_settings, "--dry-run"
    )
    assert "6 runs, 6 of them to train" in outcome.err


def test_a_study_whose_text_has_moved_goes_on_with_it(
    whole: Path, study_data: Path, study_settings: Path, tmp_path: Path
) -> None:
    folder, moved = shutil.copytree(whole, tmp_path / "study"), shutil.copytree(study_data, tmp_path / "elsewhere")
    done("study", "figures6-9", "--data", moved, "--to", folder, "--config", study_settings)
    assert load_study(StudyFolder(folder)).data.folder == str(moved)


def test_a_second_stage_whose_origin_was_trained_again_starts_again(
    whole: Path, study_data: Path, tmp_path: Path
) -> None:
    folder = StudyFolder(shutil.copytree(whole, tmp_path / "study"))
    study, run, origin = load_study(folder), Run(folder.run("tok-ll-geometric-l0.05")), Run(folder.run("aligned"))
    data = PreparedData.open(study_data)
    assert is_of(run, data, origin)
    shutil.copy(run.weights_file, origin.weights_file)
    origin.seal.make()
    assert not is_of(run, data, origin)
    before = run.start_file.read_bytes()
    tensors = load_tensors(whole / "runs" / "aligned" / "model.safetensors")[0]
    save_tensors(origin.weights_file, {name: tensor + 0.01 for name, tensor in tensors.items()})
    variant = next(variant for variant in study.variants() if variant.run == run.folder.name)
    train_variant(study, folder, variant)
    assert is_of(run, data, origin)
    assert run.start_file.read_bytes() != before


def refused_study(folder: Path, text: dict[str, Path], settings: Path) -> Outcome:
    """The outcome of a study of these splits."""
    splits = [word for split, prefix in text.items() for word in (f"--{split}", prefix)]
    done("prepare", "--source-lang", "de", "--target-lang", "en", *splits, "--vocab-size", 310, "--to", folder / "data")
    return anydepth("study", "table1", "--data", folder / "data", "--to", folder / "study", "--config", settings)


def test_held_out_text_that_was_trained_on_is_refused_before_anything_is_trained(
    text: Path, study_settings: Path, tmp_path: Path
) -> None:
    write_text_pairs(tmp_path, "valid", 9, shortest=5)
    write_text_pairs(tmp_path, "test", 12, shortest=5)
    train = text / "train"
    for split, kind, why in (
        ("valid", "validation", "thresholds are tuned on them"),
        ("test", "test", "figures are measured on them"),
    ):
        splits = {"train": train, "valid": tmp_path / "valid", "test": tmp_path / "test", split: train}
        outcome = refused_study(tmp_path / split, splits, study_settings)
        told = f"60 of the 60 {kind} pairs of {tmp_path / split / 'data'} are in its training text"
        assert_refused(
            outcome, told, f"(the first is {tmp_path / split / 'data' / split}.de line 1), and {why}", "held-out text"
        )
        assert not (tmp_path / split / "study").exists()


def test_test_text_that_thresholds_would_be_tuned_on_is_refused(
    text: Path, study_settings: Path, tmp_path: Path
) -> None:
    for split, count in (("valid", 9), ("new", 5)):
        write_text_pairs(tmp_path, split, count, shortest=5)
    for language in ("de", "en"):
        own, other = ((tmp_path / f"{split}.{language}").read_text(encoding="utf-8") for split in ("new", "valid"))
        (tmp_path / f"test.{language}").write_text(own + other, encoding="utf-8")
    splits = {"train": text / "train", "valid": tmp_path / "valid", "test": tmp_path / "test"}
    told = f"9 of the 14 test pairs of {tmp_path / 'part' / 'data'} are in its validation text"
    first = f"(the first is {tmp_path / 'part' / 'data' / 'test'}.de line 6), and thresholds are tuned on these"
    assert_refused(refused_study(tmp_path / "part", splits, study_settings), told, first, "held-out text")
    same = refused_study(tmp_path / "same", splits | {"test": tmp_path / "valid"}, study_settings)
    assert_refused(
        same,
        f"the validation and the test text of {tmp_path / 'same' / 'data'} are the same",
        "test.de line 1",
        "two texts",
    )
