"""What the runs of a race get before it: the same choice of words for all."""

from dataclasses import replace

from anydepth.experiments.race_preparation import common_words
from anydepth.runs.checked_vocabulary import CheckedVocabulary, MeasuredVocabulary
from anydepth.vocabulary.names import FULL


def checked_with(**bleus: float) -> CheckedVocabulary:
    """A check that measured these: `table10=34.5` is BLEU with 10 words for each piece, `full` with all."""
    names = {name: name.replace("table", "table:") for name in bleus}
    words = {name: 3000.0 if name == FULL else 20 * float(name[5:]) for name in bleus}
    return CheckedVocabulary(
        weights="weights",
        chosen=None,
        tolerance=0.2,
        beam=1,
        length_penalty=1.0,
        engine="native",
        valid="valid",
        valid_fingerprint="text",
        sentences=100,
        pieces=3000,
        measured=tuple(MeasuredVocabulary(names[name], bleu, words[name], 1.0, 90) for name, bleu in bleus.items()),
    )


def test_the_fewest_words_are_taken_that_cost_the_middle_run_little() -> None:
    unlucky = checked_with(full=35.0, table10=34.6, table50=35.0)
    lucky = checked_with(full=35.0, table10=35.1, table50=34.9)
    assert common_words([unlucky]) == ("table:50", {"table:10": 0.4, "table:50": 0.0})
    assert common_words([unlucky, lucky]) == ("table:10", {"table:10": 0.15, "table:50": 0.05})
    untrained = checked_with(full=20.0, table10=25.0, table50=21.0)
    assert common_words([unlucky, unlucky, untrained])[0] == "table:50", "a mean would take table:10"


def test_where_every_choice_costs_too_much_the_one_of_most_words_is_taken() -> None:
    poor = checked_with(full=35.0, table50=34.0, table10=34.5)
    assert common_words([poor, poor])[0] == "table:50"


def test_only_settings_that_every_run_was_measured_with_are_compared() -> None:
    more = checked_with(full=35.0, table10=35.0, table50=35.0)
    fewer = replace(more, measured=(more.measured[0], more.measured[2]))
    assert common_words([more, fewer]) == ("table:50", {"table:50": 0.0})
