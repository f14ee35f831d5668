"""Damages to a file that its checksum must show."""

from pathlib import Path


def flip(path: Path) -> None:
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 2] ^= 1
    path.write_bytes(contents)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")
