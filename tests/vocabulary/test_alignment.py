"""Lexical tables are those of the textbook's loops, whatever is looked at together."""

import random

import numpy as np
import pytest
from reference import ibm_model_1
from tiny import SOURCE_VOCAB, TARGET_VOCAB, tiny_pairs

from anydepth.errors import CorpusError
from anydepth.messages.say import say_nothing
from anydepth.text.tokens import TokenPairs, TokenSide
from anydepth.vocabulary import alignment
from anydepth.vocabulary.alignment import Meetings, Translations, draw_pairs, learn_translations

PAIRS = tiny_pairs(17)
ALL = np.arange(17)


def meetings_of(pairs: TokenPairs = PAIRS, numbers: np.ndarray = ALL) -> Meetings:
    return Meetings.of(pairs, numbers, source_vocab=SOURCE_VOCAB, target_vocab=TARGET_VOCAB)


def learned(rounds: int = 3, **limits: int) -> Translations:
    return learn_translations(meetings_of(), rounds=rounds, say=say_nothing, **limits)


def rows_of(found: Translations) -> list[dict[int, float]]:
    return [
        dict(zip(found.words[low:high].tolist(), found.probabilities[low:high].tolist(), strict=True))
        for low, high in zip(found.starts, found.starts[1:], strict=False)
    ]


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_probabilities_are_those_of_the_textbook(rounds: int) -> None:
    sentences = [(PAIRS.source(number).tolist(), PAIRS.target(number).tolist()) for number in range(17)]
    expected = ibm_model_1(sentences, rounds)
    rows = rows_of(learned(rounds))
    assert len(rows) == SOURCE_VOCAB + 1
    for piece, row in enumerate(rows):
        own = expected.get(-1 if piece == SOURCE_VOCAB else piece, {})
        assert row == pytest.approx({word: share for word, share in own.items() if share > 0}, rel=1e-9)


def test_translations_come_in_the_order_of_their_probabilities_and_of_equal_ones_the_lower_first() -> None:
    found = learned(1)
    for low, high in zip(found.starts, found.starts[1:], strict=False):
        order = list(zip((-found.probabilities[low:high]).tolist(), found.words[low:high].tolist(), strict=True))
        assert order == sorted(order)


def test_how_much_is_looked_at_together_changes_nothing() -> None:
    whole = learned()
    for limits in ({"most": 1}, {"most": 7}):
        parts = learned(**limits)
        assert np.array_equal(whole.starts, parts.starts) and np.array_equal(whole.words, parts.words)
        assert np.array_equal(whole.probabilities, parts.probabilities)
    blocks = learned(cells=3 * TARGET_VOCAB, most=5)
    assert np.array_equal(whole.words, blocks.words)
    assert np.allclose(whole.probabilities, blocks.probabilities, rtol=1e-12)


def test_a_round_hands_on_the_best_translations_alone() -> None:
    kept = learned(1, kept=2)
    assert np.diff(kept.starts).max() == 2
    for short, long in zip(rows_of(kept), rows_of(learned(1)), strict=True):
        assert list(short.items()) == list(long.items())[:2]
    assert np.isfinite(learned(4, kept=1).probabilities).all(), "a target whose translations are all gone divides by 0"


def test_a_word_for_word_language_is_learned() -> None:
    randomness = random.Random(5)
    sources = [randomness.sample(range(4, SOURCE_VOCAB), k=4) for _ in range(300)]
    targets = [[piece + 3 for piece in reversed(source)] for source in sources]
    pairs = TokenPairs(TokenSide.from_sentences(sources), TokenSide.from_sentences(targets))
    found = learn_translations(meetings_of(pairs, np.arange(300)), rounds=5, say=say_nothing)
    for piece in range(4, SOURCE_VOCAB):
        assert found.words[found.starts[piece]] == piece + 3


def test_pairs_are_drawn_by_the_seed_and_in_order() -> None:
    drawn = draw_pairs(PAIRS, most=6, seed=3)
    assert np.array_equal(drawn, draw_pairs(PAIRS, most=6, seed=3))
    assert not np.array_equal(drawn, draw_pairs(PAIRS, most=6, seed=4))
    assert len(drawn) == 6 and (np.diff(drawn) > 0).all()
    assert np.array_equal(draw_pairs(PAIRS, most=17, seed=3), ALL)


def test_long_sentences_leave_room_for_fewer_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment, "MOST_MEETINGS", 30)
    for most in (17, 6):
        drawn = draw_pairs(PAIRS, most=most, seed=3)
        assert 1 <= len(drawn) < most
        assert meetings_of(numbers=drawn).count <= 30
    monkeypatch.setattr(alignment, "MOST_MEETINGS", 0)
    assert len(draw_pairs(PAIRS, most=6, seed=3)) == 1


def test_no_pairs_are_refused() -> None:
    nothing = TokenPairs(TokenSide.from_sentences([]), TokenSide.from_sentences([]))
    with pytest.raises(CorpusError, match=r"there are 0 pairs to learn a lexical table from; prepare data"):
        draw_pairs(nothing, most=5, seed=1)
