"""Prepared text for tests that train."""

import pytest
from tiny import prepare_tiny

from anydepth.text.prepared import PreparedData


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    """40 training and 5 validation pairs, which tests only read."""
    return prepare_tiny(tmp_path_factory.mktemp("prepared"))
