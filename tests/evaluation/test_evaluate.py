"""A run on a test set: which policies are measured, what they are compared with, and what is
refused before anything is translated."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from evaluation.translators import make_run, make_translator, quiet, write_pairs
from tiny import BLOCKS

from anydepth.errors import CorpusError, UsageError
from anydepth.evaluation.evaluate import (
    EACH_EXIT,
    EvaluationSettings,
    evaluate_run,
    is_family,
    policy_names,
    wished_names,
)
from anydepth.inference.translator import Translator
from anydepth.runs.fingerprints import text_fingerprint
from anydepth.runs.operating_points import OperatingPoint, PointSet, Wish, save_points
from anydepth.runs.run import Run
from anydepth.search.decoding import GREEDY, DecodingOptions
from anydepth.text.corpus import open_lines

EVERY = [*(f"fixed:{n}" for n in range(1, BLOCKS + 1)), "uniform"]
DEEP, SHALLOW = "confidence:0.75", "shortlist:8:0.25"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of random weights with made-up points of two policies."""
    run = make_run(tmp_path_factory.mktemp("evaluate"))
    recipe = ("replay", 9, 1, 2, 1.0, "valid", "12-34", 5, 30.0)
    save_points(run, PointSet("confidence", *recipe, (OperatingPoint(DEEP, 28.0, 3.0, 0.75),)))
    save_points(run, PointSet("shortlist:8", *recipe, (OperatingPoint(SHALLOW, 27.0, 2.0, 0.5),)))
    return run


@pytest.fixture
def valid(run: Run) -> str:
    return str(run.folder.parent / "valid")


def test_each_stands_for_every_exit_and_uniform() -> None:
    translator = make_translator()
    assert policy_names([EACH_EXIT], translator) == EVERY
    assert policy_names(["uniform:3", EACH_EXIT], translator) == ["uniform:3", *EVERY]
    assert policy_names([EACH_EXIT], make_translator("model.exits=last")) == [f"fixed:{BLOCKS}"]
    assert policy_names([], translator) == [None]


@pytest.mark.parametrize(
    ("policies", "names"),
    [
        ([], [DEEP]),
        (["confidence"], [DEEP]),
        (["shortlist"], [SHALLOW]),
        (["shortlist:8", "fixed:1", "confidence"], [SHALLOW, "fixed:1", DEEP]),
        (["fixed:1"], ["fixed:1", DEEP]),
        ([EACH_EXIT], [*EVERY, DEEP]),
        (["confidence:0.5"], ["confidence:0.5", DEEP]),
        (["shortlist:8:0.5", "shortlist"], ["shortlist:8:0.5", SHALLOW]),
    ],
)
def test_a_wish_is_met_by_the_families_that_are_named_and_never_passed_over(
    run: Run, policies: list[str], names: list[str]
) -> None:
    translator = Translator.load(run.folder)
    assert wished_names(policies, translator, Wish(average_exit=3.0)) == names
    assert (
        wished_names(policies, translator, Wish())
        == wished_names(policies, translator, None)
        == policy_names(policies, translator)
    )


def with_points(run: Run, folder: Path, **recipe: Any) -> Path:
    """A copy of the run whose one point was tuned so."""
    copy = Run(shutil.copytree(run.folder, folder / "copy"))
    copy.seal.remove([copy.points_file])
    plain = {
        "method": "replay",
        "candidates": 9,
        "seed": 1,
        "beam": 2,
        "length_penalty": 1.0,
        "valid": "gone",
        "valid_fingerprint": "12-34",
    }
    known = {"sentences": 5, "full_depth_bleu": 30.0, "points": (OperatingPoint(DEEP, 28.0, 3.0, 0.75),)}
    save_points(copy, PointSet(policy="confidence", **(plain | known | recipe)))
    return copy.folder


