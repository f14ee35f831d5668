import random
from pathlib import Path

import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anydepth.errors import CorpusError
from anydepth.text.tokenizer import BOS, EOS, PAD, UNK, WORD_START, Tokenizer, draw_lines, train_tokenizer

WORDS = [
    "der",
    "hund",
    "läuft",
    "schnell",
    "größer",
    "und",
    "die",
    "katze",
    "<s>",
    "</s>",
    "schläft",
    ".",
    "naïve",
    "<0x41>",
]
HARD_TEXTS = [
    "", " ", "   ", " a", "a ", "a  b", "\n", "a\nb\r\n", "\t", "\0", "a\0b", WORD_START,
    f"{WORD_START} {WORD_START}{WORD_START}a",
    "<s>", "</s> <pad><unk>", "<0x41>", "\u2585", "\u2047", " \u2047 ", "\u2028\x0b\x85", "\ufeff", "\ufffd",
    "\U0010ffff", "日本語", "🙂",
]  # fmt: skip


def word_lines(count: int) -> list[str]:
    randomness = random.Random(3)
    return [" ".join(randomness.choices(WORDS, k=randomness.randint(1, 9))) for _ in range(count)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(word_lines(400), vocab_size=320)


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_hard_texts_come_back_exactly(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])) | st.text(st.sampled_from(f" {WORD_START}\n\ta<s>/é0x")))
@example("der hund")
def test_every_string_comes_back_exactly_and_never_holds_control_ids(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert not {PAD, BOS, EOS, UNK} & set(ids)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(HARD_TEXTS) | st.text(st.characters(exclude_categories=["Cs"])), max_size=12))
def test_lines_together_are_encoded_as_each_alone(tokenizer: Tokenizer, lines: list[str]) -> None:
    assert tokenizer.encode_lines(lines) == [tokenizer.encode(line) for line in lines]


def test_a_first_word_is_the_same_piece_as_a_later_one(tokenizer: Tokenizer) -> None:
    once, twice = tokenizer.encode("hund"), tokenizer.encode("hund hund")
    assert twice == once + once


def test_decoding_passes_over_padding_and_sentence_marks(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("der hund")
    assert tokenizer.decode([BOS, *ids, EOS, PAD, PAD]) == "der hund"


def test_pieces_are_readable_and_join_to_the_text(tokenizer: Tokenizer) -> None:
    pieces = tokenizer.pieces(tokenizer.encode("der hund 日"))
    assert "".join(pieces) == f"{WORD_START}der{WORD_START}hund{WORD_START}<0xE6><0x97><0xA5>"


def test_the_vocabulary_has_exactly_the_size_asked_for(tokenizer: Tokenizer) -> None:
    assert tokenizer.size == 320
    assert max(tokenizer.encode("schläft der hund ?")) < 320


def test_the_same_lines_and_seed_give_the_same_tokenizer(tokenizer: Tokenizer) -> None:
    assert train_tokenizer(iter(word_lines(400)), vocab_size=320).fingerprint == tokenizer.fingerprint
    assert train_tokenizer(word_lines(400), vocab_size=300).fingerprint != tokenizer.fingerprint


def test_training_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    train_tokenizer(word_lines(50), vocab_size=300)
    assert capfd.readouterr() == ("", "")


def test_hard_texts_can_be_trained_on() -> None:
    trained = train_tokenizer([*word_lines(200), *HARD_TEXTS, "long " * 4000], vocab_size=330)
    assert [trained.decode(trained.encode(text)) for text in HARD_TEXTS] == HARD_TEXTS


def test_a_word_that_sentencepiece_would_end_the_process_at_is_not_learned_from(tokenizer: Tokenizer) -> None:
    lines = ["der Hund läuft", "die Katze schläft und läuft"] * 9
    longer = [*lines, "x" * 70_000 + " Hund", "z" * 300_000]
    assert train_tokenizer(longer, vocab_size=280).pieces(range(280)) != []
    with pytest.raises(
        CorpusError, match=r"^a tokenizer needs text to learn from but no line has any; check the training files$"
    ):
        train_tokenizer(["x" * 70_000], vocab_size=280)


def test_a_saved_tokenizer_loads_as_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.model")
    assert Tokenizer.load(tmp_path / "tokenizer.model").fingerprint == tokenizer.fingerprint


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"there is no tokenizer .*absent\.model; prepare the data first"):
        Tokenizer.load(tmp_path / "absent.model")


