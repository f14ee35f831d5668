"""What cannot be tuned, or tuned on."""

import shutil
from pathlib import Path

import pytest
from evaluation.translators import make_run, make_translator, quiet, training_pairs, write_pairs
from tiny import prepare_tiny

from anydepth.errors import CorpusError, UsageError
from anydepth.runs.run import Run
from anydepth.tuning.tune import TuneSettings, tunable_family
from anydepth.tuning.valid_text import validation_text


@pytest.mark.parametrize(
    ("policy", "halting", "family"),
    [
        (None, "geometric", "geometric"),
        (None, "none", "confidence"),
        (None, "multinomial", "confidence"),
        ("geometric", "geometric", "geometric"),
        ("margin", "none", "margin"),
        ("similarity", "geometric", "similarity"),
        ("shortlist:8", "none", "shortlist:8"),
        ("shortlist", "none", "shortlist:64"),
    ],
)
def test_the_family_to_tune_is_the_one_named_or_the_one_that_the_run_has(
    policy: str | None, halting: str, family: str
) -> None:
    assert tunable_family(policy, make_translator(f"exits.halting={halting}")) == family


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("fixed:2", "fixed has no thresholds; those that have: geometric, confidence, margin, similarity, shortlist"),
        ("uniform", "uniform has no thresholds"),
        ("confidnce", "confidnce has no thresholds"),
        (
            "multinomial",
            "multinomial takes the most probable exit and has no thresholds to tune; its depth is set by "
            "exits.exit_penalty",
        ),
        ("sequence:0.5", "sequence takes the most probable exit"),
        ("confidence:0.9", "tuning finds the thresholds; name the policy alone, as in confidence"),
        ("shortlist:8:0.9,0.8,0.7", "name the policy alone, as in shortlist:8"),
        ("shortlist:x", "the shortlist is a number of words"),
        ("geometric", "was not trained with the geometric halting module (it has the multinomial module)"),
    ],
)
def test_a_policy_that_cannot_be_tuned_is_refused_with_the_reason(policy: str, words: str) -> None:
    with pytest.raises(UsageError) as refusal:
        tunable_family(policy, make_translator("exits.halting=multinomial"))
    assert words in str(refusal.value)


@pytest.mark.parametrize("change", ["model.exits=last", "model.blocks=1"])
def test_a_model_with_one_exit_has_nothing_to_tune(change: str) -> None:
    for policy in (None, "confidence"):
        with pytest.raises(UsageError, match=r"this model has one exit only, so there are no thresholds to tune"):
            tunable_family(policy, make_translator(change))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"method": "guess"}, "--method guess is unknown; use replay or decode"),
        ({"candidates": 0}, "at least one candidate"),
        ({"decoded": 0}, "one decoding a segment"),
        ({"segment": 0.0}, "segments wider than 0"),
        ({"segment": float("nan")}, "segments wider than 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        TuneSettings(**wrong)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("untrained"))


def new_pairs(count: int) -> list[tuple[str, str]]:
    """Pairs that are in no training text."""
    return [(f"neu {number}", f"new {number}") for number in range(count)]


def test_text_without_a_sentence_is_refused(untrained: Run, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"blank.de has no sentences; thresholds need some held-out text"):
        validation_text(untrained, write_pairs(tmp_path / "blank", [("", "a"), (" \t", "")]), quiet)


def test_text_that_was_trained_on_is_refused_above_one_percent_and_told_below(untrained: Run, tmp_path: Path) -> None:
    seen, told = training_pairs(untrained)[4], list[str]()
    exactly = validation_text(
        untrained, write_pairs(tmp_path / "exactly", [*new_pairs(57), seen, *new_pairs(42)]), told.append
    )
    assert (len(exactly.sources), exactly.sources[57], exactly.references[57]) == (100, *seen)
    assert len(told) == 1
    assert told[0].startswith("warning: 1 of the 100 pairs of ")
    assert told[0].endswith("are in the training text (the first is line 58)")
    with pytest.raises(
        CorpusError,
        match=r"1 of the 99 pairs of .*above are in the training text \(the first is line 58\); .*give held-out",
    ):
        validation_text(untrained, write_pairs(tmp_path / "above", [*new_pairs(57), seen, *new_pairs(41)]), told.append)


def test_other_text_has_another_fingerprint(untrained: Run, tmp_path: Path) -> None:
    def fingerprint(name: str, pairs: list[tuple[str, str]]) -> str:
        return validation_text(untrained, write_pairs(tmp_path / name, pairs), quiet).fingerprint

    one, other_target, other_source = [("neu", "new")], [("neu", "news")], [("neue", "new")]
    assert fingerprint("a", one) == fingerprint("b", one)
    assert len({fingerprint("a", pairs) for pairs in (one, other_target, other_source)}) == 3


@pytest.mark.parametrize("change", ["gone", "emptied", "other"])
def test_without_its_training_text_nothing_is_looked_at_and_that_is_told(tmp_path: Path, change: str) -> None:
    run = make_run(tmp_path)
    data, pairs = run.folder.parent / "data", training_pairs(run)
    shutil.rmtree(data)
    if change == "emptied":
        data.mkdir()
    if change == "other":
        prepare_tiny(run.folder.parent, joint=True)
    told: list[str] = []
    text = validation_text(run, write_pairs(tmp_path / "seen", pairs), told.append)
    assert text.sources == [source for source, _ in pairs]
    assert told == [
        f"warning: the training text is no longer at {data}, so whether {tmp_path / 'seen'} is part of it was "
        "not looked at"
    ]
