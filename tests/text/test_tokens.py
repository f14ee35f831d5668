import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anydepth.errors import CorpusError
from anydepth.text.tokens import TokenPairs, TokenSide, TokenWriter, token_type

SENTENCES = [[5, 6, 7], [], [8], [9, 10, 11, 12]]


def write_side(folder: Path, sentences: list[list[int]], vocab_size: int, at_once: int) -> TokenSide:
    with TokenWriter(folder / "x.tokens", folder / "x.offsets", vocab_size) as writer:
        for start in range(0, len(sentences), at_once):
            writer.append(sentences[start : start + at_once])
    return TokenSide.open(folder / "x.tokens", folder / "x.offsets", vocab_size)


@given(st.lists(st.lists(st.integers(0, 99_999), max_size=5), max_size=9), st.integers(1, 4))
def test_sentences_come_back_however_they_are_portioned(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[list[int]], at_once: int
) -> None:
    side = write_side(tmp_path_factory.mktemp("side"), sentences, 100_000, at_once)
    assert [side[number].tolist() for number in range(len(side))] == sentences


@pytest.mark.parametrize("vocab_size, width", [(300, 2), (65_536, 2), (65_537, 4)])
def test_ids_take_two_bytes_as_long_as_all_of_them_fit(tmp_path: Path, vocab_size: int, width: int) -> None:
    side = write_side(tmp_path, [[1, vocab_size - 1]], vocab_size, at_once=1)
    assert side[0].tolist() == [1, vocab_size - 1]
    assert (tmp_path / "x.tokens").stat().st_size == 2 * width


def test_files_are_little_endian_with_a_leading_zero_offset(tmp_path: Path) -> None:
    write_side(tmp_path, [[1, 258], [3]], 300, at_once=2)
    assert (tmp_path / "x.tokens").read_bytes() == b"\x01\x00\x02\x01\x03\x00"
    assert (tmp_path / "x.offsets").read_bytes() == b"".join(offset.to_bytes(8, "little") for offset in (0, 2, 3))
    assert token_type(300).byteorder in "<="


def test_a_writer_counts_sentences_and_tokens(tmp_path: Path) -> None:
    with TokenWriter(tmp_path / "x.tokens", tmp_path / "x.offsets", 300) as writer:
        writer.append(SENTENCES)
        writer.append([])
    assert (writer.sentences, writer.tokens) == (4, 8)


def test_numbers_at_any_places_are_those_of_the_file(tmp_path: Path) -> None:
    side = write_side(tmp_path, SENTENCES, 300, at_once=2)
    assert side.tokens[np.array([7, 0, 3])].tolist() == [12, 5, 8]
    assert side.offsets[np.array([4, 1])].tolist() == [8, 3]


@pytest.mark.parametrize("kind", ["tokens", "offsets"])
def test_a_file_that_is_cut_short_while_it_is_in_use_is_named(tmp_path: Path, kind: str) -> None:
    side = write_side(tmp_path, SENTENCES, 300, at_once=2)
    os.truncate(tmp_path / f"x.{kind}", 1)
    with pytest.raises(CorpusError, match=rf"x\.{kind} was cut short while it was in use; prepare the data again$"):
        _ = side[3]


def test_a_file_that_the_disk_no_longer_gives_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    side = write_side(tmp_path, SENTENCES, 300, at_once=2)

    def lost(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", lost)
    with pytest.raises(CorpusError, match=r"x\.offsets can no longer be read \(Input/output error\); bring the data"):
        _ = side[3]


def test_a_file_that_is_removed_while_it_is_in_use_can_be_read_on(tmp_path: Path) -> None:
    side = write_side(tmp_path, SENTENCES, 300, at_once=2)
    for kind in ("tokens", "offsets"):
        (tmp_path / f"x.{kind}").unlink()
    assert [side[number].tolist() for number in range(4)] == SENTENCES


def test_pairs_give_both_sides_and_the_lengths_of_any_span(tmp_path: Path) -> None:
    pairs = TokenPairs(
        write_side(tmp_path, SENTENCES, 300, at_once=3), TokenSide.from_sentences([[1], [2, 2], [3, 3, 3], []])
    )
    assert len(pairs) == 4
    assert (pairs.source(3).tolist(), pairs.target(1).tolist()) == ([9, 10, 11, 12], [2, 2])
    assert [lengths.tolist() for lengths in pairs.lengths(1, 4)] == [[0, 1, 4], [2, 3, 0]]
    assert [lengths.tolist() for lengths in pairs.lengths(2, 2)] == [[], []]
