"""export: a folder for another program, named on standard output, and what cannot be exported in
one sentence."""

from pathlib import Path

import pytest
from cli.commands import anydepth, assert_refused, done


def test_an_exit_is_exported_for_ctranslate2(own_run: Path, tmp_path: Path) -> None:
    outcome = done("export", own_run, "--format", "ctranslate2", "--exit", 2)
    assert outcome.out == f"{own_run / 'export' / 'ctranslate2-exit2'}\n"
    assert {"model.bin", "shared_vocabulary.json", "tokenizer.model"} < {
        path.name for path in Path(outcome.out.strip()).iterdir()
    }
    assert (
        done("export", own_run, "--format", "ctranslate2", "--int8", "--to", tmp_path / "here").out
        == f"{tmp_path / 'here'}\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--format", "marian"], "--format marian: models are exported as onnx, ctranslate2 or huggingface"),
        (["--format", "ctranslate2", "--exit", 4], "fixed:4: this model has exits 1 to 3"),
        (["--format", "ctranslate2", "--exit", 0], "fixed:0: this model has exits 1 to 3"),
        (["--format", "onnx", "--exit", 1], "--exit and --to belong to --format ctranslate2 and huggingface"),
        (["--format", "huggingface", "--int8"], "--int8 belongs to --format onnx and ctranslate2"),
        (["--format", "huggingface"], 'cannot be said in MarianMT\'s format: model.positions = "sinusoidal"'),
    ],
)
def test_what_cannot_be_exported_is_refused(run: Path, arguments: list[object], words: str) -> None:
    assert_refused(anydepth("export", run, *arguments), words)
    assert not (run / "export").exists()
