"""Shapes are checked while tests run: beartype enforces every jaxtyping annotation of the package."""

import pytest
from jaxtyping import install_import_hook

install_import_hook("anydepth", "beartype.beartype")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """System tests, which take longest, come first: of two processes that share the files one begins with them at once."""
    items.sort(key=lambda item: item.get_closest_marker("system") is None)
