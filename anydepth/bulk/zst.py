"""Zstandard files as streams that notice when they are cut short."""

import io
from pathlib import Path
from typing import Any, BinaryIO

from anydepth.errors import CorpusError, UsageError

SKIPPABLE = range(0x184D2A50, 0x184D2A60)  # the first four bytes of frames that hold no contents
MOST_HEADER = 18  # bytes
RAW_BITS, RUN = 3, 1  # of a block's header: where its size begins, and the kind that is one byte again and again


class ZstReader(io.RawIOBase):
    """What a file of one or more Zstandard frames unpacks to; no more of it is in memory than is asked
    for, however well it was packed."""

    def __init__(self, path: Path) -> None:
        self.zstandard = require_zstandard()
        self.path, self.file = path, open(path, "rb")  # noqa: SIM115 (closed with this)
        self.reader = self.zstandard.ZstdDecompressor().stream_reader(self.file, read_across_frames=True)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.file.close()
        super().close()

    def readinto(self, buffer: Any, /) -> int:
        """The next bytes, as many as there are and fit."""
        try:
            size = int(self.reader.readinto(buffer))
            is_whole = size > 0 or len(buffer) == 0 or ends_with_a_frame(self.path)
        except self.zstandard.ZstdError as error:
            raise CorpusError(f"{self.path} is truncated or not zstd ({error}); fetch or compress it again") from error
        if not is_whole:
            raise CorpusError(f"{self.path} is truncated or not zstd; fetch or compress it again")
        return size


def ends_with_a_frame(path: Path) -> bool:
    """Whether the last frame of a file is all there, by the headers of frames and blocks: unpacking
    what was cut off ends as if it were complete."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        place = 0
        while place < size:
            place = _end_of_frame(file, place)
    return place == size


def _end_of_frame(file: BinaryIO, place: int) -> int:
    """Where the frame at `place` ends; beyond the end of the file, if that was cut off (RFC 8878)."""
    zstandard = require_zstandard()
    file.seek(place)
    start = file.read(MOST_HEADER)
    if int.from_bytes(start[:4], "little") in SKIPPABLE:
        return place + 8 + int.from_bytes(start[4:8], "little")
    about = zstandard.get_frame_parameters(start)
    place += zstandard.frame_header_size(start)
    is_last = False
    while not is_last:
        file.seek(place)
        header = file.read(3)
        bits = int.from_bytes(header, "little")
        is_last = bool(bits & 1) or len(header) < 3
        place += 3 + (1 if (bits >> 1) & 3 == RUN else bits >> RAW_BITS)
    return place + (4 if about.has_checksum else 0)


def require_zstandard() -> Any:
    """The module `zstandard`; one sentence where it is not installed."""
    try:
        import zstandard
    except ImportError as error:
        raise UsageError(
            f".zst files need zstandard, which cannot be imported ({error}); install it with "
            "pip install 'anydepth[zst]'"
        ) from error
    return zstandard
