"""Hostile values, and valid files of which one thing was made hostile."""

import json
import os
import random
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DIGITS = "9" * 5000
DEEP = 100_000


@dataclass(frozen=True)
class Raw:
    """A value as it stands in the file, whatever the format thinks of it."""

    text: str


JSON_VALUES = {
    "huge": Raw("1000000000000"),
    "2**63": Raw(str(2**63)),
    "5,000 digits": Raw(DIGITS),
    "NaN": Raw("NaN"),
    "inf": Raw("Infinity"),
    "-inf": Raw("-Infinity"),
    "1e999": Raw("1e999"),
    "1e308": Raw("1e308"),
    "-1": Raw("-1"),
    "0": Raw("0"),
    "-0.5": Raw("-0.5"),
    "null": Raw("null"),
    "true": Raw("true"),
    "empty text": Raw('""'),
    "number as text": Raw('"1.5"'),
    "NUL": Raw('"a\\u0000b"'),
    "lone surrogate": Raw('"\\ud800"'),
    "escapes": Raw('"\\n\\u001b[31mred\\u202e"'),
    "long text": Raw('"' + "x" * 100_000 + '"'),
    "path up": Raw('"../../../../etc/passwd"'),
    "absolute path": Raw('"/etc/passwd"'),
    "device": Raw('"/dev/zero"'),
    "empty list": Raw("[]"),
    "empty object": Raw("{}"),
    "numbers": Raw("[1, 2, 3]"),
    "deep lists": Raw("[" * DEEP + "]" * DEEP),
    "deep objects": Raw('{"a":' * DEEP + "1" + "}" * DEEP),
    "600 lists": Raw("[" * 600 + "]" * 600),
}
TOML_VALUES = {
    "huge": Raw("1000000000000"),
    "10**9 + 1": Raw("1000000001"),
    "5,000 digits": Raw(DIGITS),
    "9,000 hexadecimal digits": Raw("0x" + "f" * 9000),
    "nan": Raw("nan"),
    "inf": Raw("inf"),
    "-inf": Raw("-inf"),
    "1e999": Raw("1e999"),
    "1e308": Raw("1e308"),
    "-1": Raw("-1"),
    "0": Raw("0"),
    "-0.5": Raw("-0.5"),
    "true": Raw("true"),
    "a day": Raw("2020-02-30"),
    "a date": Raw("2020-02-20"),
    "empty text": Raw('""'),
    "number as text": Raw('"3"'),
    "NUL": Raw('"a\\u0000b"'),
    "escapes": Raw('"\\n\\u001b[31mred"'),
    "long text": Raw('"' + "x" * 40_000 + '"'),
    "empty list": Raw("[]"),
    "empty table": Raw("{}"),
    "mixed list": Raw('[1, "a", [2]]'),
    "deep lists": Raw("[" * 20_000 + "]" * 20_000),
    "deep tables": Raw("{a = " * 5000 + "1" + "}" * 5000),
}
BYTES = {
    "nothing": b"",
    "NULs": b"\0" * 4096,
    "no UTF-8": b"\xff\xfe\x00{",
    "a mark": b"\xef\xbb\xbf{}",
    "null": b"null",
    "a list": b"[]",
    "a number": b"3",
    "NaN": b"NaN",
    "half an object": b'{"a": ',
    "a surrogate in UTF-8": b'{"a": "\xed\xa0\x80"}',
    "deep": b"[" * 200_000,
    "a program": b"\x7fELF" + bytes(range(256)) * 16,
    "one long line": b"x" * 5_000_000,
}


