"""What the compiled search found, as hypotheses."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from anydepth.search.beam import Hypothesis

if TYPE_CHECKING:
    from anydepth.inference.engines.native import _native


def read_hypotheses(found: "Sequence[_native.Found]", *, is_selective: bool) -> list[Hypothesis]:
    """The hypotheses of a sentence, with the number of its words if these were selected."""
    return [
        Hypothesis(
            each.tokens,
            each.exits,
            each.token_scores,
            each.score,
            each.has_finished,
            each.words if is_selective else None,
        )
        for each in found
    ]
