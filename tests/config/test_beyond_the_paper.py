"""Settings beyond the paper that do not go with each other."""

import re

import pytest

from anydepth.config.loading import make_config
from anydepth.errors import ConfigError

LEFT_OUT = (
    "training.exit_share = 0.5 leaves targets out at some exits, and a halting module and "
    "training.full_depth_weight look at all exits of a target; set training.exit_share = 1"
)


@pytest.mark.parametrize(
    ("change", "other", "message"),
    [
        (
            "training.gradient_ratio=0.5",
            "model.attended_states=first",
            "training.gradient_ratio scales what each block sends to the one below it (appendix A), and with "
            'model.attended_states = "first" all blocks send to the first; leave one of the two out',
        ),
        (
            "training.exit_share=0.5",
            "training.mode=mixed",
            'training.exit_share = 0.5 belongs to aligned training (Eq. 4); set training.mode = "aligned", or '
            "training.exit_share = 1",
        ),
        ("training.exit_share=0.5", "exits.halting=geometric", LEFT_OUT),
        ("training.exit_share=0.5", "training.full_depth_weight=1", LEFT_OUT),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_rule_the_values_and_the_cure(
    change: str, other: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=f"^--set [^:]*: {re.escape(message)}$"):
        make_config({}, [change, other])
    for one in (change, other):
        make_config({}, [one])
