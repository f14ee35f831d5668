"""Rules for the whole suite: shapes are checked while tests run, and a test has the same name in
every process.

beartype enforces the annotations of every module that has shapes (jaxtyping); mypy checks those of
the others. Processes that share the tests must collect the same names, so a name may not be made of
what differs between them: bytes (which may hold a time), the order of a set, an address, a
temporary folder. pytest-xdist ends a run whose processes found other names or another order.
"""

import os
import re
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import settings
from shape_checks import enforce_annotations

PACKAGE = Path(__file__).parents[1] / "anydepth"
SHAPED = [
    ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
    for file in sorted(PACKAGE.rglob("*.py"))
    if "from jaxtyping import" in file.read_text(encoding="utf-8")
]
enforce_annotations(SHAPED)

from anydepth.training.instructions import avoid_missing_instructions  # noqa: E402 (annotations are enforced first)

avoid_missing_instructions()  # for products of bfloat16 that tests make by themselves
settings.register_profile("unhurried", deadline=None)  # an example may take long beside other work
settings.load_profile("unhurried")

ADDRESS = re.compile(r"\bat 0x[0-9a-f]{6,}")


def pytest_collection() -> None:
    """Has the second of several processes look for the tests later than the first: a name that holds
    the second of its making is another one there. Their hash seeds differ anyway."""
    if os.environ.get("PYTEST_XDIST_WORKER") == "gw1":
        time.sleep(1.1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for mark in metafunc.definition.iter_markers("parametrize"):
        values = mark.kwargs.get("argvalues", mark.args[-1])
        if isinstance(values, set | frozenset):
            refuse(
                f"{metafunc.definition.name} takes its parameters from a set, whose order differs between processes; "
                "sort them"
            )


def pytest_make_parametrize_id(val: object, argname: str) -> None:
    """Leaves every name as pytest would make it, or refuses it; ids that are written by hand do not
    come here."""
    if isinstance(val, bytes | bytearray | memoryview):
        refuse(f"the parameter {argname} = {bytes(val[:20])!r} would name a test by its bytes; write the id by hand")
    if isinstance(val, str) and (ADDRESS.search(val) or tempfile.gettempdir() in val):
        refuse(
            f"the parameter {argname} = {val!r} would name a test by an address or a temporary folder; write the "
            "id by hand"
        )


def refuse(reason: str) -> None:
    pytest.fail(reason, pytrace=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """System tests, which take longest, come first: of two processes that share the files one
    begins with them at once."""
    items.sort(key=lambda item: item.get_closest_marker("system") is None)
