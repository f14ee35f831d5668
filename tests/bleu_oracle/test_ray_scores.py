"""Scores on a Ray cluster of three nodes, of which one is removed, while a worker and the driver are
killed."""

from importlib.util import find_spec

import pytest
from bulk.crews import killed_on_ray


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.skipif(find_spec("ray") is None, reason="RAY IS NOT INSTALLED: scoring on a cluster was not tried")
def test_a_lost_node_a_killed_actor_and_a_killed_driver_change_no_score() -> None:
    assert "the scores of an undisturbed call" in killed_on_ray("score_kills.py", size=0.15)
