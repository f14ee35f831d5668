"""Vocabulary settings by name: what they mean, and what is refused."""

import re

import pytest

from anydepth.errors import UsageError
from anydepth.vocabulary.names import VocabularyName, parse_vocabulary


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("full", VocabularyName("full")),
        ("table", VocabularyName("table")),
        ("table:50", VocabularyName("table", 50)),
        (" learned ", VocabularyName("learned")),
        ("learned:0.25", VocabularyName("learned", 0.25)),
        ("learned:.5", VocabularyName("learned", 0.5)),
        ("learned:1e-05", VocabularyName("learned", 1e-5)),
    ],
)
def test_a_setting_is_read_and_written(text: str, meant: VocabularyName) -> None:
    assert parse_vocabulary(text) == meant
    assert parse_vocabulary(str(meant)) == meant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tabel", "there is no vocabulary setting 'tabel'; did you mean table? known: full, table[:K], learned[:P]"),
        ("", "there is no vocabulary setting ''; known: full, table[:K], learned[:P]"),
        ("full:3", "--vocabulary full:3: all words have no size; write full"),
        *(
            (
                f"table:{size}",
                f"--vocabulary table:{size}: the number of words that a source piece brings must lie between 1 and "
                "1,000,000, as in table:50",
            )
            for size in ("", "0", "-1", "2.5", "1000001", "9" * 30, "\u0665")
        ),
        *(
            (
                f"learned:{size}",
                f"--vocabulary learned:{size}: the probability that a word must exceed must lie between 0 and 1, as "
                "in learned:0.01",
            )
            for size in ("", "0", "1", "-0.1", "nan", "inf", "1e400", "0x1")
        ),
    ],
)
def test_what_means_nothing_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        parse_vocabulary(text)
