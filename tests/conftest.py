"""Shapes are checked while tests run: beartype enforces every jaxtyping annotation of the package. And what all system tests share."""

from pathlib import Path

import pytest
from jaxtyping import install_import_hook

install_import_hook("anydepth", "beartype.beartype")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two workers share the tests file by file; one of them has all system tests, which share a trained model and take longest."""
    for item in items:
        is_system = item.get_closest_marker("system") is not None
        item.add_marker(pytest.mark.xdist_group("system" if is_system else str(item.path)))
    items.sort(key=lambda item: item.get_closest_marker("system") is None)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the built-in corpus, its data and a short training of it, for all system tests."""
    from anydepth.evaluation.measure import validation_scorer
    from anydepth.text.demo.corpus import write_corpus
    from anydepth.text.prepare import PrepareSettings, prepare
    from anydepth.training.start import new_run, train_run

    folder = tmp_path_factory.mktemp("system")
    write_corpus(folder / "text")
    train, valid, test = (str(folder / "text" / split) for split in ("train", "valid", "test"))
    prepare(PrepareSettings("de", "en", train, valid, test, vocab_size=2000), folder / "data")
    config = Path(__file__).parents[1] / "configs" / "demo.toml"
    run = folder / "run"
    train_run(run, lambda: new_run(run, config, folder / "data", [], overwrite=False), validation_scorer)
    return folder
