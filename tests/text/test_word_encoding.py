"""Lines whose words are cut one at a time are those that the tokenizer cuts whole, and models that
could tell the difference get whole lines."""

import io
import os
import random
from itertools import islice
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from text.test_tokenizer import HARD_TEXTS, word_lines

from anydepth.text import word_encoding
from anydepth.text.corpus import open_lines
from anydepth.text.tokenizer import WORD_START, Tokenizer, train_tokenizer
from anydepth.text.word_encoding import SingleWords, WholeLines, cuts_words_alone, line_encoder


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([*word_lines(400), "a  b", "   c"], vocab_size=330)


def foreign_model(**changes: object) -> bytes:
    """A SentencePiece model that is trained as ours but for these options."""
    model = io.BytesIO()
    options = {
        "model_type": "bpe",
        "vocab_size": 330,
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "add_dummy_prefix": False,
        "pad_id": 0,
        "bos_id": 1,
        "eos_id": 2,
        "unk_id": 3,
        "minloglevel": 2,
    }
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(f" {line}" for line in word_lines(400)), model_writer=model, **options | changes
    )
    return model.getvalue()


def test_words_that_are_cut_one_at_a_time_make_the_ids_of_whole_hard_lines(tokenizer: Tokenizer) -> None:
    randomness = random.Random(1)
    signs = [*f" {WORD_START}\t\r\0\u00a0\u3000\u0301é🙂<s>/0x41", "  ", "der", "hund"]
    mixed = ["".join(randomness.choices(signs, k=randomness.randint(0, 20))) for _ in range(3000)]
    lines = [*HARD_TEXTS, *word_lines(50), *mixed, "x" * 500, f"{'y' * 500} y", " ".join(HARD_TEXTS)]
    encoder = line_encoder(tokenizer, threads=1)
    assert isinstance(encoder, SingleWords)
    assert encoder.encode(lines) == encoder.encode(lines) == WholeLines(tokenizer).encode(lines)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])) | st.text(st.sampled_from(f" {WORD_START}derh"))))
def test_words_that_are_cut_one_at_a_time_make_the_ids_of_any_whole_line(
    tokenizer: Tokenizer, lines: list[str]
) -> None:
    assert SingleWords(tokenizer).encode(lines) == WholeLines(tokenizer).encode(lines)


@pytest.mark.skipif("ANYDEPTH_TEXT" not in os.environ, reason="ANYDEPTH_TEXT names no folder with real text")
def test_words_that_are_cut_one_at_a_time_make_the_ids_of_real_text() -> None:
    files = sorted(Path(os.environ["ANYDEPTH_TEXT"]).glob("train.*"))
    lines = [line for path in files for line in islice(open_lines(path), 20_000)]
    real = train_tokenizer(lines, vocab_size=4000, sample=10_000)
    assert len(lines) > 1000 and isinstance(line_encoder(real, threads=1), SingleWords)
    assert SingleWords(real).encode(lines) == WholeLines(real).encode(lines)


def test_no_more_words_are_remembered_than_there_is_room_for(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_encoding, "MOST_WORDS", 5)
    encoder = SingleWords(tokenizer)
    lines = [*word_lines(100), "long" * 30]
    assert encoder.encode(lines) == WholeLines(tokenizer).encode(lines)
    assert 0 < len(encoder._words) <= 5
    assert not any(len(word) > word_encoding.LONGEST_REMEMBERED for word in encoder._words)


def test_a_model_that_is_trained_as_ours_cuts_words_alone(tokenizer: Tokenizer) -> None:
    assert cuts_words_alone(tokenizer.model_bytes) and cuts_words_alone(foreign_model())


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "unigram", "vocab_size": 300},
        {"byte_fallback": False, "vocab_size": 60},
        {"normalization_rule_name": "nmt_nfkc"},
        {"remove_extra_whitespaces": True},
        {"add_dummy_prefix": True},
        {"user_defined_symbols": "hund und"},
        {"split_by_whitespace": False},
        {"treat_whitespace_as_suffix": True},
    ],
    ids=str,
)
def test_a_model_that_may_look_over_the_start_of_a_word_gets_whole_lines(change: dict[str, object]) -> None:
    assert not cuts_words_alone(foreign_model(**change))


@pytest.mark.parametrize("data", [b"", b"empty", b"\xff" * 40], ids=["nothing", "a word", "noise"])
def test_what_is_no_model_does_not_cut_words_alone(data: bytes) -> None:
    assert not cuts_words_alone(data)


def test_a_model_cut_short_is_never_believed_to_cut_words_alone(tokenizer: Tokenizer) -> None:
    assert not any(cuts_words_alone(tokenizer.model_bytes[:size]) for size in range(0, 4000, 37))
