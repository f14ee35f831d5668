"""Sample runs that are loaded once for all tests of the server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.commands import done
from fastapi.testclient import TestClient
from server.serving import SAMPLES, client_of_server, loaded, sample_run

from anydepth.server.pairs import ServedPair, ServedPairs


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """German to English, tuned and with a word selection, and French to German, which was not tuned."""
    folder = tmp_path_factory.mktemp("served")
    first, second = sample_run("exits", folder / "first"), sample_run("aligned", folder / "second", "fr", "de")
    text, data = SAMPLES / "text" / "test", SAMPLES / "data" / "joint"
    done("vocabulary", first, "--valid", text, "--data", data, "--size", 7, "--tolerance", 100)
    return [first, second]


@pytest.fixture(scope="session")
def pairs(runs: list[Path]) -> Iterator[ServedPairs]:
    """Both runs, loaded."""
    served = loaded(*runs)
    yield served
    served.close()


@pytest.fixture(scope="session")
def pair(pairs: ServedPairs) -> ServedPair:
    """German to English."""
    return pairs.pair("de", "en")


@pytest.fixture
def client(pairs: ServedPairs) -> TestClient:
    """A client of both, without limits of its rate."""
    return client_of_server(pairs)
