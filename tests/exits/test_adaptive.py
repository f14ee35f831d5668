"""The model with its halting module: loaded from its run with nothing beside it, and started from
another run's weights."""

import re
from pathlib import Path

import pytest
import torch
from tiny import prepare_tiny, short_training, tiny_model

from anydepth.errors import RunError
from anydepth.inference.translator import Translator
from anydepth.model.checkpoint import model_tensors, save_tensors
from anydepth.runs.models import HALTING, load_model, new_model, start_from
from anydepth.runs.run import Run, create_run
from anydepth.text.prepared import PreparedData

KINDS = ["none", "sequence", "multinomial", "geometric"]


@pytest.fixture(scope="module", params=[False, True], ids=["separate", "joint"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    return prepare_tiny(tmp_path_factory.mktemp("prepared"), joint=request.param)


@pytest.mark.parametrize("kind", KINDS)
def test_a_finished_run_loads_the_saved_weights_ready_to_translate(
    data: PreparedData, tmp_path: Path, kind: str
) -> None:
    run = create_run(tmp_path / "run", short_training(f"exits.halting={kind}"), data)
    torch.manual_seed(8)
    model = new_model(run)
    save_tensors(run.weights_file, model_tensors(model))
    loaded = load_model(run)
    assert not loaded.training
    assert all(mine.equal(theirs) for mine, theirs in zip(model.parameters(), loaded.parameters(), strict=True))
    assert type(loaded.halting) is type(model.halting)
    assert (loaded.halting is None) == (kind == "none")


def test_a_folder_without_settings_has_no_model(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=rf"{re.escape(str(tmp_path))} is not a run directory: it has no config.toml"):
        load_model(Run(tmp_path))


def test_a_run_whose_training_has_not_ended_has_no_weights_and_says_how_to_go_on(
    data: PreparedData, tmp_path: Path
) -> None:
    run = create_run(tmp_path / "run", short_training(), data)
    with pytest.raises(RunError, match=r"has no model.safetensors: train it first"):
        load_model(run)
    save_tensors(run.state_file, {})
    with pytest.raises(
        RunError, match=r"has no model.safetensors: its training has not ended; go on with `anydepth train --resume`"
    ):
        load_model(run)


def test_damaged_weights_are_named(data: PreparedData, tmp_path: Path) -> None:
    run = create_run(tmp_path / "run", short_training(), data)
    save_tensors(run.weights_file, model_tensors(new_model(run)))
    run.weights_file.write_bytes(run.weights_file.read_bytes()[:-100])
    with pytest.raises(RunError, match=rf"{re.escape(str(run.weights_file))} is not as the run wrote it"):
        load_model(run)


@pytest.mark.parametrize("engine", ["auto", "native", "onnx", "torch"])
@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
def test_weights_that_are_not_numbers_are_refused_by_file_and_tensor_whatever_the_engine(
    data: PreparedData, tmp_path: Path, engine: str, bad: float
) -> None:
    run = create_run(tmp_path / "run", short_training(), data)
    tensors = model_tensors(new_model(run))
    tensors["classifiers.2"][1, 2] = bad
    save_tensors(run.weights_file, tensors)
    words = (
        rf"^{re.escape(str(run.weights_file))} has weights that are not numbers \(classifiers\.2\); train "
        r"again with a lower"
    )
    with pytest.raises(RunError, match=words):
        Translator.load(run.folder, engine=engine)


def test_weights_without_the_halting_module_that_the_settings_name_are_refused(
    data: PreparedData, tmp_path: Path
) -> None:
    run = create_run(tmp_path / "run", short_training("exits.halting=geometric"), data)
    tensors = model_tensors(new_model(run))
    save_tensors(run.weights_file, {name: tensor for name, tensor in tensors.items() if not name.startswith(HALTING)})
    with pytest.raises(
        RunError, match=r"does not fit its configuration: halting.stop_score.bias is in only one of them"
    ):
        load_model(run)


@pytest.mark.parametrize("before", KINDS)
@pytest.mark.parametrize("after", KINDS)
def test_a_start_takes_over_all_weights_but_those_of_another_halting_module(
    tmp_path: Path, before: str, after: str
) -> None:
    old, model = tiny_model(f"exits.halting={before}", seed=1), tiny_model(f"exits.halting={after}", seed=2)
    fresh = {name: tensor.clone() for name, tensor in model_tensors(model).items()}
    save_tensors(tmp_path / "start.safetensors", model_tensors(old))
    start_from(model, tmp_path / "start.safetensors")
    old_tensors = model_tensors(old)
    for name, tensor in model_tensors(model).items():
        assert tensor.equal(old_tensors[name] if name in old_tensors else fresh[name])
    is_taken_over = {name: name in old_tensors for name in fresh}
    assert all(is_taken_over[name] == (not name.startswith(HALTING) or before == after) for name in fresh)


def test_a_start_leaves_a_halting_module_of_another_size_as_it_is(tmp_path: Path) -> None:
    old = tiny_model("exits.halting=geometric", seed=1)
    model = tiny_model("exits.halting=geometric", "exits.halting_units=3", seed=2)
    fresh = {name: tensor.clone() for name, tensor in model_tensors(model).items() if name.startswith(HALTING)}
    save_tensors(tmp_path / "start.safetensors", model_tensors(old))
    start_from(model, tmp_path / "start.safetensors")
    old_tensors = model_tensors(old)
    assert all(tensor.equal(fresh.get(name, old_tensors.get(name))) for name, tensor in model_tensors(model).items())


def test_a_start_with_other_weights_than_the_model_has_is_refused(tmp_path: Path) -> None:
    model, fewer = tiny_model("exits.halting=geometric"), tiny_model("model.blocks=3", "exits.halting=geometric")
    save_tensors(tmp_path / "start.safetensors", model_tensors(fewer))
    with pytest.raises(
        RunError, match=r"start.safetensors does not fit its configuration: classifiers.3 is in only one of them"
    ):
        start_from(model, tmp_path / "start.safetensors")
