import sys

import pytest

from anydepth.errors import UsageError
from anydepth.text.recipes.moses import (
    Cleaning,
    PairTokenizer,
    load_sacremoses,
    lowercased,
    moses_normalizer,
    moses_tokenizer,
    printable,
)


@pytest.mark.parametrize(
    ("language", "line", "expected"),
    [
        ("en", "It's \"fine\", isn't it?", "It &apos;s &quot; fine &quot; , isn &apos;t it ?"),
        ("en", "A & B | C <d> [e]", "A &amp; B &#124; C &lt; d &gt; &#91; e &#93;"),
        ("en", "the &amp; of XML", "the &amp; amp ; of XML"),
        ("en", "About 130,000 or 2.7 a 20th-century...", "About 130,000 or 2.7 a 20th-century ..."),
        ("en", "Mr. Fox met T.G. Smith. He left", "Mr. Fox met T.G. Smith . He left"),
        ("de", "Das kostet 2,7 Mio. Euro, z.B. hier.", "Das kostet 2,7 Mio. Euro , z.B. hier ."),
        ("de", "Wie geht's?", "Wie geht &apos; s ?"),
        ("fr", "L'eau, c'est l'été.", "L&apos; eau , c&apos; est l&apos; été ."),
        ("en", "  much \t space\u00a0here ", "much space here"),
        ("en", " ", ""),
    ],
)
def test_tokens_are_those_of_moses_with_special_characters_escaped(language: str, line: str, expected: str) -> None:
    assert moses_tokenizer(language)(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("the U.S.", "the U.S ."),
        ("call Dr.", "call Dr ."),
        ("It ended etc.", "It ended etc ."),
        ("the U.S. is", "the U.S. is"),
        ("and so on...", "and so on ..."),
        ("he said '.'", "he said &apos; . &apos;"),
        (".", "."),
        ("done .", "done ."),
    ],
)
def test_the_period_of_the_last_word_is_a_token_of_its_own_as_in_the_papers_data(line: str, expected: str) -> None:
    assert moses_tokenizer("en")(line) == expected


def test_hyphens_are_split_where_that_is_asked_for() -> None:
    assert moses_tokenizer("en", split_hyphens=True)("a well-known - thing") == "a well @-@ known - thing"
    assert moses_tokenizer("en")("a well-known - thing") == "a well-known - thing"


@pytest.mark.parametrize(
    ("language", "line", "expected"),
    [
        ("en", "“Yes”, it’s 5\u00a0000 …", '"Yes," it\'s 5.000 ...'),  # noqa: RUF001
        ("fr", "«\u00a0Oui\u00a0», 5\u00a0000\u00a0%", '"Oui", 5,000%'),
        ("en", "a ( b ) c – d — e", "a (b) c - d - e"),  # noqa: RUF001
    ],
)
def test_punctuation_becomes_plain(language: str, line: str, expected: str) -> None:
    assert moses_normalizer(language)(line) == expected


def test_a_character_that_cannot_be_printed_becomes_a_space() -> None:
    assert printable("a\x00b\u200bc\ue000d\x7fe") == "a b c d e"
    assert printable("größe\u00a0und ☃ 中") == "größe\u00a0und ☃ 中"


def test_lower_case_is_that_of_single_letters() -> None:
    assert lowercased("ÄÖÜ ẞ ΟΔΟΣ &AMP;") == "äöü ß οδοσ &amp;"


def test_both_sides_of_a_pair_are_normalized_in_their_own_language() -> None:
    training = PairTokenizer(("en", "fr"), normalize=True, split_hyphens=True).make()
    assert training("It’s a\x07re-run", "l’idée\u200b«\u00a0re-run\u00a0»") == (  # noqa: RUF001
        "It &apos;s a re @-@ run",
        "l&apos; idée &quot; re @-@ run &quot;",
    )
    test = PairTokenizer(("en", "fr"), split_hyphens=True).make()
    assert test("“a”", "«b»") == ("“ a ”", "« b »")


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        (2, 3, None),
        (3, 2, None),
        (4, 6, None),
        (1, 1, None),
        (4, 7, "unbalanced"),
        (7, 4, "unbalanced"),
        (1, 2, "unbalanced"),
        (175, 175, None),
        (117, 175, None),
        (175, 176, "too long"),
        (176, 175, "too long"),
        (116, 175, "unbalanced"),
        (0, 3, "empty"),
        (3, 0, "empty"),
        (0, 0, "empty"),
    ],
)
def test_pairs_are_kept_up_to_175_words_and_a_ratio_of_one_and_a_half(
    source: int, target: int, reason: str | None
) -> None:
    assert Cleaning().reason("x " * source, " y" * target) == reason


def test_a_word_of_more_than_a_thousand_characters_drops_the_pair() -> None:
    assert Cleaning().reason("x" * 1000, "y") is None
    assert Cleaning().reason("y", "x" * 1001) == "long word"


def test_without_sacremoses_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(
        UsageError, match=r"needs the package sacremoses; get it with `pip install 'anydepth\[recipes\]'`"
    ):
        load_sacremoses()
