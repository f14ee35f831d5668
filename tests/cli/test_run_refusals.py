"""A run directory that is damaged, or is none, is refused by every verb that reads one, and the
damaged file is named."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cli.commands import anydepth, assert_refused, contents
from cli.parsing import verbs_taking


def cut_weights(run: Path) -> None:
    whole = (run / "model.safetensors").read_bytes()
    (run / "model.safetensors").write_bytes(whole[: len(whole) * 2 // 3])


def change_one_bit_of_the_weights(run: Path) -> None:
    whole = bytearray((run / "model.safetensors").read_bytes())
    whole[-5] ^= 1
    (run / "model.safetensors").write_bytes(whole)


def empty_weights(run: Path) -> None:
    (run / "model.safetensors").write_bytes(b"")


def no_weights(run: Path) -> None:
    (run / "model.safetensors").unlink()


def weights_of_another_shape(run: Path) -> None:
    settings = (run / "config.toml").read_text(encoding="utf-8")
    (run / "config.toml").write_text(settings.replace("ffn_dim = 20", "ffn_dim = 28"), encoding="utf-8")


def training_state_as_weights(run: Path) -> None:
    (run / "model.safetensors").write_bytes((run / "state.safetensors").read_bytes())


def cut_tokenizer(run: Path) -> None:
    whole = (run / "tokenizer.model").read_bytes()
    (run / "tokenizer.model").write_bytes(whole[: len(whole) // 2])


def empty_tokenizer(run: Path) -> None:
    (run / "tokenizer.model").write_bytes(b"")


def no_tokenizer(run: Path) -> None:
    (run / "tokenizer.model").unlink()


def unknown_setting(run: Path) -> None:
    with open(run / "config.toml", "a", encoding="utf-8") as file:
        file.write("beams = 3\n")


DAMAGES: list[tuple[Callable[[Path], None], str, list[str]]] = [
    (cut_weights, "model.safetensors", ["model.safetensors is damaged or cut short"]),
    (empty_weights, "model.safetensors", ["model.safetensors is damaged or cut short"]),
    (change_one_bit_of_the_weights, "model.safetensors", ["model.safetensors", "checksum differs"]),
    (no_weights, "model.safetensors", ["model.safetensors", "--resume"]),
    (weights_of_another_shape, "config.toml", ["model.safetensors does not fit its configuration"]),
    (training_state_as_weights, "model.safetensors", ["model.safetensors does not fit its configuration"]),
    (cut_tokenizer, "tokenizer.model", ["tokenizer.model"]),
    (empty_tokenizer, "tokenizer.model", ["tokenizer.model is not a tokenizer"]),
    (no_tokenizer, "tokenizer.model", ["tokenizer"]),
    (unknown_setting, "config.toml", ["config.toml", "beams", "did you mean"]),
]


@pytest.mark.parametrize(("damage", "file", "words"), DAMAGES)
def test_a_damaged_file_is_named_and_never_used_whoever_vouches_for_it(
    own_run: Path, damage: Callable[[Path], None], file: str, words: list[str]
) -> None:
    damage(own_run)
    before = contents(own_run)
    outcome = anydepth("translate", own_run, stdin=b"hund\n")
    problem = "is not as the run wrote it" if (own_run / file).exists() else "is missing, but the run has written it"
    assert_refused(outcome, f"{own_run / file} {problem}", f"`anydepth seal {own_run}`")
    assert outcome.err.count("\n") == 1
    assert contents(own_run) == before
    vouched = anydepth("seal", own_run)
    assert_refused(
        anydepth("translate", own_run, stdin=b"hund\n") if vouched.code == 0 else vouched, str(own_run), *words
    )


def test_other_verbs_refuse_what_translation_refuses(own_run: Path, text: Path, tmp_path: Path) -> None:
    cut_weights(own_run)
    assert_refused(
        anydepth("evaluate", own_run, "--test", text / "test"), "model.safetensors is not as the run wrote it"
    )
    assert_refused(anydepth("tune", own_run, "--valid", text / "test"), "model.safetensors is not as the run wrote it")
    assert_refused(
        anydepth("plot", "tokens", own_run, "hund", "--to", tmp_path / "x.svg"),
        "model.safetensors is not as the run wrote it",
    )


def test_a_data_note_that_is_damaged_is_named_by_the_verbs_that_need_it(
    own_run: Path, text: Path, tmp_path: Path
) -> None:
    (own_run / "data.json").write_text("{", encoding="utf-8")
    assert_refused(anydepth("evaluate", own_run, "--test", text / "test"), "data.json")
    assert_refused(anydepth("tune", own_run, "--valid", text / "test"), "data.json")
    assert_refused(
        anydepth("plot", "scores", own_run, "--test", text / "test", "--to", tmp_path / "x.svg"), "data.json"
    )


@pytest.mark.parametrize("kind", ["missing", "empty", "file"])
def test_a_place_that_is_no_run_is_refused_by_every_verb(tmp_path: Path, text: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "empty":
        place.mkdir()
    if kind == "file":
        place.write_text("text", encoding="utf-8")
    picture = ["--to", tmp_path / "x.png"]
    test = ["--test", text / "test"]
    arguments: dict[str, list[object]] = {
        "bench": [place, *test],
        "bulk": [place, text / "test.de", "--to", tmp_path / "job"],
        "evaluate": [place, *test],
        "export": [place, "--format", "onnx"],
        "plot positions": [place, *test, *picture],
        "plot scores": [place, *test, *picture],
        "plot tokens": [place, "hund", *picture],
        "score-exits": [place],
        "seal": [place],
        "train": ["--resume", "--to", place],
        "translate": [place],
        "tune": [place, "--valid", text / "valid"],
        "vocabulary": [place, "--valid", text / "valid"],
    }
    assert set(verbs_taking("RUN")) == {*arguments} - {"train"}, "a verb with a RUN has its line above"
    for verb, own in arguments.items():
        assert_refused(anydepth(*verb.split(), *own, stdin=b"hund\n"), f"{place} is not a run directory")
    assert list(tmp_path.iterdir()) == ([] if kind == "missing" else [place])
