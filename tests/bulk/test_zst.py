"""Zstandard files: all frames, no more in memory than is asked for, and every cut is noticed."""

import io
import random
import tracemalloc
from pathlib import Path

import pytest

from anydepth.bulk.zst import ZstReader
from anydepth.errors import CorpusError

zstandard = pytest.importorskip("zstandard")


def unpacked(path: Path) -> bytes:
    with io.BufferedReader(ZstReader(path), 1000) as file:
        return file.read()


def test_frames_of_every_kind_are_unpacked_and_a_cut_anywhere_but_between_them_is_noticed(tmp_path: Path) -> None:
    noise, file = random.Random(1).randbytes(90), tmp_path / "x.zst"
    plain = zstandard.ZstdCompressor(write_checksum=False, write_content_size=False)
    checked = zstandard.ZstdCompressor(write_checksum=True)
    frames = [
        plain.compress(b"ein Hund\n" * 50),
        (0x184D2A53).to_bytes(4, "little") + (7).to_bytes(4, "little") + b"skipped",
        checked.compress(noise),
        checked.compress(b""),
        plain.compress(b"0" * 300_000),
    ]
    data = b"".join(frames)
    ends = {sum(map(len, frames[:count])) for count in range(len(frames) + 1)}
    file.write_bytes(data)
    assert unpacked(file) == b"ein Hund\n" * 50 + noise + b"0" * 300_000
    for cut in range(len(data)):
        file.write_bytes(data[:cut])
        if cut in ends:
            unpacked(file)
            continue
        with pytest.raises(CorpusError, match="is truncated or not zstd"):
            unpacked(file)


def test_a_file_that_unpacks_to_far_more_than_it_is_takes_no_memory(tmp_path: Path) -> None:
    file = tmp_path / "x.zst"
    file.write_bytes(zstandard.compress(bytes(2**26)))
    assert file.stat().st_size < 2**14
    tracemalloc.start()
    try:
        with io.BufferedReader(ZstReader(file), 2**17) as opened:
            while opened.read(2**16):
                pass
        assert tracemalloc.get_traced_memory()[1] < 2**21
    finally:
        tracemalloc.stop()
