"""Files are looked at before they are believed: what stands where JSON or TOML should is refused
with a phrase, and never waited for."""

import os
from pathlib import Path
from typing import Any

import pytest

from anydepth.files.reading import (
    Unreadable,
    check_regular,
    checked,
    parse_json,
    parse_toml,
    plain_name,
    read_json,
    read_text,
    read_toml,
    shown,
)

DEEP = 100_000
BAD_JSON = {
    "nothing": ("", "it is not JSON"),
    "half": ('{"a": ', "it is not JSON"),
    "NaN": ('{"a": NaN}', "it has NaN, which is no number"),
    "minus infinity": ("[-Infinity]", "it has -Infinity, which is no number"),
    "a float that overflows": ("[1e999]", "it has '1e999', which is no finite number"),
    "a number of 5,000 digits": ("9" * 5000, "it has a whole number beyond 64 bits"),
    "2 ** 63": (f"[{2**63}]", "it has a whole number beyond 64 bits"),
    "deep lists": ("[" * DEEP + "]" * DEEP, "it nests deeper than 32 levels"),
    "deep objects": ('{"a":' * DEEP + "1" + "}" * DEEP, "it nests deeper than 32 levels"),
    "33 levels": ("[" * 33 + "]" * 33, "it nests deeper than 32 levels"),
    "a key twice": ('{"a": 1, "b": 2, "a": 3}', "it has the key 'a' twice"),
}
BAD_BYTES = {
    "no UTF-8": (b'{"a": "\xff"}', "it is not UTF-8 (byte 0xFF at 8)"),
    "a NUL in a text": (b'{"a": "x\\u0000"}', "it has a text with the character U+0000"),
    "a lone surrogate in a key": (b'{"\\ud800": 1}', "it has a text with the character U+D800"),
    "more bytes than such a file needs": (b'"' + b"x" * 100 + b'"', "it has more than 100 bytes"),
}


@pytest.mark.parametrize("name", BAD_JSON)
def test_what_is_no_sane_json_is_refused(name: str) -> None:
    text, phrase = BAD_JSON[name]
    with pytest.raises(Unreadable) as caught:
        parse_json(text)
    assert str(caught.value).startswith(phrase)
    assert len(str(caught.value)) < 300


def test_32_levels_and_63_bits_are_read() -> None:
    assert parse_json("[" * 32 + "]" * 32)
    assert parse_json(f"[{2**63 - 1}, {-(2**63) + 1}, 1e308]") == [2**63 - 1, -(2**63) + 1, 1e308]


@pytest.mark.parametrize("name", BAD_BYTES)
def test_bytes_that_are_no_json_of_names_are_refused(name: str, tmp_path: Path) -> None:
    data, phrase = BAD_BYTES[name]
    (tmp_path / "file.json").write_bytes(data)
    with pytest.raises(Unreadable) as caught:
        read_json(tmp_path / "file.json", most=100)
    assert str(caught.value).startswith(phrase)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * DEEP + "]" * DEEP,
        "a" + ".a" * 40 + " = 1",
        "a = " + "9" * 5000,
        "a = 2020-02-31",
        "a" + ".a" * DEEP + " = 1",
        "a =",
    ],
    ids=["deep lists", "a key of 41 parts", "5,000 digits", "no such day", "a key of 100,000 parts", "half"],
)
def test_what_is_no_sane_toml_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "file.toml").write_text(text, encoding="utf-8")
    with pytest.raises(Unreadable):
        read_toml(tmp_path / "file.toml")
    with pytest.raises(Unreadable):
        parse_toml(text)


def test_a_pipe_or_a_device_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "a pipe"), (Path("/dev/zero"), "a device")):
        with pytest.raises(Unreadable, match=f"^it is {kind}, not a file$"):
            read_text(path, most=10)


def test_a_folder_a_loop_and_nothing_are_what_the_system_says(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, error in (
        (tmp_path, IsADirectoryError),
        (tmp_path / "loop", OSError),
        (tmp_path / "none", FileNotFoundError),
    ):
        with pytest.raises(error):
            check_regular(path)


@pytest.mark.parametrize(
    ("kind", "value"), [(int, "3"), (int, True), (float, "1"), (float, True), (str, 1), (list, {}), (dict, [])]
)
def test_nothing_is_converted(kind: Any, value: object) -> None:
    with pytest.raises(Unreadable):
        checked(kind, value)


def test_an_integer_is_a_number() -> None:
    assert checked(float, 1) == 1.0


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../a", "/a", "a/b", ".hidden", "a\nb", "a\\b", "C:a", "x" * 300, "\u202ea"]
)
def test_a_path_or_an_odd_name_is_no_plain_name(name: str) -> None:
    assert not plain_name(name)
    assert plain_name("tokenizer.pt-BR.model")


def test_a_value_is_shown_within_a_line_whatever_its_size() -> None:
    assert shown(3) == "3"
    assert shown(1 << 100_000) == "a number of thousands of digits"
    assert len(shown("x" * 10**6)) < 200