def paths_in(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of everything in a JSON value, itself included."""
    yield here
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths_in(inner, (*here, key))


def replaced(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """`value` with `new` at `place`; without what is there where `new` is ..."""
    if not place:
        return new
    key, *rest = place
    if isinstance(value, dict):
        changed = {name: replaced(inner, tuple(rest), new) if name == key else inner for name, inner in value.items()}
        return {name: inner for name, inner in changed.items() if inner is not ...}
    return [
        each
        for n, inner in enumerate(value)
        if (each := replaced(inner, tuple(rest), new) if n == key else inner) is not ...
    ]


def json_text(value: Any, twin: tuple[Any, ...] | None = None, here: tuple[Any, ...] = ()) -> str:
    """JSON with raw values; the key at `twin` stands there twice."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        pairs = [
            (f"{json.dumps(key)}: {json_text(inner, twin, (*here, key))}", (*here, key) == twin)
            for key, inner in value.items()
        ]
        return "{" + ", ".join(pair for pair, is_twin in pairs for _ in range(1 + is_twin)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(json_text(inner, twin, (*here, n)) for n, inner in enumerate(value)) + "]"
    return json.dumps(value)


def toml_text(value: dict[str, Any], name: str = "") -> str:
    """TOML with raw values."""
    lines = [f"[{name}]"] if name else []
    lines += [
        f"{key} = {inner.text if isinstance(inner, Raw) else json.dumps(inner)}"
        for key, inner in value.items()
        if not isinstance(inner, dict)
    ]
    inner_tables = [
        toml_text(inner, f"{name}.{key}" if name else key) for key, inner in value.items() if isinstance(inner, dict)
    ]
    return "\n".join([*lines, *inner_tables]) + "\n"


def hostile_json(randomness: random.Random, text: str) -> tuple[str, bytes]:
    """One thing of a JSON file made hostile, and what it was."""
    value, way = json.loads(text), randomness.random()
    places = [place for place in paths_in(value) if place]
    place = randomness.choice(places)
    told = ".".join(map(str, place))
    if way < 0.08:
        return f"without {told}", json_text(replaced(value, place, ...)).encode()
    if way < 0.12:
        return f"{told} twice", json_text(value, twin=place).encode()
    if way < 0.16:
        cut = randomness.randrange(len(text))
        return f"cut at {cut}", text.encode()[:cut]
    if way < 0.22:
        return hostile_bytes(randomness, text.encode())
    name = randomness.choice(list(JSON_VALUES))
    return f"{told} is {name}", json_text(replaced(value, place, JSON_VALUES[name])).encode()


def hostile_toml(randomness: random.Random, text: str) -> tuple[str, bytes]:
    """One thing of a TOML file made hostile, and what it was."""
    value, way = tomllib.loads(text), randomness.random()
    place = randomness.choice([place for place in paths_in(value) if place])
    told = ".".join(map(str, place))
    if way < 0.05:
        return f"without {told}", toml_text(replaced(value, place, ...)).encode()
    if way < 0.10:
        return f"{told} twice", (text + f"\n{told} = 1\n").encode()
    if way < 0.15:
        extra = randomness.choice(
            ["a" + ".a" * 20_000 + " = 1", "x = 1", "[" * 30_000, "[[model]]", '"\\u0000" = 1', "model.deep.a.b.c = 1"]
        )
        return f"with {extra[:20]}", f"{extra}\n{text}".encode()
    if way < 0.22:
        return hostile_bytes(randomness, text.encode())
    name = randomness.choice(list(TOML_VALUES))
    return f"{told} is {name}", toml_text(replaced(value, place, TOML_VALUES[name])).encode()


def hostile_bytes(randomness: random.Random, data: bytes) -> tuple[str, bytes]:
    """Other bytes than those of the file: none of it, or some of them changed."""
    if randomness.random() < 0.5:
        name = randomness.choice(list(BYTES))
        return name, BYTES[name]
    changed = bytearray(data)
    for _ in range(randomness.randint(1, 8)):
        changed[randomness.randrange(len(changed))] = randomness.randrange(256)
    return "changed bytes", bytes(changed)


def hostile_place(randomness: random.Random, file: str) -> tuple[str, Callable[[Path], None]]:
    """Something that is no file where a file should be."""

    def make(kind: str, folder: Path) -> None:
        path = folder / file
        path.unlink()
        if kind == "a folder":
            path.mkdir()
        elif kind == "a pipe":
            os.mkfifo(path)
        elif kind == "a huge file":
            with path.open("wb") as opened:
                opened.truncate(2 * 2**30)
        elif kind != "nothing":
            path.symlink_to(
                {"a loop": path, "a device": "/dev/zero", "nowhere": folder / "none", "its folder": folder}[kind]
            )

    kind = randomness.choice(
        ["a folder", "a pipe", "a loop", "a device", "nowhere", "nothing", "its folder", "a huge file"]
    )
    return f"{file} is {kind}", lambda folder: make(kind, folder)


def hostile_line(randomness: random.Random, text: str) -> tuple[str, bytes]:
    """A file of lines with one of them made hostile."""
    lines = text.splitlines()
    number = randomness.randrange(len(lines))
    told, data = hostile_json(randomness, lines[number])
    return f"line {number + 1}: {told}", b"\n".join(
        [*(line.encode() for line in lines[:number]), data, *(line.encode() for line in lines[number + 1 :])]
    )


def hostile_file(randomness: random.Random, world: Path, file: str) -> tuple[str, Callable[[Path], None]]:
    """A binary file with other bytes; of a safetensors file the header may be hostile JSON of a
    right or a wrong length."""
    data = (world / file).read_bytes()
    if not file.endswith(".safetensors") or randomness.random() < 0.4:
        told, changed = hostile_bytes(randomness, data)
        return told, written(file, changed)
    length = int.from_bytes(data[:8], "little")
    told, header = hostile_json(randomness, data[8 : 8 + length].decode())
    stated = randomness.choice([len(header), len(header), len(header), 2**63, 0, len(data) * 2])
    return f"header: {told}", written(file, stated.to_bytes(8, "little") + header + data[8 + length :])


def written(file: str, data: bytes) -> Callable[[Path], None]:
    """What puts `data` in the place of a file's contents."""
    return lambda folder: put(folder / file, data)


def put(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def without(file: str, place: tuple[Any, ...], world: Path) -> Callable[[Path], None]:
    """What takes away one place of a JSON file."""
    text = (world / file).read_text(encoding="utf-8")
    return written(file, json_text(replaced(json.loads(text), place, ...)).encode())


def setting(file: str, place: tuple[Any, ...], value: Raw, world: Path) -> Callable[[Path], None]:
    """What puts `value` at one place of a JSON or TOML file."""
    text = (world / file).read_text(encoding="utf-8")
    is_toml = file.endswith(".toml")
    changed = replaced(tomllib.loads(text) if is_toml else json.loads(text), place, value)
    return written(file, (toml_text(changed) if is_toml else json_text(changed)).encode())
