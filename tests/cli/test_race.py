"""`anydepth study race`: from the text to the page, with what is done staying done."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from cli.commands import done
from cli.studies import do_in_this_process, plan_study

from anydepth.evaluation.measure import measure
from anydepth.evaluation.significance import corpus_bleu
from anydepth.experiments import race, race_preparation
from anydepth.experiments.definition import load_study
from anydepth.experiments.execution import Execution
from anydepth.experiments.measuring import load_statistics
from anydepth.experiments.places import LocalPlace
from anydepth.experiments.plan import make_plan
from anydepth.experiments.race_records import ContestantRecord, HeatRecord, RaceRecord
from anydepth.experiments.records import RunRecord, StoredRecord, read_record
from anydepth.experiments.study_folder import StudyFolder
from anydepth.inference.translator import Translator
from anydepth.runs.checked_vocabulary import load_checked
from anydepth.runs.operating_points import load_points
from anydepth.runs.run import Run
from anydepth.search.decoding import DecodingOptions
from anydepth.text.prepared import PreparedData

pytestmark = pytest.mark.soak  # trains seven models


@pytest.fixture(scope="module")
def raced(study_data: Path, study_settings: Path, tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    """A race of tiny models with its page; tests only read it."""
    folder = tmp_path_factory.mktemp("raced") / "study"
    settings = folder.parent / "short.toml"
    text = study_settings.read_text(encoding="utf-8")
    for old, new in (("updates = 60", "updates = 12"), ("save_every = 5", "save_every = 1000")):
        assert old in text
        text = text.replace(old, new)
    settings.write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(race, "ROUNDS", 2)
        patch.setattr(race, "TIMED", 3)
        # by depth, which is the same each time; models as small as these save no time
        fewer = replace(race_preparation.TUNING, objective="average-exit", candidates=40, segment=0.25)
        patch.setattr(race_preparation, "TUNING", fewer)
        plan_study(folder, study_data, settings, "race")
        do_in_this_process(folder)
    done("report", folder)
    return StudyFolder(folder)


@pytest.fixture(scope="module")
def heat(raced: StudyFolder) -> HeatRecord:
    """All contestants in float32 with a beam of 2."""
    return read_record(raced.heat_record("fp32-beam-2"), HeatRecord)


def of_kind(heat: HeatRecord, *kinds: str, system: str | None = None) -> list[ContestantRecord]:
    return [each for each in heat.contestants if each.kind in kinds and each.system == (system or heat.engine)]


def test_everybody_learned_from_the_text_and_then_from_its_translations(raced: StudyFolder, study_data: Path) -> None:
    own, translated, both = map(PreparedData.open, (study_data, raced.distilled / "text", raced.distilled / "both"))
    pairs, alone = both.pairs("train"), own.pairs("train")
    assert len(pairs) == len(alone) + len(translated.pairs("train")) > len(alone) > 0
    for data, start in ((own, 0), (translated, len(alone))):
        of_data = data.pairs("train")
        for number in range(len(of_data)):
            assert pairs.source(start + number).tolist() == of_data.source(number).tolist()
            assert pairs.target(start + number).tolist() == of_data.target(number).tolist()
    assert both.references("test") == own.references("test")
    runs = ["race-adaptive", "race-plain-1", "race-plain-2", "race-deep-encoder"]
    assert {Run(raced.run(run)).data_note()["fingerprint"] for run in runs} == {both.fingerprint}


def test_every_exit_every_point_and_every_rival_takes_part(raced: StudyFolder, heat: HeatRecord) -> None:
    assert [each.policy for each in of_kind(heat, "fixed")] == ["fixed:1", "fixed:2", "fixed:3"]
    sets = load_points(Run(raced.run("race-adaptive")), blocks=3)
    assert [each.policy for each in sets] == ["confidence", "margin"]
    tuned = {point.policy for each in sets for point in each.points if not point.policy.startswith("fixed:")}
    assert {each.policy for each in of_kind(heat, "tuned")} <= tuned
    assert of_kind(heat, "tuned"), "else nothing is compared with the fixed exits"
    rivals = {"race-plain-1": 1, "race-plain-2": 2, "race-deep-encoder": 1}
    assert {each.run: each.blocks for each in of_kind(heat, "plain", "deep encoder")} == rivals
    by_ctranslate2 = [each for each in heat.contestants if each.system == "ctranslate2"]
    assert {each.run: each.blocks for each in by_ctranslate2} in ({}, rivals), "it cannot run the adaptive model"


def test_the_bleu_of_a_contestant_is_that_of_a_plain_measurement_with_the_words_it_had(
    raced: StudyFolder, heat: HeatRecord, study_data: Path
) -> None:
    data = PreparedData.open(study_data)
    assert len({each.bleu for each in heat.contestants}) > 2, "else this shows little"
    for each in [*of_kind(heat, "fixed"), *of_kind(heat, "plain")[:1], *of_kind(heat, "tuned")[:2]]:
        translator = Translator.load(raced.run(each.run))
        decoding = DecodingOptions(beam=2, vocabulary=each.vocabulary)
        for split, bleu in (("valid", each.valid_bleu), ("test", each.bleu)):
            figures, _ = measure(translator, *data.references(split), translator.policy(each.policy), decoding)
            assert math.isclose(figures.scores.bleu.value, bleu, abs_tol=1e-4)
        assert math.isclose(figures.average_exit, each.average_exit, abs_tol=1e-4)
        assert each.words is not None
        assert math.isclose(figures.words, each.words, abs_tol=0.1)


def test_a_contestant_has_the_words_that_the_check_of_its_run_chose(raced: StudyFolder, heat: HeatRecord) -> None:
    chosen = json.loads(raced.common_words_file.read_text(encoding="utf-8"))["vocabulary"]
    for each in of_kind(heat, "fixed", "tuned", "plain", "deep encoder"):
        found = load_checked(Run(raced.run(each.run)))
        assert found is not None
        assert found.chosen == each.vocabulary == chosen


def test_what_a_point_has_in_common_with_full_depth_is_bleu_against_what_that_says(
    raced: StudyFolder, heat: HeatRecord, study_data: Path
) -> None:
    for each in heat.contestants:
        assert (each.valid_agreement is not None) == (each.kind in ("fixed", "tuned"))
    translator = Translator.load(raced.run("race-adaptive"))
    sources, references = PreparedData.open(study_data).references("valid")
    decoding = DecodingOptions(beam=2)
    _, full = measure(translator, sources, references, translator.policy("fixed:3"), decoding)
    for each in of_kind(heat, "fixed", "tuned"):
        said = [one.text for one in full]
        figures, _ = measure(translator, sources, said, translator.policy(each.policy), decoding)
        assert each.valid_agreement is not None
        assert math.isclose(figures.scores.bleu.value, each.valid_agreement, abs_tol=1e-4)


def test_points_are_judged_by_full_depth(raced: StudyFolder) -> None:
    assert {each.judge for each in load_points(Run(raced.run("race-adaptive")), blocks=3)} == {"full-depth"}


def test_the_statistics_of_a_heat_are_of_its_contestants_sentences(raced: StudyFolder, heat: HeatRecord) -> None:
    statistics = load_statistics(raced, "race-fp32-beam-2")
    assert set(statistics) == {each.key for each in heat.contestants}
    for each in heat.contestants:
        assert len(statistics[each.key]) == heat.sentences
        assert math.isclose(corpus_bleu(statistics[each.key][:, :10]), each.bleu, abs_tol=1e-4)


def test_the_records_have_every_value_that_there_is_a_field_for(raced: StudyFolder, heat: HeatRecord) -> None:
    found = read_record(raced.race_file, RaceRecord)
    written: list[StoredRecord] = [found, *heat.contestants, *(lap for each in heat.contestants for lap in each.laps)]
    for record in written:
        assert record.model_fields_set == set(type(record).model_fields)
    assert len(found.equals) == 2 * len([file for file in raced.heat_records() if contestants(file)])
    assert {(gain.kind, gain.depth) for gain in found.gains} == {("fixed", 2), ("plain", 2)}
    runs = {read_record(file, RunRecord).run for file in raced.run_records()}
    assert runs == {"baseline-3", "race-start", "race-adaptive", "race-plain-1", "race-plain-2", "race-deep-encoder"}


def contestants(file: Path) -> list[ContestantRecord]:
    return read_record(file, HeatRecord).contestants


def left(path: Path) -> list[str]:
    """The steps that the same command would do."""
    place = StudyFolder(path)
    study = load_study(place)
    steps = make_plan(study, place)
    execution = Execution(study, place, steps, place=LocalPlace.of(1), say=lambda line: None)
    return [step.name for step in steps if step.name not in execution.progress.done]


def test_what_is_done_stays_done_and_what_is_gone_is_done_again_with_what_needs_it(
    raced: StudyFolder, tmp_path: Path
) -> None:
    folder = shutil.copytree(raced.path, tmp_path / "study")
    assert left(folder) == []
    (folder / "records" / "race" / "int8-beam-1.json").unlink()
    assert left(folder) == ["race int8 beam 1", "compare"]
    (folder / "steps" / "choose-words-race-plain-1.json").unlink()
    heats = [f"race {precision} beam {beam}" for beam in (1, 2) for precision in ("fp32", "int8")]
    tuning = ["agree on words", "tune race-adaptive"]
    assert left(folder) == ["choose words race-plain-1", *tuning, *heats, "compare"]


def test_the_page_has_the_picture_and_both_tables(raced: StudyFolder) -> None:
    page = (raced.path / "report.md").read_text(encoding="utf-8")
    assert (raced.path / "pictures" / "race.svg").stat().st_size > 5000
    for words in ("The time for the BLEU of full depth", "BLEU in no more time than a fixed exit", "fp32, beam 2"):
        assert words in page
    assert "Missing" not in page
    steps = json.loads(raced.study_file.read_text(encoding="utf-8"))["steps"]
    assert {step["state"] for step in steps} == {"done"}
