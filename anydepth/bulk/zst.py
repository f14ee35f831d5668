"""Zstandard files as streams that notice when they are cut short."""

import io
from pathlib import Path
from typing import Any

from anydepth.errors import CorpusError, UsageError

CHUNK = 2**17


class ZstReader(io.RawIOBase):
    """What a file of one or more Zstandard frames unpacks to."""

    def __init__(self, path: Path) -> None:
        self.zstandard = require_zstandard()
        self.path, self.file = path, open(path, "rb")  # noqa: SIM115 (closed with this)
        self.frame: Any = None  # the one that is being unpacked
        self.packed = self.unpacked = b""

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.file.close()
        super().close()

    def readinto(self, buffer: Any, /) -> int:
        """The next bytes, as many as there are and fit."""
        while not self.unpacked and self._unpack_more():
            pass
        view = memoryview(buffer)
        size = min(len(view), len(self.unpacked))
        view[:size], self.unpacked = self.unpacked[:size], self.unpacked[size:]
        return size

    def _unpack_more(self) -> bool:
        """Whether there was more to unpack."""
        if not self.packed:
            self.packed = self.file.read(CHUNK)
            if not self.packed:
                if self.frame is not None:
                    raise CorpusError(f"{self.path} is truncated or not zstd; fetch or compress it again")
                return False
        if self.frame is None:
            self.frame = self.zstandard.ZstdDecompressor().decompressobj()
        try:
            self.unpacked = self.frame.decompress(self.packed)
        except self.zstandard.ZstdError as error:
            raise CorpusError(f"{self.path} is truncated or not zstd ({error}); fetch or compress it again") from error
        self.packed = self.frame.unused_data if self.frame.eof else b""
        if self.frame.eof:
            self.frame = None
        return True


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
