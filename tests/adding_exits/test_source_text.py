"""The text that exits are learned from: different lines in an order of their own, and what is no
such text."""

from pathlib import Path

import pytest

from anydepth.adding_exits import source_text
from anydepth.adding_exits.source_text import FEWEST_LINES, shuffled_lines
from anydepth.errors import CorpusError
from anydepth.messages.say import say_nothing

LINES = [f"Satz {number}." for number in range(FEWEST_LINES + 7)]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_every_line_comes_once_without_blanks_in_the_same_order_every_time(tmp_path: Path) -> None:
    text = write(tmp_path / "mono.de", [*LINES, "", "  ", *LINES[:50], f" {LINES[3]} "])
    found = shuffled_lines(text, say_nothing)
    assert sorted(found) == sorted(LINES) and found != LINES
    assert shuffled_lines(text, say_nothing) == found


def test_of_a_text_without_end_the_beginning_is_read_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_text, "MOST_LINES", FEWEST_LINES)
    said: list[str] = []
    assert sorted(shuffled_lines(write(tmp_path / "mono.de", LINES), said.append)) == sorted(LINES[:FEWEST_LINES])
    assert said == [f"{tmp_path}/mono.de has more than 1,000 lines; these are read, and the rest is left out"]


def test_too_few_lines_none_at_all_and_other_bytes_than_utf_8_are_refused(tmp_path: Path) -> None:
    for lines, count in ((LINES[:9] * 200, 9), ([], 0)):
        with pytest.raises(
            CorpusError, match=rf"mono.de has {count} different lines, and exits .* at least 1,000; give"
        ):
            shuffled_lines(write(tmp_path / "mono.de", lines), say_nothing)
    (tmp_path / "latin.de").write_bytes("größer\n".encode("latin-1") * 2000)
    with pytest.raises(CorpusError, match=r"latin.de line 1 is not valid UTF-8 .*; convert the file to UTF-8"):
        shuffled_lines(tmp_path / "latin.de", say_nothing)
