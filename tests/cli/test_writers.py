"""Two commands that would write to one place: the second is refused in one sentence, and readers
are not."""

from pathlib import Path

import pytest
from cli.commands import anydepth, assert_refused, contents, done
from cli.conftest import TUNING, options_for_prepare

from anydepth.files.locks import one_writer

BUSY = "another anydepth command is writing to"


@pytest.mark.parametrize(
    "command",
    [
        ["train", "--resume", "--to", "RUN"],
        ["train", "CONFIG", "--data", "DATA", "--to", "RUN", "--overwrite"],
        ["train", "--from", "OTHER", "--to", "RUN", "--overwrite"],
        ["tune", "RUN", "--valid", "VALID", *TUNING],
        ["score-exits", "RUN", "--sentences", "2"],
        ["export", "RUN", "--format", "onnx"],
        ["export", "RUN", "--format", "ctranslate2"],
    ],
    ids=["resume", "overwrite", "from", "tune", "score-exits", "onnx", "ctranslate2"],
)
def test_a_run_that_is_written_to_is_left_alone(
    own_run: Path, run: Path, data: Path, settings: Path, held_out: Path, command: list[object]
) -> None:
    places = {"RUN": own_run, "OTHER": run, "DATA": data, "CONFIG": settings, "VALID": held_out}
    before = contents(own_run)
    with one_writer(own_run):
        assert_refused(anydepth(*(places.get(str(word), word) for word in command)), f"{BUSY} {own_run} (process ")
        done("translate", own_run, stdin=b"hund\n")
    assert contents(own_run) == before


def test_prepared_data_that_is_written_to_is_left_alone(own_text: Path) -> None:
    command = ["prepare", *options_for_prepare(own_text, own_text / "data")]
    with one_writer(own_text / "data"):
        assert_refused(anydepth(*command), f"{BUSY} {own_text / 'data'} (process ")
    done(*command)
    with one_writer(own_text / "data"):
        assert_refused(anydepth(*command, "--overwrite"), f"{BUSY} {own_text / 'data'} (process ")


def test_a_refused_training_leaves_neither_lock_nor_folders(tmp_path: Path) -> None:
    assert_refused(anydepth("train", "--resume", "--to", tmp_path / "a" / "run"), "is not a run directory")
    assert list(tmp_path.iterdir()) == []
