"""Processes that share the tests must find the same names, whenever they look and whatever their
hash seed is."""

import os
import re
import shutil
import subprocess
import sys
import time
from itertools import zip_longest
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ONE_TEST = """
import gzip, tempfile
import pytest

@pytest.mark.parametrize("value", {values})
def test_one(value): pass
"""


def collection(folder: Path, *places: str, hash_seed: int) -> subprocess.CompletedProcess[str]:
    """What pytest says when it collects the tests in `folder` in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-o",
        "addopts=--import-mode=importlib",
        "-p",
        "no:cacheprovider",
    ]
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run([*command, *places], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("selection", ["make test", pytest.param("make soak", marks=pytest.mark.soak)])
def test_another_process_collects_the_same_names_in_the_same_order_later_and_with_another_hash_seed(
    request: pytest.FixtureRequest, selection: str
) -> None:
    time.sleep(1.1)  # a name that holds the second of its making is another one now
    options = request.config.option
    again = collection(ROOT, "-m", options.markexpr, "-k", options.keyword, *request.config.args, hash_seed=os.getpid())
    assert again.returncode == 0, again.stdout
    names = [line for line in again.stdout.splitlines() if "::" in line]
    differences = [
        pair for pair in zip_longest(names, (item.nodeid for item in request.session.items)) if len(set(pair)) > 1
    ]
    assert differences[:3] == []


def test_names_made_of_what_differs_between_processes_are_refused_with_the_cure(tmp_path: Path) -> None:
    refused = {
        '[gzip.compress(b"a time is inside")]': r"the parameter value = b'.*' would name a test by its bytes; write "
        r"the id by hand",
        '{"a", "b"}': "test_one takes its parameters from a set, whose order differs between processes; sort them",
        "[repr(object())]": r"the parameter value = '<object object at .*>' would name a test by an address or a "
        r"temporary folder; write",
        "[tempfile.mkdtemp()]": r"the parameter value = '.*' would name a test by an address or a temporary folder; "
        r"write the id by hand",
    }
    accepted = '[b"x", "at 0x7fa0b1c2d3e4"], ids=["first", "second"]'
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    for number, values in enumerate([*refused, accepted]):
        (tmp_path / f"test_{number}.py").write_text(ONE_TEST.format(values=values), encoding="utf-8")
    said = collection(tmp_path, hash_seed=0).stdout
    assert [line for line in said.splitlines() if "::" in line] == [
        "test_4.py::test_one[first]",
        "test_4.py::test_one[second]",
    ]
    for number, reason in enumerate(refused.values()):
        assert re.search(rf"ERROR collecting test_{number}\.py _+\n{reason}", said), said
