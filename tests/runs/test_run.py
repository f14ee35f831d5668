"""The run directory: made once, never replaced by accident, and loaded with nothing beside it."""

import re
import shutil
from pathlib import Path

import pytest
from tiny import prepare_tiny, short_training

from anydepth.errors import RunError
from anydepth.model.checkpoint import save_tensors
from anydepth.runs.run import Run, create_run
from anydepth.text.prepared import PreparedData


@pytest.fixture(scope="module", params=[False, True], ids=["separate", "joint"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    return prepare_tiny(tmp_path_factory.mktemp("prepared"), joint=request.param)


def test_a_run_gives_back_its_settings_tokenizers_and_data(data: PreparedData, tmp_path: Path) -> None:
    config = short_training("training.seed=5")
    run = create_run(tmp_path / "run", config, data)
    source, target = run.tokenizers()
    assert run.config == config
    assert (source.fingerprint, target.fingerprint) == (
        data.source_tokenizer.fingerprint,
        data.target_tokenizer.fingerprint,
    )
    assert (source is target) == data.is_joint
    assert run.data_note() == {
        "folder": str(data.folder.resolve()),
        "fingerprint": data.fingerprint,
        "source_lang": "de",
        "target_lang": "en",
    }


def test_an_existing_folder_is_refused_and_left_as_it_was(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", short_training("training.seed=5"), data)
    with pytest.raises(
        RunError, match=rf"{re.escape(str(run.folder))} exists already; choose another --to, go on with --resume"
    ):
        create_run(run.folder, short_training("training.seed=6"), data)
    assert run.config.training.seed == 5


def test_an_empty_folder_may_become_a_run(data: PreparedData, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert create_run(tmp_path / "run", short_training(), data).config == short_training()


def test_overwriting_leaves_nothing_of_the_old_run(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", short_training("training.seed=5"), data)
    save_tensors(run.checkpoint_file(3), {})
    run.weights_file.write_bytes(b"old")
    assert run.checkpoints() == [(3, run.checkpoint_file(3))]
    create_run(run.folder, short_training("training.seed=6"), data, overwrite=True)
    assert run.config.training.seed == 6
    assert run.checkpoints() == []
    assert not run.weights_file.exists()


def test_a_run_that_a_kill_left_without_its_name_is_found(data: PreparedData, tmp_path: Path) -> None:
    folder = create_run(tmp_path / "run", short_training("training.seed=5"), data).folder
    folder.rename(tmp_path / ".run.old")  # what a kill between the two renames of --overwrite leaves
    assert Run(folder).config.training.seed == 5
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_overwriting_a_linked_run_keeps_the_link(data: PreparedData, tmp_path: Path) -> None:
    create_run(tmp_path / "run", short_training("training.seed=5"), data)
    (tmp_path / "link").symlink_to("run")
    create_run(tmp_path / "link", short_training("training.seed=6"), data, overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert Run(tmp_path / "run").config.training.seed == 6


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_overwriting_leaves_alone_what_is_not_a_run(data: PreparedData, tmp_path: Path, kind: str) -> None:
    precious = tmp_path / "thesis" / "chapter" if kind == "folder" else tmp_path / "thesis"
    precious.parent.mkdir(exist_ok=True)
    precious.write_text("precious")
    with pytest.raises(RunError, match=r"thesis exists and is not a run directory, so --overwrite leaves it alone"):
        create_run(tmp_path / "thesis", short_training(), data, overwrite=True)
    assert precious.read_text() == "precious"


def test_a_folder_without_settings_is_not_a_run(tmp_path: Path) -> None:
    refusal = rf"^{re.escape(str(tmp_path))} is not a run directory: it has no config.toml; .*`anydepth train`$"
    with pytest.raises(RunError, match=refusal):
        assert Run(tmp_path).config
    with pytest.raises(RunError, match=refusal):
        Run(tmp_path).tokenizers()


@pytest.mark.parametrize("contents", [None, "", "{", "\xff"])
def test_an_unreadable_note_about_the_data_is_named(data: PreparedData, tmp_path: Path, contents: str | None) -> None:
    run = create_run(tmp_path / "run", short_training(), data)
    if contents is None:
        run.data_file.unlink()
    else:
        run.data_file.write_text(contents, encoding="latin-1")
    run.seal.make()
    with pytest.raises(RunError, match=rf"{re.escape(str(run.data_file))}( cannot be read|; restore it)"):
        run.data_note()


@pytest.mark.parametrize("contents", ["{}", "[]", "3", '{"folder": "x"}'])
def test_a_note_about_the_data_that_tells_too_little_is_named(
    data: PreparedData, tmp_path: Path, contents: str
) -> None:
    run = create_run(tmp_path / "run", short_training(), data)
    run.data_file.write_text(contents)
    run.seal.make()
    with pytest.raises(RunError, match=rf"{re.escape(str(run.data_file))} does not tell what the run was trained on"):
        run.data_note()


def test_checkpoints_are_listed_by_update(tmp_path: Path) -> None:
    run = Run(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    run.seal.make()
    for update in (12, 3, 1_000_000):
        save_tensors(run.checkpoint_file(update), {})
    assert [update for update, _ in run.checkpoints()] == [3, 12, 1_000_000]


def test_a_run_is_not_replaced_whose_folder_holds_what_it_is_made_from(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", short_training(), data)
    inside = PreparedData.open(shutil.copytree(data.folder, run.folder / "data"))
    with pytest.raises(
        RunError, match=r"^--data .*run/data lies inside .*run, which --overwrite would replace; choose another --to$"
    ):
        create_run(run.folder, short_training(), inside, overwrite=True)
    inside.verify()
