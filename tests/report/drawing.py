"""Reports for tests in little time: what was drawn of the same data is not drawn again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps

import pytest

from anydepth.report import behaviour, tradeoff_sections

DRAWN: dict[str, str] = {}
DRAWERS = (
    (behaviour, "tokens_svg"),
    (behaviour, "positions_svg"),
    (behaviour, "scores_svg"),
    (tradeoff_sections, "scatter_svg"),
)


@contextmanager
def drawing_once() -> Iterator[None]:
    """While it is open, a report draws a picture only where its data, name or description are
    new."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in DRAWERS:
            patch.setattr(module, name, remembering(getattr(module, name)))
        yield


def remembering(draw: Callable[..., str]) -> Callable[..., str]:
    @wraps(draw)
    def drawn(*given: object, **named: object) -> str:
        key = repr((draw.__name__, given, named))  # of numbers, words and frozen records
        if key not in DRAWN:
            DRAWN[key] = draw(*given, **named)
        return DRAWN[key]

    return drawn