def test_an_unreadable_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"cannot read the tokenizer .*: Is a directory; check the path"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("keep", [0, 1, 1000])
def test_a_damaged_tokenizer_is_named(tokenizer: Tokenizer, tmp_path: Path, keep: int) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(tokenizer.model_bytes[:keep])
    with pytest.raises(CorpusError, match=r"tokenizer\.model is not a tokenizer: .*; prepare the data again"):
        Tokenizer.load(path)


def test_a_model_with_other_control_ids_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("\n".join(word_lines(50)), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(text), model_prefix=str(tmp_path / "foreign"), vocab_size=40, minloglevel=2
    )
    with pytest.raises(
        CorpusError, match=r"pad, bos, eos, unk = \(-1, 1, 2, 0\) but must have \(0, 1, 2, 3\); train it with"
    ):
        Tokenizer.load(tmp_path / "foreign.model")


def test_a_vocabulary_larger_than_the_text_allows_names_the_largest() -> None:
    with pytest.raises(
        CorpusError, match=r"of 5,000 pieces is more .* largest possible is \d+; set --vocab-size to \d+ or less"
    ) as raised:
        train_tokenizer(word_lines(100), vocab_size=5000)
    largest = int(str(raised.value).split("set --vocab-size to ")[1].split()[0])
    assert train_tokenizer(word_lines(100), vocab_size=largest).size == largest


def test_a_vocabulary_too_small_for_the_characters_names_the_smallest() -> None:
    with pytest.raises(
        CorpusError, match=r"of 100 pieces cannot hold .* smallest possible is \d+; set --vocab-size to \d+"
    ) as raised:
        train_tokenizer(word_lines(100), vocab_size=100)
    smallest = int(str(raised.value).split("set --vocab-size to ")[1].split()[0])
    assert train_tokenizer(word_lines(100), vocab_size=smallest).size == smallest


@pytest.mark.parametrize("lines", [[], ["", "  ", "\t"]])
def test_a_tokenizer_cannot_learn_from_nothing(lines: list[str]) -> None:
    with pytest.raises(
        CorpusError, match=r"a tokenizer needs text to learn from but no line has any; check the training files"
    ):
        train_tokenizer(lines, vocab_size=300)


def test_other_failures_of_sentencepiece_are_passed_on() -> None:
    with pytest.raises(
        CorpusError, match=r"SentencePiece cannot learn 300 pieces from this text: .*; check the training files"
    ):
        train_tokenizer(["\u2585"], vocab_size=300)


@pytest.mark.parametrize("method", ["encode", "encode_lines"])
def test_a_lone_surrogate_is_refused_with_its_place(tokenizer: Tokenizer, method: str) -> None:
    with pytest.raises(CorpusError, match=r"a lone surrogate U\+DC80 at character 2; decode the input as UTF-8"):
        getattr(tokenizer, method)("a\udc80" if method == "encode" else ["fine", "a\udc80"])


class CountedLine(str):
    """A line that counts how many of its kind are alive."""

    alive = 0

    def __init__(self, text: str) -> None:
        type(self).alive += 1

    def __del__(self) -> None:
        type(self).alive -= 1


def test_drawing_never_holds_more_than_the_sample() -> None:
    most = 0

    def stream():
        nonlocal most
        for number in range(5000):
            most = max(most, CountedLine.alive)
            yield CountedLine(str(number))

    drawn = draw_lines(stream(), sample=100, seed=1)
    assert len(set(drawn)) == 100
    assert most <= 100 + 2


def test_drawing_keeps_all_lines_when_they_are_few_enough() -> None:
    assert draw_lines(iter("abc"), sample=3, seed=1) == ["a", "b", "c"]
    assert draw_lines(iter("abc"), sample=9, seed=1) == ["a", "b", "c"]


def test_every_line_is_drawn_with_the_same_chance() -> None:
    draws = 2000
    counts = [0] * 20
    for seed in range(draws):
        for number in draw_lines((str(number) for number in range(20)), sample=5, seed=seed):
            counts[int(number)] += 1
    expected, deviation = draws * 5 / 20, (draws * 0.25 * 0.75) ** 0.5
    assert all(abs(count - expected) < 4.5 * deviation for count in counts)
