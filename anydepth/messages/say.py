"""The callback of all work that talks: a line for people."""

from collections.abc import Callable

Say = Callable[[str], None]


def say_nothing(text: str) -> None:
    """The callback of a caller that wants no lines."""
