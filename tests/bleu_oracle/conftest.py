"""A run with scores, and copies of it without."""

import shutil
from pathlib import Path

import pytest
from bleu_oracle.scored import scored
from evaluation.translators import make_run

from anydepth.runs.run import Run


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with random weights and the scores of all pairs, which tests only read."""
    run = make_run(tmp_path_factory.mktemp("whole"))
    scored(run)
    return run


@pytest.fixture
def own(whole: Run, tmp_path: Path) -> Run:
    """A copy of that run without scores."""
    run = Run(Path(shutil.copytree(whole.folder, tmp_path / "own")))
    run.seal.remove([run.scores_file])
    return run
