"""Sizes are checked before they are believed: settings, options and policies that ask for the
impossible are refused in one line."""

import math

import pytest
from cli.commands import Outcome, anydepth
from tiny import TARGET_VOCAB, tiny_model

from anydepth.config.loading import make_config
from anydepth.errors import ConfigError, UsageError
from anydepth.exits.parsing import parse_policy
from anydepth.exits.thresholds import ThresholdExit
from anydepth.search.decoding import SearchSettings

HUGE = 10**9 + 1
COUNTS = [
    "model.blocks",
    "model.heads",
    "model.max_length",
    "model.encoder.blocks",
    "model.encoder.dim",
    "model.encoder.ffn_dim",
    "model.decoder.dim",
    "model.decoder.ffn_dim",
    "training.paths",
    "training.updates",
    "training.minutes",
    "training.batch_tokens",
    "training.accumulation",
    "training.warmup",
    "training.log_every",
    "training.save_every",
    "training.average",
    "training.patience",
    "training.left_out_in_a_row",
    "training.left_out",
    "exits.halting_units",
    "validation.every",
    "validation.sentences",
    "validation.batch_tokens",
    "decoding.beam",
    "decoding.length_offset",
    "decoding.batch_tokens",
]
NUMBERS_OF_THOUSANDS_OF_DIGITS = {
    "decimal": "9" * 5000,
    "hexadecimal": "0x" + "f" * 9000,
    "binary": "0b" + "1" * 20_000,
}
OPTIONS = {
    "translate beam": ["translate", "run", "--beam", 1_500_000_000],
    "translate best": ["translate", "run", "--best", HUGE],
    "translate batch-tokens": ["translate", "run", "--batch-tokens", HUGE],
    "tune candidates": ["tune", "run", "--valid", "valid", "--candidates", HUGE],
    "tune segment": ["tune", "run", "--valid", "valid", "--segment", "inf"],
    "tune decoded": ["tune", "run", "--valid", "valid", "--decoded", HUGE],
    "tune batch": ["tune", "run", "--valid", "valid", "--batch", HUGE],
    "tune rounds": ["tune", "run", "--valid", "valid", "--rounds", HUGE],
    "tune timed": ["tune", "run", "--valid", "valid", "--timed", HUGE],
    "tune seed": ["tune", "run", "--valid", "valid", "--seed", 2**64],
    "vocabulary pairs": ["vocabulary", "run", "--valid", "valid", "--pairs", HUGE],
    "vocabulary rounds": ["vocabulary", "run", "--valid", "valid", "--rounds", 101],
    "vocabulary frequent": ["vocabulary", "run", "--valid", "valid", "--frequent", HUGE],
    "vocabulary updates": ["vocabulary", "run", "--valid", "valid", "--updates", HUGE],
    "vocabulary minutes": ["vocabulary", "run", "--valid", "valid", "--minutes", "inf"],
    "vocabulary tolerance": ["vocabulary", "run", "--valid", "valid", "--tolerance", "nan"],
    "vocabulary seed": ["vocabulary", "run", "--valid", "valid", "--seed", 2**64],
    "prepare vocab-size": ["prepare", "--vocab-size", HUGE],
    "prepare sample": ["prepare", "--sample", 2**64],
    "prepare max-tokens": ["prepare", "--max-tokens", HUGE],
    "corpus seed": ["corpus", "--to", "corpus", "--seed", 2**64],
    "study seeds": ["study", "cost", "--data", "data", "--to", "study", "--seeds", HUGE],
    "study jobs": ["study", "cost", "--data", "data", "--to", "study", "--jobs", HUGE],
    "bench rounds": ["bench", "run", "--rounds", HUGE],
    "bench threads": ["bench", "run", "--threads", HUGE],
    "bench sentences": ["bench", "run", "--sentences", 2**64],
    "bench batch": ["bench", "run", "--batch", HUGE],
    "bench beam": ["bench", "run", "--beam", HUGE],
    "bench vocab": ["bench", "--vocab", HUGE],
    "bench source-length": ["bench", "--source-length", HUGE],
    "score-exits sentences": ["score-exits", "run", "--sentences", 2**64],
    "score-exits beam": ["score-exits", "run", "--beam", HUGE],
    "data jobs": ["data", "iwslt14", "--archive", "none", "--to", "text", "--jobs", HUGE],
    "a number of 5,000 digits": ["translate", "run", "--beam", "9" * 5000],
}


