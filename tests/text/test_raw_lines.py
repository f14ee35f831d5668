import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anydepth.errors import CorpusError
from anydepth.text import raw_lines
from anydepth.text.raw_lines import RawLines


class Trickle(io.BytesIO):
    """A file that gives a few bytes at a time, as a pipe does."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(3)


@given(st.binary(max_size=40) | st.text("a\n\r\ufeff").map(str.encode), st.integers(1, 4))
def test_blocks_hold_the_lines_of_the_file_whatever_it_gives_at_a_time(data: bytes, wanted: int) -> None:
    for kind in (io.BytesIO, Trickle):
        raw = RawLines(kind(data), "text")
        taken = []
        while ready := raw.at_hand(wanted):
            taken += io.BytesIO(raw.take(min(ready, wanted))).readlines()
        assert taken == io.BytesIO(data.removeprefix(b"\xef\xbb\xbf")).readlines()
        assert raw.taken == len(taken)


def test_a_line_that_is_too_long_is_refused_once_those_before_it_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_lines, "LONGEST_LINE", 5)
    for data in (b"one\ntwo\nendless\nfour\n", b"one\ntwo\nendless"):
        raw = RawLines(Trickle(data), "text")
        assert raw.at_hand(9) == 2 and raw.take(2) == b"one\ntwo\n"
        with pytest.raises(CorpusError, match=r"^text line 3 has more than 5 bytes; give one sentence per line$"):
            raw.at_hand(9)


def test_long_lines_come_in_smaller_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_lines, "ENOUGH_BYTES", 50)
    raw = RawLines(Trickle(b"123456789\n" * 20), "text")
    assert raw.at_hand(20) == 5
    assert raw.count_rest() == 20
