"""Ways to damage a file."""

import random
from pathlib import Path


def flip_bit(file: Path, sibling: Path, randomness: random.Random) -> None:
    data = bytearray(file.read_bytes())
    if data:
        data[randomness.randrange(len(data))] ^= 1 << randomness.randrange(8)
    rewrite(file, bytes(data))


def change_byte(file: Path, sibling: Path, randomness: random.Random) -> None:
    data = bytearray(file.read_bytes())
    if data:
        data[randomness.randrange(len(data))] = randomness.randrange(256)
    rewrite(file, bytes(data))


def cut(file: Path, sibling: Path, randomness: random.Random) -> None:
    data = file.read_bytes()
    rewrite(file, data[: randomness.randrange(len(data))] if data else data)


def delete(file: Path, sibling: Path, randomness: random.Random) -> None:
    file.unlink()


def take_siblings(file: Path, sibling: Path, randomness: random.Random) -> None:
    if sibling.exists():
        rewrite(file, sibling.read_bytes())
    else:
        file.unlink()


def swap_inside(file: Path, sibling: Path, randomness: random.Random) -> None:
    others = sorted(
        other
        for other in file.parent.iterdir()
        if other.is_file() and other != file and other.name != ".seal.json.lock"
    )
    if not others:
        return
    other = randomness.choice(others)
    mine, theirs = file.read_bytes(), other.read_bytes()
    rewrite(file, theirs)
    rewrite(other, mine)


def append(file: Path, sibling: Path, randomness: random.Random) -> None:
    rewrite(file, file.read_bytes() + randomness.randbytes(randomness.randint(1, 40)))


def empty(file: Path, sibling: Path, randomness: random.Random) -> None:
    rewrite(file, b"")


def rewrite(file: Path, data: bytes) -> None:
    """Gives the file other contents; the original, which may be the same by a hard link, keeps its
    own."""
    file.unlink()
    file.write_bytes(data)


DAMAGES = {
    "flipped bit": flip_bit,
    "changed byte": change_byte,
    "cut": cut,
    "deleted": delete,
    "sibling's": take_siblings,
    "swapped inside": swap_inside,
    "lengthened": append,
    "emptied": empty,
}