@pytest.mark.parametrize("setting", COUNTS)
def test_a_setting_beyond_any_use_is_refused_by_name_and_value(setting: str) -> None:
    with pytest.raises(
        ConfigError,
        match=rf"^--set {setting}={HUGE}: {setting} = {HUGE} cannot be used: input should be less than or equal to "
        r"\d+$",
    ):
        make_config({}, [f"{setting}={HUGE}"])


@pytest.mark.parametrize("form", NUMBERS_OF_THOUSANDS_OF_DIGITS)
def test_a_number_of_thousands_of_digits_is_refused_and_not_repeated(form: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^--set model.blocks=.{1,150}: model.blocks = .{1,150} cannot be used"
    ) as caught:
        make_config({}, [f"model.blocks={NUMBERS_OF_THOUSANDS_OF_DIGITS[form]}"])
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "value",
    ["[" * 5000 + "]" * 5000, "{a = " * 5000 + "1" + "}" * 5000, "x" * 100_000],
    ids=["lists", "tables", "text"],
)
def test_a_value_that_nests_or_goes_on_without_end_is_refused_in_one_line(value: str) -> None:
    with pytest.raises(ConfigError, match=r"^--set model.blocks=.{1,150}: model.blocks = .{1,150} cannot be used"):
        make_config({}, [f"model.blocks={value}"])


def test_a_value_of_several_lines_cannot_bring_settings_along() -> None:
    with pytest.raises(ConfigError, match=r"model.blocks = '3\\n\[training\]"):
        make_config({}, ["model.blocks=3\n[training]\nupdates = 1"])


def refused(*arguments: object) -> Outcome:
    outcome = anydepth(*arguments)
    assert outcome.code == 2, outcome.err
    assert "Traceback" not in outcome.err
    return outcome


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_beyond_any_use_is_refused_before_anything_is_read(name: str) -> None:
    outcome = refused(*OPTIONS[name])
    option = next(str(word) for word in reversed(OPTIONS[name]) if str(word).startswith("--"))
    assert f"Invalid value for '{option}'" in outcome.err


@pytest.mark.parametrize("penalty", [-1.0, 11.0, math.inf, math.nan])
def test_a_length_penalty_that_is_no_exponent_is_refused(penalty: float) -> None:
    with pytest.raises(UsageError, match=r"length_penalty = .* must lie between 0 and 10"):
        SearchSettings(length_penalty=penalty)


def test_a_beam_beyond_memory_is_refused() -> None:
    with pytest.raises(
        UsageError, match="beam = 1500000000 holds more hypotheses than memory may; set it to 1,000 or less"
    ):
        SearchSettings(beam=1_500_000_000)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("shortlist:2000000000:0.5", "no vocabulary has so many words"),
        (f"shortlist:{'9' * 5000}:0.5", "no vocabulary has so many words"),
        (f"fixed:{'9' * 5000}", "this model has exits 1 to 4"),
        (f"fixed:-{'9' * 5000}", "this model has exits 1 to 4"),
        (f"uniform:{'9' * 5000}", "the seed is a whole number of 63 bits"),
        (f"uniform:{2**63}", "the seed is a whole number of 63 bits"),
        (f"confidence:{'9' * 5000}", "the threshold inf is not between 0"),
        (f"confidence:{'0.5,' * 50_000}0.5", "50001 thresholds for a model of 4 blocks"),
    ],
    ids=[
        "shortlist",
        "shortlist of digits",
        "fixed",
        "negative",
        "uniform",
        "seed of 64 bits",
        "threshold",
        "many thresholds",
    ],
)
def test_a_policy_with_an_endless_number_is_refused(policy: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_policy(policy, tiny_model())


def test_a_shortlist_longer_than_the_vocabulary_is_the_vocabulary() -> None:
    policy, same = (parse_policy(f"shortlist:{words}:0.5", tiny_model()) for words in (1_000_000, TARGET_VOCAB))
    assert isinstance(policy, ThresholdExit)
    assert policy.family == f"shortlist:{TARGET_VOCAB}"
    assert policy.name == same.name
