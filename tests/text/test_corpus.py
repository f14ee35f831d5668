import gzip
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anydepth.errors import CorpusError
from anydepth.text.corpus import REASONS, PairFilter, open_lines, read_pairs, side_path


def write_pair(folder: Path, source: bytes, target: bytes) -> Path:
    (folder / "train.de").write_bytes(source)
    (folder / "train.en").write_bytes(target)
    return folder / "train"


def test_only_newlines_end_a_line(tmp_path: Path) -> None:
    odd = "a\u2028b\x0bc\x85d\x0ce\rf\x1cg\u2029h"
    (tmp_path / "text").write_bytes(f"{odd}\nsecond\r\n\n  spaces \t\nlast".encode())
    assert list(open_lines(tmp_path / "text")) == [odd, "second", "", "  spaces \t", "last"]


def test_a_packed_file_reads_like_the_plain_one(tmp_path: Path) -> None:
    data = "größe\nzwei\r\n\n".encode()
    (tmp_path / "text").write_bytes(data)
    (tmp_path / "text.gz").write_bytes(gzip.compress(data))
    assert list(open_lines(tmp_path / "text.gz")) == list(open_lines(tmp_path / "text")) == ["größe", "zwei", ""]


@pytest.mark.parametrize(
    "data, lines",
    [(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]), (b"\xef\xbb\xbf", []), (b"", []), (b"\n", [""])],
    ids=["mark twice", "mark alone", "nothing", "empty line"],
)
def test_a_byte_order_mark_is_removed_at_the_start_of_the_file_alone(
    tmp_path: Path, data: bytes, lines: list[str]
) -> None:
    (tmp_path / "text").write_bytes(data)
    assert list(open_lines(tmp_path / "text")) == lines


def test_invalid_utf8_is_refused_with_file_and_line_after_the_lines_before_it(tmp_path: Path) -> None:
    (tmp_path / "train.de").write_bytes(b"good\nb\xe4d\n")
    lines = open_lines(tmp_path / "train.de")
    assert next(lines) == "good"
    with pytest.raises(
        CorpusError, match=r"train\.de line 2 is not valid UTF-8 \(byte 0xE4 at byte 2 of the line\); convert the file"
    ):
        next(lines)


def test_a_truncated_gzip_file_is_named(tmp_path: Path) -> None:
    packed = gzip.compress("\n".join(str(number**3) for number in range(5000)).encode())
    (tmp_path / "train.de.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(CorpusError, match=r"train\.de\.gz is truncated or not gzip \(.*\); fetch or compress it again"):
        list(open_lines(tmp_path / "train.de.gz"))


@pytest.mark.parametrize(
    "data",
    [b"plain text\n", gzip.compress(b"x" * 1000, mtime=0)[:12] + b"\xff" * 40],
    ids=["plain text", "gzip with noise"],
)
def test_a_file_that_is_not_gzip_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "train.de.gz").write_bytes(data)
    with pytest.raises(CorpusError, match=r"train\.de\.gz is truncated or not gzip"):
        list(open_lines(tmp_path / "train.de.gz"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"there is no file .*absent; check the path"):
        list(open_lines(tmp_path / "absent"))


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"cannot read .*: Is a directory; check the path and its permissions"):
        list(open_lines(tmp_path))


def test_a_side_is_plain_if_there_is_a_plain_file_and_packed_otherwise(tmp_path: Path) -> None:
    (tmp_path / "train.v2.de.gz").touch()
    assert side_path(tmp_path / "train.v2", "de") == tmp_path / "train.v2.de.gz"
    (tmp_path / "train.v2.de").touch()
    assert side_path(str(tmp_path / "train.v2"), "de") == tmp_path / "train.v2.de"


def test_a_missing_side_names_both_candidates_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "train.de").touch()
    with pytest.raises(CorpusError, match=r"there is neither .*train\.en nor .*train\.en\.gz; give the path without"):
        read_pairs(tmp_path / "train", "de", "en")


def test_pairs_are_read_in_step_and_one_at_a_time(tmp_path: Path) -> None:
    prefix = write_pair(tmp_path, b"eins\nzwei\n\xff\n", b"one\ntwo\nthree\n")
    assert list(islice(read_pairs(prefix, "de", "en"), 2)) == [("eins", "one"), ("zwei", "two")]


@pytest.mark.parametrize(
    "source, target, counts",
    [(1215, 1214, r"1,215 lines but train\.en has 1,214"), (3, 5, r"3 lines but train\.en has 5")],
)
def test_files_of_different_lengths_are_refused_with_both_counts(
    tmp_path: Path, source: int, target: int, counts: str
) -> None:
    prefix = write_pair(tmp_path, b"x\n" * source, b"y\n" * target)
    with pytest.raises(CorpusError, match=rf"^train\.de has {counts}; each line of one must translate"):
        list(read_pairs(prefix, "de", "en"))


def test_empty_files_are_refused(tmp_path: Path) -> None:
    prefix = write_pair(tmp_path, b"", b"")
    with pytest.raises(
        CorpusError, match=r"train\.de and .*train\.en are empty; give files with one sentence per line"
    ):
        list(read_pairs(prefix, "de", "en"))


@pytest.mark.parametrize(
    "source, target, reason",
    [(0, 3, "empty"), (3, 0, "empty"), (21, 20, "too long"), (1, 21, "too long"), (20, 20, None), (4, 12, None),
     (4, 13, "unbalanced"),
     (13, 4, "unbalanced"), (1, 10, None), (1, 11, "unbalanced")],
)  # fmt: skip
def test_pairs_are_dropped_at_the_limits(source: int, target: int, reason: str | None) -> None:
    assert PairFilter(max_tokens=20, max_ratio=3.0).reason([7] * source, [7] * target) == reason


@given(st.integers(0, 400), st.integers(0, 400))
def test_swapping_source_and_target_does_not_change_the_verdict(source: int, target: int) -> None:
    fit = PairFilter()
    assert fit.reason([7] * source, [7] * target) == fit.reason([7] * target, [7] * source)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30))), st.sampled_from([1.0, 1.1, 3.0, 100.0]))
def test_many_pairs_are_judged_as_each_alone(lengths: list[tuple[int, int]], max_ratio: float) -> None:
    fit = PairFilter(max_tokens=20, max_ratio=max_ratio)
    sources, targets = np.array(lengths, np.int64).reshape(-1, 2).T
    expected = [fit.reason([7] * source, [7] * target) for source, target in lengths]
    assert [REASONS[place] for place in fit.reasons(sources, targets)] == expected


def test_limits_that_drop_everything_are_refused() -> None:
    with pytest.raises(CorpusError, match=r"^--max-tokens 0 would drop every pair; set it to 1 or more"):
        PairFilter(max_tokens=0)
    with pytest.raises(CorpusError, match=r"^--max-ratio 0\.5 would drop every long pair; set it to 1 or more"):
        PairFilter(max_ratio=0.5)