def told(folder: Path, test: str, **options: Any) -> list[str]:
    """The warnings of an evaluation with a wish."""
    lines: list[str] = []
    settings = EvaluationSettings(wish=Wish(average_exit=3.0), decoding=DecodingOptions(**options))
    evaluate_run(folder, test, [], settings, say=lines.append)
    return [line for line in lines if line.startswith("warning: ")]


TUNED_HERE = f"warning: {DEEP} was tuned on this very text, so its BLEU here is not that of unseen text"


def test_a_point_that_was_tuned_on_the_test_text_is_told_whatever_the_texts_name(
    run: Run, valid: str, tmp_path: Path
) -> None:
    folder = with_points(run, tmp_path, valid="gone", valid_fingerprint=text_fingerprint(valid, "de", "en"))
    for language in ("de", "en"):
        shutil.copy(f"{valid}.{language}", tmp_path / f"other.{language}")
    assert told(folder, valid) == told(folder, str(tmp_path / "other")) == [TUNED_HERE]


def test_a_test_text_that_holds_pairs_of_the_tuned_text_is_told_with_their_number(
    run: Run, valid: str, tmp_path: Path
) -> None:
    folder = with_points(run, tmp_path, valid=valid)
    pairs = list(zip(*([*open_lines(Path(f"{valid}.{language}"))] for language in ("de", "en")), strict=True))
    grown = write_pairs(tmp_path / "grown", [("neu und anders", "new and other"), *pairs[:2]])
    assert told(folder, grown) == [
        f"warning: {DEEP} was tuned on {valid}, which has 2 of these 3 pairs (the first is line 2)"
    ]
    other = write_pairs(tmp_path / "other", [("neu und anders", "new and other"), (pairs[0][0], "other")])
    assert told(folder, other) == []


@pytest.mark.parametrize(
    ("tuned", "options", "words"),
    [
        ({"beam": 1}, {}, "was tuned with beam 1, length penalty 1, and is measured with beam 2"),
        ({}, {"beam": 1}, "was tuned with beam 2, length penalty 1, and is measured with beam 1"),
        (
            {},
            {"length_penalty": 0.5},
            "was tuned with beam 2, length penalty 1, and is measured with length penalty 0.5",
        ),
        (
            {"engine": "native-int8"},
            {},
            "was tuned with beam 2, length penalty 1, and is measured with 32-bit products",
        ),
        ({"engine": "torch"}, {"beam": 2, "length_penalty": 1.0}, ""),
        ({}, {}, ""),
    ],
)
def test_a_point_that_was_tuned_with_another_search_is_told(
    run: Run, valid: str, tmp_path: Path, tuned: dict[str, Any], options: dict[str, Any], words: str
) -> None:
    assert told(with_points(run, tmp_path, **tuned), valid, **options) == (
        [f"warning: {DEEP} {words}"] if words else []
    )


def test_text_and_search_are_told_in_one_line(run: Run, valid: str, tmp_path: Path) -> None:
    folder = with_points(run, tmp_path, beam=1, valid_fingerprint=text_fingerprint(valid, "de", "en"))
    assert told(folder, valid) == [
        f"{TUNED_HERE}; it was tuned with beam 1, length penalty 1, and is measured with beam 2"
    ]


def test_policies_that_nobody_wished_for_are_measured_without_a_word(run: Run, valid: str, tmp_path: Path) -> None:
    folder = with_points(run, tmp_path, beam=1, valid_fingerprint=text_fingerprint(valid, "de", "en"))
    lines: list[str] = []
    evaluate_run(folder, valid, [DEEP], EvaluationSettings(decoding=GREEDY), say=lines.append)
    assert lines == [f"translating 5 sentences with {DEEP}"]


