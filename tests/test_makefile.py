"""Makefile: a user gets what the command needs, a developer the tools and extras beside it."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def commands_of(*targets: str) -> str:
    """What `make TARGETS` would do in a fresh clone."""
    # the tests may be run by make
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "--dry-run", "--always-make", *targets]
    return subprocess.run(command, cwd=ROOT, env=outside, capture_output=True, text=True, check=True).stdout


def test_the_demo_installs_no_tools_and_no_extras() -> None:
    planned = commands_of("demo")
    assert "pip install --quiet --constraint constraints.txt --editable ." in planned
    assert "[" not in planned.replace("$(", ""), "an extra stands in brackets"


def test_serving_installs_its_extra_and_no_tools() -> None:
    planned = commands_of("serve")
    assert (
        planned.index("--editable .") < planned.index("'anydepth[server]'") < planned.index("anydepth serve runs/demo")
    )
    assert "[dev]" not in planned


@pytest.mark.parametrize("target", ["lint", "test"])
def test_developers_get_what_users_get_first_and_the_tools_beside_it_without_building_again(target: str) -> None:
    planned = commands_of(target)
    assert planned.index("--editable .") < planned.index("'anydepth[dev]'")
    assert planned.count("--editable") == 1
