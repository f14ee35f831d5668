"""Studies to make reports of."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from report.drawing import drawing_once
from report.reports import written_report
from report.studies import write_study


@pytest.fixture(scope="session", autouse=True)
def drawn_once() -> Iterator[None]:
    with drawing_once():
        yield


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of six blocks with its report; not to be changed."""
    folder = write_study(tmp_path_factory.mktemp("finished"))
    written_report(folder)
    return folder


@pytest.fixture(scope="session")
def page(finished: Path) -> str:
    return (finished / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two blocks; not to be changed."""
    return write_study(tmp_path_factory.mktemp("pristine") / "study", blocks=2)


@pytest.fixture
def small(pristine: Path, tmp_path: Path) -> Path:
    return shutil.copytree(pristine, tmp_path / "study", copy_function=shutil.copyfile)


@pytest.fixture(scope="session")
def pristine_seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of six blocks and two seeds; not to be changed."""
    return write_study(tmp_path_factory.mktemp("seeds") / "study", seeds=(1, 2))
