"""A bulk job on a Ray cluster of three nodes, of which one is removed, while a worker and the driver
are killed."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.skipif(find_spec("ray") is None, reason="RAY IS NOT INSTALLED: bulk work on a cluster was not tried")
def test_a_lost_node_a_killed_actor_and_a_killed_driver_cost_a_shard_each_at_most_and_no_byte() -> None:
    command = [sys.executable, ROOT / "soak" / "bulk_kills.py", "--on", "ray", "--size", "0.03"]
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert finished.returncode == 0, finished.stdout[-4000:]
    assert "3 of 3 kills hit (driver 1, node 1, worker 1)" in finished.stdout
    assert "the bytes of translate" in finished.stdout
