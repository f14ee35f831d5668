"""A bulk job on a Ray cluster of three nodes, of which one is removed, while a worker and the driver
are killed."""

from importlib.util import find_spec

import pytest
from bulk.crews import killed_on_ray


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.skipif(find_spec("ray") is None, reason="RAY IS NOT INSTALLED: bulk work on a cluster was not tried")
def test_a_lost_node_a_killed_actor_and_a_killed_driver_cost_a_shard_each_at_most_and_no_byte() -> None:
    assert "the bytes of translate" in killed_on_ray("bulk_kills.py", size=0.03)
