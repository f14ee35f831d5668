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
import gzip, tempfile, time
import pytest

@pytest.mark.parametrize("value", {values})
def test_one(value): pass
"""


def pytest_in(folder: Path, *options: str, hash_seed: int | None = None) -> subprocess.CompletedProcess[str]:
    """What pytest says of the tests in `folder` in a process of its own."""
    without = ("no:cacheprovider", "no:schemathesis")  # the one writes, the other words the refusals anew
    command = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=--import-mode=importlib"]
    command += [word for plugin in without for word in ("-p", plugin)]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    seed = "random" if hash_seed is None else str(hash_seed)
    environment = outside | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run([*command, *options], cwd=folder, env=environment, capture_output=True, text=True)


def collection(folder: Path, *, hash_seed: int) -> subprocess.CompletedProcess[str]:
    """What pytest says when it collects the tests in `folder` in a process of its own."""
    return pytest_in(folder, "--collect-only", hash_seed=hash_seed)


def names_in(said: str) -> list[str]:
    return [line for line in said.splitlines() if "::" in line]


@pytest.mark.soak  # in `make test` pytest-xdist compares the names of its two processes, of which one looks later
def test_another_process_collects_the_same_names_in_the_same_order_later_and_with_another_hash_seed() -> None:
    first = collection(ROOT, hash_seed=1)
    time.sleep(1.1)  # a name that holds the second of its making is another one now
    again = collection(ROOT, hash_seed=2)
    assert first.returncode == again.returncode == 0, again.stdout
    pairs = zip_longest(names_in(first.stdout), names_in(again.stdout))
    assert [pair for pair in pairs if len(set(pair)) > 1][:3] == []


@pytest.mark.soak
@pytest.mark.parametrize("name", ["str(int(time.time()))", "str(hash('word'))"], ids=["a time", "a hash"])
def test_processes_that_find_other_names_share_no_tests(name: str, tmp_path: Path) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_0.py").write_text(ONE_TEST.format(values=f"[{name}]"), encoding="utf-8")
    ending = pytest_in(tmp_path, "--numprocesses", "2", "--dist", "loadfile")
    assert ending.returncode == 1
    assert "Different tests were collected between gw" in ending.stdout


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
    assert names_in(said) == [
        "test_4.py::test_one[first]",
        "test_4.py::test_one[second]",
    ]
    for number, reason in enumerate(refused.values()):
        assert re.search(rf"ERROR collecting test_{number}\.py _+\n{reason}", said), said
