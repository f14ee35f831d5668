"""Weights on disk: exact, averaged, and refused by name when anything is wrong with them."""

import math
import re
from pathlib import Path

import pytest
import torch
from tiny import DIM, TARGET_VOCAB, tiny_model
from torch import Tensor
from variations import ban

from anydepth.errors import RunError
from anydepth.model.checkpoint import (
    average_tensors,
    fill_model,
    load_tensors,
    load_weights,
    model_tensors,
    save_tensors,
)

NOTES = {"progress": '{"update": 7}', "word": "größer"}


def some_tensors(seed: int = 1) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "a": torch.randn(3, 5, generator=generator),
        "b.weight": torch.randn(2, generator=generator),
        "empty": torch.empty(0, 4),
    }


@pytest.fixture
def file(tmp_path: Path) -> Path:
    save_tensors(tmp_path / "model.safetensors", some_tensors(), NOTES)
    return tmp_path / "model.safetensors"


def test_tensors_and_notes_come_back_exactly(file: Path) -> None:
    tensors, notes = load_tensors(file)
    assert notes == NOTES
    assert tensors.keys() == some_tensors().keys()
    assert all(tensor.equal(some_tensors()[name]) for name, tensor in tensors.items())


def test_odd_values_types_and_layouts_come_back_bit_by_bit(tmp_path: Path) -> None:
    stored = {
        "odd": torch.tensor([float("nan"), float("inf"), -0.0, 1e-45]),
        "transposed": torch.arange(6.0).view(2, 3).t(),
        "half": torch.randn(3).bfloat16(),
        "whole": torch.tensor([2**62]),
    }
    save_tensors(tmp_path / "odd.safetensors", stored)
    loaded = load_tensors(tmp_path / "odd.safetensors")[0]
    for name, tensor in stored.items():
        assert loaded[name].dtype == tensor.dtype
        assert loaded[name].contiguous().view(torch.uint8).equal(tensor.contiguous().view(torch.uint8))


def test_a_model_filled_from_a_file_has_the_saved_weights(tmp_path: Path) -> None:
    model, other = tiny_model(seed=1), tiny_model(seed=2)
    save_tensors(tmp_path / "model.safetensors", model_tensors(model))
    fill_model(other, load_tensors(tmp_path / "model.safetensors")[0], tmp_path / "model.safetensors")
    assert all(mine.equal(theirs) for mine, theirs in zip(model.parameters(), other.parameters(), strict=True))


def test_a_bias_that_bans_a_word_is_kept_and_any_other_infinity_is_refused(tmp_path: Path) -> None:
    model, file = tiny_model("model.output_bias=true"), tmp_path / "model.safetensors"
    ban(model, 7, bias=-math.inf)
    save_tensors(file, model_tensors(model))
    assert load_weights(file)[0]["output_bias"].equal(model.output_bias.data)
    assert average_tensors([file, file])["output_bias"].equal(model.output_bias.data)
    for name, bad in (
        ("output_bias", math.inf),
        ("output_bias", math.nan),
        ("encoder.0.attention_norm.bias", -math.inf),
    ):
        tensors = {key: tensor.clone() for key, tensor in model_tensors(model).items()}
        tensors[name][3] = bad
        save_tensors(file, tensors)
        with pytest.raises(RunError, match=rf"has weights that are not numbers \({name}\)"):
            load_weights(file)


def test_a_matrix_that_modules_share_is_stored_once() -> None:
    model = tiny_model("model.classifiers=tied", f"model.encoder.dim={DIM}", is_joint=True)
    assert [name for name, tensor in model_tensors(model).items() if tensor.shape[0] == TARGET_VOCAB] == [
        "target_embedding.weight"
    ]


def test_a_file_cut_short_anywhere_is_refused_by_name(file: Path) -> None:
    whole = file.read_bytes()
    for length in [0, 1, 7, 8, 9, 40, len(whole) // 2, len(whole) - 30, len(whole) - 1]:
        file.write_bytes(whole[:length])
        with pytest.raises(RunError, match=rf"{re.escape(str(file))} is damaged or cut short"):
            load_tensors(file)


def test_no_flipped_bit_of_header_or_data_is_accepted(file: Path) -> None:
    whole = file.read_bytes()
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with pytest.raises(RunError, match=re.escape(str(file))):
            load_tensors(file)


def test_a_flipped_byte_in_the_data_is_a_wrong_checksum(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    whole[-1] ^= 1
    file.write_bytes(whole)
    with pytest.raises(
        RunError, match=rf"{re.escape(str(file))} does not have the contents that were saved \(its checksum differs\)"
    ):
        load_tensors(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=re.escape(f"there is no {tmp_path / 'model.safetensors'}")):
        load_tensors(tmp_path / "model.safetensors")


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=re.escape(str(tmp_path))):
        load_tensors(tmp_path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda tensors: tensors.pop("classifiers.0"), "classifiers.0 is in only one of them"),
        (lambda tensors: tensors.update(extra=torch.zeros(1)), "extra is in only one of them"),
        (
            lambda tensors: tensors.update({"classifiers.0": torch.zeros(TARGET_VOCAB, DIM + 1)}),
            rf"classifiers.0 is \({TARGET_VOCAB}, {DIM + 1}\) in the file and \({TARGET_VOCAB}, {DIM}\) in the model",
        ),
    ],
)
def test_weights_of_another_model_are_refused_with_the_first_difference(damage: object, message: str) -> None:
    model = tiny_model()
    tensors = model_tensors(model)
    damage(tensors)
    with pytest.raises(RunError, match=rf"somewhere.safetensors does not fit its configuration: {message}"):
        fill_model(model, tensors, Path("somewhere.safetensors"))


def test_averaging_equals_the_mean(tmp_path: Path) -> None:
    files = [tmp_path / f"{seed}.safetensors" for seed in (1, 2, 3)]
    for seed, path in enumerate(files, 1):
        save_tensors(path, some_tensors(seed))
    averaged = average_tensors(files)
    for name in ("a", "b.weight"):
        expected = torch.stack([some_tensors(seed)[name].double() for seed in (1, 2, 3)]).mean(dim=0)
        assert averaged[name].dtype == torch.float32
        assert averaged[name].equal(expected.float())


def test_the_average_of_one_is_itself(file: Path) -> None:
    averaged = average_tensors([file])
    assert all(tensor.equal(averaged[name]) for name, tensor in some_tensors().items())
