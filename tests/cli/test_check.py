"""`anydepth check` and `anydepth seal`: a folder of any kind is looked at as a whole, and a run is
vouched for."""

from pathlib import Path

import pytest
from cli.commands import anydepth, assert_refused, contents, done
from damages import flip


def test_every_file_of_a_run_and_of_its_data_is_checked(own_run: Path, data: Path) -> None:
    outcome = done("check", data)
    assert outcome.err == f"{data}: {len(contents(data)) - 1} files, all of them as they were written\n"
    outcome = done("check", own_run)
    loose = {"seal.json", ".seal.json.lock", "train.log"}
    assert (
        outcome.err == f"{own_run}: {len(contents(own_run).keys() - loose)} files, all of them as they were written\n"
    )
    oldest = min((own_run / "checkpoints").iterdir())
    flip(oldest)
    assert_refused(anydepth("check", own_run), f"{oldest} is not as the run wrote it")


def test_an_export_is_checked_wherever_it_is(own_run: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    done("export", own_run, "--format", "ctranslate2", "--exit", 2, "--to", tmp_path / "ct2")
    done("export", own_run, "--format", "onnx")
    for folder, file, again in (
        (tmp_path / "ct2", "model.bin", "`anydepth export RUN --format ctranslate2`"),
        (own_run / "export" / "onnx", "block2.onnx", "`anydepth export RUN --format onnx`"),
    ):
        done("check", folder)
        flip(folder / file)
        assert_refused(anydepth("check", folder), f"{folder / file} is damaged (its checksum differs)", again)
        (folder / file).unlink()
        assert_refused(anydepth("check", folder), f"{folder / file} is missing", again)


def test_a_folder_of_another_kind_is_refused(tmp_path: Path) -> None:
    assert_refused(anydepth("check", tmp_path), f"{tmp_path} is neither a run nor prepared data nor an export")
    assert_refused(anydepth("seal", tmp_path), f"{tmp_path} is not a run directory: it has no config.toml")


def test_vouching_says_what_it_does_and_what_of_the_metrics_is_gone(own_run: Path) -> None:
    (own_run / "seal.json").unlink()
    assert_refused(
        anydepth("translate", own_run, stdin=b"hund\n"), f"{own_run} has no seal.json", f"`anydepth seal {own_run}`"
    )
    with open(own_run / "metrics.jsonl", "ab") as file:
        file.write(b"damaged\n")
    warning, said = done("seal", own_run).err.splitlines()
    assert warning == f"warning: 1 damaged lines of {own_run / 'metrics.jsonl'} are gone"
    assert said.startswith(f"{own_run} is sealed: ") and said.endswith(
        "checked as far as they can be and are vouched for as they are now"
    )
    done("translate", own_run, stdin=b"hund\n")
    done("check", own_run)
