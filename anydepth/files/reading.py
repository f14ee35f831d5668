"""Files that are believed only after they were looked at: regular, of a sane size, UTF-8, JSON or
TOML that nests sanely, finite numbers.

Every problem is an `Unreadable`, a phrase without the file's name; the layer that reads says which
file it was, and what to do.
"""

import errno
import json
import math
import os
import re
import stat
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError

SMALL = 64 * 2**10  # settings, notes of a run
MEDIUM = 64 * 2**20  # operating points, manifests, evaluations
LARGE = 2**30  # records of a study, tokenizers
MOST_SHOWN = 120  # characters of a value in an error message
DEEPEST = 32  # of anything that is written here the deepest has 8 levels
LARGEST_INTEGER = 2**63 - 1
KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
# What no name, path or policy holds: a NUL, which paths must not have, and lone surrogates, which
# UTF-8 cannot write.
NO_TEXT = re.compile("[\x00\ud800-\udfff]")
Kind = TypeVar("Kind")


class Unreadable(ValueError):  # noqa: N818
    """What is wrong with a file's contents, as a phrase."""


def check_regular(path: Path) -> None:
    """Refuses what is there and is not a regular file: reading a pipe or a device may wait
    forever, or never end.

    A folder, or a path that leads nowhere, is an OSError, as it is when one opens it.
    """
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise Unreadable(
            f"it is {next((name for is_kind, name in KINDS if is_kind(mode)), 'something else')}, not a file"
        )


def read_bytes(path: Path, *, most: int) -> bytes:
    """The contents of a regular file of at most `most` bytes; one that cannot be opened is an
    OSError."""
    check_regular(path)
    with open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise Unreadable(f"it has more than {most:,} bytes, which no such file needs")
    return data


def read_text(path: Path, *, most: int) -> str:
    """The contents of a UTF-8 file."""
    return _decoded(read_bytes(path, most=most))


def read_json(path: Path, *, most: int = MEDIUM) -> Any:
    """The value in a JSON file."""
    return json_of(read_bytes(path, most=most))


def json_of(data: bytes) -> Any:
    """The value that the contents of a JSON file stand for; its texts can be written, and be
    names."""
    value = parse_json(_decoded(data))
    check_text(value)
    return value


def read_toml(path: Path, *, most: int = SMALL) -> dict[str, Any]:
    """The table in a TOML file."""
    return parse_toml(read_text(path, most=most))


def parse_json(text: str) -> Any:
    """The value that the JSON `text` stands for: finite numbers, integers of 64 bits, no key twice,
    at most `DEEPEST` levels."""
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_int=_integer,
            parse_float=_finite,
            object_pairs_hook=_object_without_twins,
        )
    except RecursionError:
        raise Unreadable(f"it nests deeper than {DEEPEST} levels") from None
    except Unreadable:
        raise
    except ValueError as error:
        raise Unreadable(f"it is not JSON: {error}") from None
    check_depth(value)
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """The table that the TOML `text` stands for, at most `DEEPEST` levels deep; what its values may
    be is for its settings to say."""
    if len(text) > SMALL:  # a key of many dots takes time that grows with the square of its length
        raise Unreadable(f"it has more than {SMALL:,} characters, which no settings need")
    try:
        table = tomllib.loads(text)
    except RecursionError:
        raise Unreadable(f"it nests deeper than {DEEPEST} levels") from None
    except ValueError as error:  # not only TOMLDecodeError: a number may have thousands of digits
        raise Unreadable(str(error).partition(";")[0]) from None
    check_depth(table)
    return table


def checked(kind: type[Kind], value: Any) -> Kind:
    """`value`, which came out of JSON, as an object of the typed class `kind`.

    Nothing is converted; what is missing, of another type or out of range is refused.
    """
    try:
        return TypeAdapter(kind).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        raise Unreadable(first_problem(error)) from None


def first_problem(error: ValidationError) -> str:
    """The first thing that is wrong, and where, as in "sets.0.points.2.bleu: input should be a
    valid number"."""
    problem = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in problem["loc"])
    text = f"{problem['msg'][0].lower()}{problem['msg'][1:]}".removeprefix("value error, ")
    return f"{place}: {text}" if place else text


def check_depth(value: Any) -> None:
    """Refuses what nests so deep that a walk through it would end in a stack that is full."""
    level, containers = 0, [value] if isinstance(value, dict | list) else []
    while containers:
        level += 1
        if level > DEEPEST:
            raise Unreadable(f"it nests deeper than {DEEPEST} levels")
        inner = [each for outer in containers for each in (outer.values() if isinstance(outer, dict) else outer)]
        containers = [each for each in inner if isinstance(each, dict | list)]


def check_text(value: Any) -> None:
    """Refuses texts and keys with characters that no name has."""
    for leaf in leaves(value):
        if isinstance(leaf, str) and (found := NO_TEXT.search(leaf)):
            raise Unreadable(f"it has a text with the character U+{ord(found[0]):04X}")


def leaves(value: Any) -> Iterator[Any]:
    """All keys and all values that are neither a table nor a list."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield from each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        else:
            yield each


def shown(value: Any) -> str:
    """`value` as an error message shows it, whatever its size."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of thousands of digits
        return "a number of thousands of digits"
    return shortened(text)


def shortened(text: str) -> str:
    """`text` without its middle where it is long."""
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN // 2]}...{text[-MOST_SHOWN // 4 :]}"


def plain_name(name: str) -> bool:
    """Whether `name` is that of a file in the folder at hand: no path, nothing hidden, nothing that
    a terminal would act on."""
    return bool(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}", name))


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"it is not UTF-8 (byte 0x{data[error.start]:02X} at {error.start + 1:,})") from None


def _refuse_constant(name: str) -> NoReturn:
    raise Unreadable(f"it has {name}, which is no number")


def _integer(digits: str) -> int:
    if len(digits) > 20 or abs(int(digits)) > LARGEST_INTEGER:
        raise Unreadable("it has a whole number beyond 64 bits")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise Unreadable(f"it has {shown(digits)}, which is no finite number")
    return value


def _object_without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise Unreadable(f"it has the key {shown(counts.most_common(1)[0][0])} twice")
    return found
