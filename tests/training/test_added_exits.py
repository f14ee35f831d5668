"""Exits for a model that has none: how they start, how they learn beside a frozen trunk and from full
depth, and what is refused."""

import re
from pathlib import Path

import pytest
import torch
from adapters import ADAPTER, stir
from tiny import BLOCKS, short_training, tiny_batch, tiny_config, tiny_model, train
from torch import Tensor
from torch.nn import functional as F
from training.metrics import train_losses

from anydepth.config.loading import save_config
from anydepth.errors import ConfigError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.model.checkpoint import load_tensors
from anydepth.runs.models import ADAPTERS, HALTING, load_model
from anydepth.runs.run import Run, create_run
from anydepth.text.batches import Batch
from anydepth.text.prepared import PreparedData
from anydepth.training.objective import TrainingObjective
from anydepth.training.optimizer import trained_parameters
from anydepth.training.start import continued_run, new_run, resumed_run, train_run

KINDS = ["untied", "shared", "tied"]
FROZEN = (ADAPTER, "training.trunk=frozen", "exits.halting=geometric")


@pytest.fixture(scope="module", params=KINDS)
def plain(request: pytest.FixtureRequest, data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A trained run with the last exit alone, which tests only read."""
    folder = tmp_path_factory.mktemp(request.param) / "run"
    changes = (f"model.classifiers={request.param}", "model.output_bias=true")
    run = create_run(folder, short_training("training.updates=2", "model.exits=last", *changes), data)
    train(run, data)
    return run


def given_exits(origin: Run, folder: Path, *changes: str) -> Run:
    """A trained run that starts from `origin` and has every exit."""
    every = ["model.exits=all", *changes]
    train_run(folder, lambda: continued_run(folder, origin.folder, None, every, overwrite=False))
    return Run(folder)


def trunk_of(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if not name.startswith((ADAPTERS, HALTING))}


def last_logits(model: AdaptiveTransformer, batch: Batch) -> Tensor:
    """What full depth says."""
    memory = model.encode(batch.source, batch.source_mask)
    states = model.decode(batch.target_inputs, memory, batch.source_mask)
    return model.logits_at(BLOCKS, states[-1].flatten(0, 1))


def test_a_model_with_one_exit_may_start_from_the_lowest_blocks_of_a_deeper_one(plain: Run, tmp_path: Path) -> None:
    hardly = ["training.updates=1", "training.learning_rate=1e-30", "training.final=last", "model.blocks=2"]
    train_run(tmp_path / "run", lambda: continued_run(tmp_path / "run", plain.folder, None, hardly, overwrite=False))
    own, whole = (load_tensors(run.weights_file)[0] for run in (Run(tmp_path / "run"), plain))
    assert set(whole) - set(own) == {name for name in whole if name.startswith(("decoder.2.", "decoder.3."))}
    for name, tensor in own.items():
        torch.testing.assert_close(tensor, whole[name], atol=1e-6, rtol=0)
    with pytest.raises(ConfigError, match=r"^model\.blocks = 5 is not that of .*\(4\); --from keeps the shape"):
        continued_run(tmp_path / "more", plain.folder, None, ["model.blocks=5"], overwrite=False)
    with pytest.raises(ConfigError, match=r"^model\.blocks = 2 is not that of .*\(4\); --from keeps the shape"):
        continued_run(tmp_path / "all", plain.folder, None, ["model.blocks=2", "model.exits=all"], overwrite=False)


def test_blocks_may_begin_to_attend_to_the_states_after_block_1(plain: Run, tmp_path: Path) -> None:
    run = given_exits(plain, tmp_path / "run", "model.attended_states=first", "training.updates=1")
    assert run.config.model.attended_states == "first"
    assert load_model(run).config == run.config.model


def test_blocks_may_begin_to_share_the_keys_of_block_2_and_not_cease_to(plain: Run, tmp_path: Path) -> None:
    hardly = ("training.updates=1", "training.learning_rate=1e-30", "training.final=last")
    run = given_exits(plain, tmp_path / "run", "model.attended_states=shared", *hardly)
    before, after = (
        {name: tensor for name, tensor in load_tensors(each.weights_file)[0].items() if "classifiers" not in name}
        for each in (plain, run)
    )
    upper = re.compile(r"decoder\.[23]\.(self|source)_attention\.(key|value)\.")
    assert after.keys() == {name for name in before if not upper.match(name)}
    for name, tensor in after.items():
        torch.testing.assert_close(tensor, before[name], atol=1e-6, rtol=0)
    with pytest.raises(ConfigError, match=r"^model\.attended_states = 'first' is not that of .*\('shared'\); --from"):
        given_exits(run, tmp_path / "other", "model.attended_states=first")


def test_added_exits_start_as_copies_of_the_last_and_full_depth_says_what_it_said(plain: Run, tmp_path: Path) -> None:
    hardly = ("training.updates=1", "training.learning_rate=1e-30", "training.final=last")
    run = given_exits(plain, tmp_path / "run", ADAPTER, *hardly)
    model, before, batch = load_model(run), load_model(plain), tiny_batch()
    with torch.no_grad():
        assert last_logits(model, batch).equal(last_logits(before, batch))
    for n in range(1, BLOCKS + 1):
        assert model.classifier(n).equal(before.classifier(BLOCKS))
    norm = before.decoder[-1].feed_forward_norm
    assert not norm.bias.equal(torch.zeros_like(norm.bias)), "else this shows little"
    for adapter in model.exit_adapters:
        assert adapter.norm.weight.equal(norm.weight)
        assert adapter.norm.bias.equal(norm.bias)
        assert adapter.up.weight.abs().max() < 1e-20


def test_a_frozen_trunk_keeps_every_bit_and_what_is_beside_it_learns(plain: Run, tmp_path: Path) -> None:
    first = given_exits(
        plain, tmp_path / "first", *FROZEN, "training.weight_decay=0.1", "training.final=average", "training.updates=4"
    )
    before, after = load_tensors(plain.weights_file)[0], load_tensors(first.weights_file)[0]
    trunk = trunk_of(after)
    for name, tensor in trunk.items():
        origin = before["classifiers.0"] if name.startswith("classifiers.") else before[name]
        assert tensor.equal(origin), name
    assert trunk.keys() >= before.keys()
    learned = load_model(first)
    assert all(adapter.up.weight.any() for adapter in learned.exit_adapters)
    batch = tiny_batch()
    with torch.no_grad():
        assert last_logits(learned, batch).equal(last_logits(load_model(plain), batch))
    moments = {name for name in load_tensors(first.state_file)[0] if not name.startswith("model.")}
    assert {name.partition(".")[2] for name in moments} == after.keys() - trunk.keys()


def test_a_frozen_training_that_was_stopped_goes_on_as_if_it_had_not(plain: Run, tmp_path: Path) -> None:
    changes = (*FROZEN, "training.full_depth_weight=0.5")
    long = given_exits(plain, tmp_path / "long", *changes, "training.updates=6")
    short = given_exits(plain, tmp_path / "short", *changes, "training.updates=3")
    train_run(short.folder, lambda: resumed_run(short.folder, ["training.updates=6"]))
    assert short.weights_file.read_bytes() == long.weights_file.read_bytes()
    assert train_losses(short) == train_losses(long)


def test_all_weights_may_learn_with_added_exits_and_full_depth_as_their_teacher(plain: Run, tmp_path: Path) -> None:
    run = given_exits(plain, tmp_path / "run", "training.full_depth_weight=2")
    before, after = load_tensors(plain.weights_file)[0], load_tensors(run.weights_file)[0]
    assert not any(name.startswith(ADAPTERS) for name in after)
    assert not after["decoder.0.feed_forward.inner.weight"].equal(before["decoder.0.feed_forward.inner.weight"])


@pytest.mark.parametrize(
    ("own", "change", "message"),
    [
        ((), "model.exits=last", r"^model\.exits = 'last' is not that of .* \('all'\); --from keeps the shape"),
        ((ADAPTER,), "model.exit_adapter=7", r"^model\.exit_adapter = 7 is not that of .* \(5\); --from keeps"),
        ((ADAPTER,), "model.exit_adapter=0", r"^model\.exit_adapter = 0 is not that of .* \(5\); --from keeps"),
    ],
)
def test_exits_and_adapters_are_added_and_never_taken_away(
    data: PreparedData, tmp_path: Path, own: tuple[str, ...], change: str, message: str
) -> None:
    run = create_run(tmp_path / "origin", short_training(*own), data)
    with pytest.raises(ConfigError, match=message):
        continued_run(tmp_path / "run", run.folder, None, [change], overwrite=False)


def test_a_new_run_has_no_trunk_to_freeze(data: PreparedData, tmp_path: Path) -> None:
    save_config(short_training(ADAPTER, "training.trunk=frozen"), tmp_path / "tiny.toml")
    with pytest.raises(ConfigError, match=r"keeps the weights of a trained run; start from one with --from RUN"):
        new_run(tmp_path / "run", tmp_path / "tiny.toml", data.folder, [], overwrite=False)


def objective_of(*changes: str) -> TrainingObjective:
    """An objective of a model whose adapters do something."""
    model = tiny_model(*changes)
    stir(model)
    return TrainingObjective(model, tiny_config(*changes))


def plain_loss(objective: TrainingObjective, batch: Batch, weight: float) -> Tensor:
    """The mean of the exits' own losses, each below the last with `weight` times the cross-entropy
    against the last one's distribution."""
    model = objective.model
    memory = model.encode(batch.source, batch.source_mask)
    states = model.decode(batch.target_inputs, memory, batch.source_mask)
    logits = [model.logits_at(n, states[n - 1][batch.target_mask]) for n in range(1, BLOCKS + 1)]
    targets, taught = batch.targets[batch.target_mask], logits[-1].detach().softmax(dim=-1)
    total = torch.zeros(())
    for n, own in enumerate(logits, 1):
        total = total + F.cross_entropy(own, targets, label_smoothing=0.1, reduction="sum") / BLOCKS
        if n < BLOCKS:
            total = total + weight * F.cross_entropy(own, taught, reduction="sum") / BLOCKS
    return total


@pytest.mark.parametrize("trunk", ["trained", "frozen"])
@pytest.mark.parametrize("weight", [0.0, 1.5])
@pytest.mark.parametrize("classifiers", KINDS)
def test_loss_and_gradients_with_adapters_and_a_teacher_equal_those_of_plain_cross_entropy(
    classifiers: str, weight: float, trunk: str
) -> None:
    objective = objective_of(
        ADAPTER, f"model.classifiers={classifiers}", f"training.full_depth_weight={weight}", f"training.trunk={trunk}"
    )
    batch = tiny_batch()
    sums, expected = objective(batch, 0), plain_loss(objective, batch, weight)
    torch.testing.assert_close(sums.loss, expected)
    trained = trained_parameters(objective.model)
    own, by_plain = (torch.autograd.grad(loss, list(trained.values())) for loss in (sums.loss, expected))
    torch.testing.assert_close(own, by_plain, atol=1e-5, rtol=1e-4)
    assert all(name.startswith(ADAPTERS) for name in trained) == (trunk == "frozen")


def test_a_frozen_trunk_builds_no_graph_and_drops_nothing_and_its_neighbours_have_every_gradient() -> None:
    changes = (*FROZEN, "model.dropout=0.4")
    objective, batch = objective_of(*changes), tiny_batch()
    model = objective.model.train()
    states = model.decode(batch.target_inputs, model.encode(batch.source, batch.source_mask), batch.source_mask)
    assert not states.requires_grad
    assert objective(batch, 0).loss.equal(objective(batch, 1).loss)
    objective(batch, 0).loss.backward()
    for name, parameter in model.named_parameters():
        assert (parameter.grad is not None) == name.startswith((ADAPTERS, HALTING)), name


def test_full_depth_teaches_aligned_states_and_not_those_of_drawn_paths() -> None:
    def loss(weight: float, path_weight: float) -> Tensor:
        changes = (f"training.full_depth_weight={weight}", f"exits.path_weight={path_weight}")
        total: Tensor = objective_of(ADAPTER, "model.classifiers=tied", "exits.halting=geometric", *changes)(
            tiny_batch(), 3
        ).loss
        return total

    torch.testing.assert_close(loss(1.5, 0.5) - loss(1.5, 0.0), loss(0.0, 0.5) - loss(0.0, 0.0), atol=1e-4, rtol=1e-4)
    assert loss(1.5, 0.0) > loss(0.0, 0.0)
