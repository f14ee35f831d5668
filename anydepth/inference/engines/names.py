"""The names of the engines; nothing here needs torch, so that the command line can show them at
once."""

from collections.abc import Iterable

AUTOMATIC = "auto"
# What a user should know beside the name, if anything; in the order of ENGINES in choice.py.
ENGINE_NOTES = {
    "native": "",
    "onnx": "after `anydepth export`",
    "torch": "",
}
INT8_ENGINES = ("native", "onnx")  # those with 8-bit products


def enumerated(names: Iterable[str], conjunction: str) -> str:
    """The names as they stand in a sentence, such as "native, onnx or torch"."""
    *first, last = names
    return f"{', '.join(first)} {conjunction} {last}" if first else last


def noted_engine(name: str) -> str:
    """The name of an engine, with its note in brackets if it has one."""
    note = ENGINE_NOTES[name]
    return f"{name} ({note})" if note else name
