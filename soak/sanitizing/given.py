"""What JSON holds of a call, as the extension takes it, and what it gave back."""

from typing import Any

import numpy as np


def make_shape(native: Any, given: dict[str, Any]) -> Any:
    return native.Shape(**{**given, "activation": getattr(native.Activation, given["activation"])})


def make_policy(native: Any, given: dict[str, Any]) -> Any:
    return native.Policy(**{**given, "rule": getattr(native.Rule, given["rule"])})


def make_selection(engine: Any, given: dict[str, Any] | None) -> Any:
    """A selection of words, with arrays for its learned weights if it has any; None: all words."""
    if given is None:
        return None
    learned = {name: np.array(given[name], np.float32) for name in ("weight", "bias") if name in given}
    return engine.selection(**{**given, **learned})


def hypotheses(found: Any) -> list[list[tuple[list[int], list[int], float]]]:
    return [[(each.tokens, each.exits, each.score) for each in ranked] for ranked in found]
