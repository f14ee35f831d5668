"""Scores on a Ray cluster of three nodes, of which one is removed, while a worker and the driver are
killed."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.skipif(find_spec("ray") is None, reason="RAY IS NOT INSTALLED: scoring on a cluster was not tried")
def test_a_lost_node_a_killed_actor_and_a_killed_driver_change_no_score() -> None:
    command = [sys.executable, ROOT / "soak" / "score_kills.py", "--on", "ray", "--size", "0.15"]
    finished = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert finished.returncode == 0, finished.stdout[-4000:]
    assert "3 of 3 kills hit (driver 1, node 1, worker 1)" in finished.stdout
    assert "the scores of an undisturbed call" in finished.stdout