def test_the_recipe_tells_what_was_wished_for(run: Run, valid: str) -> None:
    settings = EvaluationSettings(wish=Wish(average_exit=3.0), decoding=GREEDY)
    evaluation = evaluate_run(run.folder, valid, [], settings, say=quiet)
    assert evaluation.recipe.wish == "--average-exit 3"
    for settings in (EvaluationSettings(wish=Wish(), decoding=GREEDY), EvaluationSettings(decoding=GREEDY)):
        assert evaluate_run(run.folder, valid, ["fixed:1"], settings, say=quiet).recipe.wish is None


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        *[(name, True) for name in ("geometric", "confidence", "margin", "similarity", "shortlist", "shortlist:32")],
        *[
            (name, False)
            for name in (
                "geometric:0.5",
                "shortlist:32:0.5",
                "shortlist::0.5",
                "fixed:2",
                "uniform",
                "sequence",
                "",
                None,
            )
        ],
    ],
)
def test_a_family_has_thresholds_and_does_not_name_them(policy: str | None, expected: bool) -> None:
    assert is_family(policy) == expected


def test_options_that_are_given_are_used_and_others_come_from_the_run(run: Run, valid: str) -> None:
    settings = EvaluationSettings(decoding=DecodingOptions(beam=1, length_penalty=0.25))
    (given,) = evaluate_run(run.folder, valid, [], settings, say=quiet).results
    assert (given.beam, given.length_penalty, given.policy, given.sentences) == (1, 0.25, f"fixed:{BLOCKS}", 5)
    (own,) = evaluate_run(run.folder, valid, [], say=quiet).results
    assert (own.beam, own.length_penalty) == (2, 1.0)


def test_the_recipe_names_what_the_figures_were_compared_with(run: Run, valid: str) -> None:
    settings = EvaluationSettings(against="fixed:2", decoding=GREEDY)
    evaluation = evaluate_run(run.folder, valid, ["fixed:1"], settings, say=quiet)
    assert (evaluation.recipe.run, evaluation.recipe.test, evaluation.recipe.against) == (
        str(run.folder),
        valid,
        "fixed:2",
    )


def test_a_policy_compared_with_itself_does_not_differ(run: Run, valid: str, tmp_path: Path) -> None:
    settings = EvaluationSettings(against="fixed:2", output=tmp_path / "out", decoding=GREEDY)
    (same,) = evaluate_run(run.folder, valid, ["fixed:2"], settings, say=quiet).results
    assert same.comparison is not None
    assert (same.comparison.difference, same.comparison.p_value) == (0, 1)
    settings = EvaluationSettings(against=str(tmp_path / "out"), decoding=GREEDY)
    (file,) = evaluate_run(run.folder, valid, ["fixed:2"], settings, say=quiet).results
    assert file.comparison == same.comparison, "a file of the same lines is the same rival"


@pytest.mark.parametrize(
    ("against", "words"),
    [
        ("no.such.file", "--against no.such.file is no file, and as a policy: there is no policy 'no.such.file'"),
        ("fixed:9", "--against fixed:9 is no file, and as a policy: fixed:9: this model has exits 1 to 4"),
    ],
)
def test_a_rival_that_is_neither_file_nor_policy_is_refused_before_translating(
    run: Run, valid: str, against: str, words: str
) -> None:
    told: list[str] = []
    with pytest.raises(UsageError) as refusal:
        evaluate_run(run.folder, valid, [], EvaluationSettings(against=against), say=told.append)
    assert str(refusal.value).startswith(words)
    assert told == []


def test_a_rival_of_another_length_is_refused(run: Run, valid: str, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("one\ntwo\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"--against .*short has 2 lines, but the test set has 5 sentences"):
        evaluate_run(run.folder, valid, [], EvaluationSettings(against=str(tmp_path / "short")), say=quiet)


def test_an_empty_test_set_is_refused(run: Run, tmp_path: Path) -> None:
    for language in ("de", "en"):
        (tmp_path / f"none.{language}").write_text("", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"none.de and .*none.en are empty"):
        evaluate_run(run.folder, str(tmp_path / "none"), [], say=quiet)
