"""Plain text: what stands between sentences comes back as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anydepth.server.passages import cut_plain_text


def fits_ten_words(sentence: str) -> bool:
    return len(sentence.split()) <= 10


@given(
    st.text(alphabet=st.sampled_from("ab. !?\n\r\t\u3000ßz.B1Ä\U0001f600")), st.sampled_from(["de", "en", "xx", "ja"])
)
def test_nothing_is_lost_when_every_sentence_stays(text: str, language: str) -> None:
    cut = cut_plain_text(text, language, fits_ten_words)
    assert cut.rebuilt(cut.sentences) == text
    assert all(sentence and sentence == sentence.strip() for sentence in cut.sentences)
    assert not any("\n" in sentence or "\r" in sentence for sentence in cut.sentences)


def test_abbreviations_and_ordinals_end_no_sentence() -> None:
    text = "Dr. Müller kam am 3. Mai.  Er blieb z.B. lange!\n\n\tDann ging er."
    cut = cut_plain_text(text, "de", fits_ten_words)
    assert cut.sentences == ["Dr. Müller kam am 3. Mai.", "Er blieb z.B. lange!", "Dann ging er."]
    assert cut.rebuilt(["A.", "B!", "C."]) == "A.  B!\n\n\tC."


@pytest.mark.parametrize("text", ["", " ", "\n", " \r\n\t "])
def test_a_text_of_spaces_has_no_sentence_and_stays(text: str) -> None:
    cut = cut_plain_text(text, "de", fits_ten_words)
    assert (cut.sentences, cut.rebuilt([])) == ([], text)


def test_a_sentence_that_does_not_fit_is_cut_at_spaces() -> None:
    text = "  ".join(f"w{number}" for number in range(35))
    cut = cut_plain_text(text, "de", fits_ten_words)
    assert len(cut.sentences) >= 4
    assert all(map(fits_ten_words, cut.sentences))
    assert cut.rebuilt(cut.sentences) == text


def test_a_word_that_does_not_fit_is_cut_anywhere() -> None:
    cut = cut_plain_text("a" * 100, "de", lambda sentence: len(sentence) <= 30)
    assert all(len(sentence) <= 30 for sentence in cut.sentences)
    assert "".join(cut.sentences) == "a" * 100
