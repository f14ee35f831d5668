"""The joint loss of decoding and exits (Eq. 7) against slow loops; what its gradient reaches; what
is counted; paths drawn from q."""

import math
from dataclasses import replace
from typing import Any

import pytest
import reference
import torch
from tiny import BATCH, BLOCKS, TARGET_VOCAB, TIME, tiny_batch, tiny_config, tiny_pairs
from torch import Tensor, nn
from walks import model_for

from anydepth.exits.halting import GeometricHalting
from anydepth.exits.oracles import OracleError
from anydepth.text.batches import Batch, make_batch
from anydepth.training import objective as objectives
from anydepth.training.losses import RowLosses
from anydepth.training.objective import BatchSums, TrainingObjective, drawn_exits

KINDS = ["sequence", "multinomial", "geometric"]
ORACLES = ["likelihood", "correctness"]
COMBINATIONS = [
    (kind, oracle, width)
    for kind in KINDS
    for oracle in ORACLES
    for width in ((0.0,) if kind == "sequence" else (0.0, 2.0))
]


def new_objective(kind: str, *changes: str, seed: int = 1) -> TrainingObjective:
    every = (f"exits.halting={kind}", *changes)
    return TrainingObjective(model_for(kind, *changes, seed=seed), tiny_config(*every))


def gradients(module: nn.Module, loss: Tensor) -> dict[str, Tensor]:
    names, parameters = zip(*module.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    return {name: torch.zeros_like(p) if g is None else g for name, p, g in zip(names, parameters, found, strict=True)}


def sentences_of(batch: Batch) -> list[tuple[list[int], list[int], list[int]]]:
    """Source, target inputs and targets of each pair, without padding."""
    rows = zip(batch.source, batch.source_mask, batch.target_inputs, batch.targets, batch.target_mask, strict=True)
    return [
        (source[known].tolist(), inputs[real].tolist(), targets[real].tolist())
        for source, known, inputs, targets, real in rows
    ]


def histogram(exits: list[list[int]]) -> list[int]:
    flat = [left for sentence in exits for left in sentence]
    return [flat.count(n) for n in range(1, BLOCKS + 1)]


@pytest.mark.parametrize(
    ("kind", "oracle", "width", "units"), [*((*each, 0) for each in COMBINATIONS), ("geometric", "likelihood", 0.0, 5)]
)
def test_the_joint_loss_is_the_decoding_loss_and_alpha_times_the_cross_entropy_with_the_oracle(
    kind: str, oracle: str, width: float, units: int
) -> None:
    changes = (
        f"exits.oracle={oracle}",
        f"exits.kernel_width={width}",
        "exits.exit_loss_weight=0.7",
        "exits.exit_penalty=0.05",
    )
    changes = (*changes, f"exits.halting_units={units}")
    objective, batch = new_objective(kind, *changes), tiny_batch()
    sums: BatchSums = objective(batch, 0)
    decoding, exiting, oracles = reference.joint_loss(
        objective.model, sentences_of(batch), tiny_config(f"exits.halting={kind}", *changes)
    )
    torch.testing.assert_close(sums.exit_loss, exiting.detach(), atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(sums.loss, decoding + 0.7 * exiting, atol=1e-3, rtol=1e-4)
    expected = gradients(objective, decoding + 0.7 * exiting)
    torch.testing.assert_close(gradients(objective, sums.loss), expected, atol=2e-3, rtol=2e-3)
    assert sums.oracle_exits.tolist() == histogram(oracles)
    assert not sums.exit_loss.requires_grad


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("kind", ["sequence", "geometric"])
def test_an_oracle_chooses_in_bfloat16_training_what_it_chooses_in_float32(kind: str, oracle: str) -> None:
    changes = (f"exits.oracle={oracle}", "exits.exit_penalty=0.001", "exits.kernel_width=0")
    full, half = (
        new_objective(kind, *changes, f"training.precision={precision}") for precision in ("float32", "bfloat16")
    )
    batch, flips = make_batch(tiny_pairs(60), range(60)), 0
    with torch.no_grad():
        for objective in (full, half):
            for classifier in objective.model.classifiers:
                classifier *= 0.02  # exits that hardly differ
                classifier[4:13] = classifier[13:22] * 1.001  # and words
        assert half(batch, 0).oracle_exits.equal(full(batch, 0).oracle_exits)
        states = full.model.decode(
            batch.target_inputs, full.model.encode(batch.source, batch.source_mask), batch.source_mask
        )
        exact, own = (
            each.decoding_loss(each.aligned_rows(batch, states, 1), is_for_oracle=True) for each in (full, half)
        )
        assert half.oracle(batch, own)[batch.target_mask].equal(full.oracle(batch, exact)[batch.target_mask])
        rough = half.decoding_loss(half.aligned_rows(batch, states, 1))
        ties = [
            (rows.hidden.bfloat16() @ full.model.classifier(rows.n).bfloat16().t())
            for rows in half.aligned_rows(batch, states, 1)
        ]
        said = [
            logits.amax(dim=1) == logits.gather(1, batch.targets[batch.target_mask][:, None])[:, 0] for logits in ties
        ]
        flips = (half.oracle(batch, rough._replace(correct=said)) != full.oracle(batch, exact))[batch.target_mask].sum()
    assert flips > 0, "what bfloat16 says of each exit, and ties that count as correct, would have chosen otherwise"


def test_nothing_is_computed_for_an_oracle_that_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    inner = objectives.chunked_cross_entropy

    def noted(*arguments: Any, is_for_oracle: bool, **options: Any) -> RowLosses:
        asked.append(is_for_oracle)
        return inner(*arguments, is_for_oracle=is_for_oracle, **options)

    monkeypatch.setattr(objectives, "chunked_cross_entropy", noted)
    batch = tiny_batch()
    TrainingObjective(model_for("none"), tiny_config())(batch, 0)
    TrainingObjective(model_for("none"), tiny_config("training.mode=mixed"))(batch, 0)
    assert asked and not any(asked)
    asked.clear()
    new_objective("geometric", "exits.path_weight=0.5")(batch, 0)
    assert asked == [True] * BLOCKS + [False] * BLOCKS, "the path that is drawn teaches no oracle"


@pytest.mark.parametrize("kind", KINDS)
def test_an_exit_loss_that_weighs_nothing_leaves_the_decoding_loss(kind: str) -> None:
    plain, joint = TrainingObjective(model_for("none"), tiny_config()), new_objective(kind, "exits.exit_loss_weight=0")
    with torch.no_grad():
        for name, parameter in plain.model.named_parameters():
            parameter.copy_(dict(joint.model.named_parameters())[name])
    batch = tiny_batch()
    mine, theirs = joint(batch, 0), plain(batch, 0)
    assert mine.loss.equal(theirs.loss)
    assert mine.likelihoods.equal(theirs.likelihoods)
    assert (theirs.exit_loss.item(), len(theirs.oracle_exits), len(theirs.halting_exits)) == (0, 0, 0)
    assert mine.exit_loss.item() > 0


def exit_gradients(kind: str, *changes: str) -> dict[str, Tensor]:
    """The gradient of the exit loss alone: that of the joint loss less that of the decoding
    loss."""
    batch = tiny_batch()
    found = []
    for weight in (1, 0):
        objective = new_objective(kind, f"exits.exit_loss_weight={weight}", *changes)
        found.append(gradients(objective.model, objective(batch, 0).loss))
    return {name: found[0][name] - found[1][name] for name in found[0]}


def parts_reached(found: dict[str, Tensor]) -> set[str]:
    """The parts of the model in which some gradient is more than rounding; decoder blocks one by
    one."""
    names = [name for name, gradient in found.items() if gradient.abs().max() > 1e-3]
    return {".".join(name.split(".")[: 2 if name.startswith("decoder.") else 1]) for name in names}


@pytest.mark.parametrize(
    ("kind", "blocks"),
    [("sequence", []), ("multinomial", ["decoder.0"]), ("geometric", ["decoder.0", "decoder.1", "decoder.2"])],
)
def test_the_exit_loss_reaches_the_encoder_and_the_decoder_below_the_states_that_decide(
    kind: str, blocks: list[str]
) -> None:
    below = {"source_embedding", "encoder", *blocks} | ({"target_embedding"} if blocks else set())
    assert parts_reached(exit_gradients(kind)) == {"halting"} | below


@pytest.mark.parametrize("kind", KINDS)
def test_an_exit_loss_that_is_told_to_stop_reaches_the_halting_module_alone(kind: str) -> None:
    free, stopped = exit_gradients(kind), exit_gradients(kind, "exits.stop_gradient=true")
    assert parts_reached(stopped) == {"halting"}
    for name, gradient in stopped.items():
        if name.startswith("halting."):
            torch.testing.assert_close(gradient, free[name])
        else:
            assert not gradient.any()


def test_stopping_the_exit_loss_leaves_every_figure_as_it_was() -> None:
    batch = tiny_batch()
    free, stopped = (new_objective("geometric", f"exits.stop_gradient={stop}")(batch, 0) for stop in ("false", "true"))
    assert all(mine.equal(theirs) for mine, theirs in zip(free, stopped, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_histograms_count_real_positions_by_the_oracle_and_by_the_rule_of_inference(kind: str) -> None:
    objective, batch = new_objective(kind), tiny_batch()
    sums = objective(batch, 0)
    model = objective.model
    assert model.halting is not None
    chosen = []
    for source, inputs, _ in sentences_of(batch):
        memory = reference.encode(model, source)
        states = reference.decode(model, inputs, memory, [BLOCKS] * len(inputs))
        own = []
        for t in range(len(inputs)):
            here = [states[n][t] for n in range(BLOCKS + 1)]
            if isinstance(model.halting, GeometricHalting):
                own.append(reference.threshold_exit(model, here, reference.halt_probability, [0.5] * (BLOCKS - 1)))
            else:
                probabilities = reference.exit_probabilities(model.halting, here, memory).tolist()
                own.append(1 + probabilities.index(max(probabilities)))
        chosen.append(own)
    assert sums.halting_exits.tolist() == histogram(chosen)
    assert sums.oracle_exits.sum() == sums.halting_exits.sum() == batch.tokens < BATCH * TIME


@pytest.mark.parametrize(
    ("kind", "path_weight"), [*((kind, 0.0) for kind in KINDS), ("multinomial", 0.5), ("geometric", 0.5)]
)
def test_padding_changes_neither_the_joint_loss_nor_its_gradient_nor_what_is_counted(
    kind: str, path_weight: float
) -> None:
    changes = (
        "exits.oracle=likelihood",
        *(() if kind == "sequence" else ("exits.kernel_width=3.0",)),
        f"exits.path_weight={path_weight}",
    )
    objective, batch = new_objective(kind, *changes), tiny_batch()
    noise = torch.randint(4, TARGET_VOCAB, batch.targets.shape, generator=torch.Generator().manual_seed(1))
    noisy = replace(
        batch,
        target_inputs=torch.where(batch.target_mask, batch.target_inputs, noise),
        targets=torch.where(batch.target_mask, batch.targets, noise),
    )
    mine, theirs = objective(batch, 5), objective(noisy, 5)
    torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(gradients(objective, mine.loss), gradients(objective, theirs.loss), atol=1e-5, rtol=1e-4)


def watch_exits(objective: TrainingObjective, monkeypatch: pytest.MonkeyPatch) -> list[Tensor | None]:
    """A list that receives the exits of every call of `decode`."""
    seen: list[Tensor | None] = []
    decode = objective.model.decode

    def watched(*arguments: Any, **options: Any) -> Tensor:
        seen.append(options.get("exits"))
        return decode(*arguments, **options)

    monkeypatch.setattr(objective.model, "decode", watched)
    return seen


@pytest.mark.parametrize("kind", ["multinomial", "geometric"])
@pytest.mark.parametrize("classifiers", ["untied", "tied"])
def test_a_path_weight_adds_the_mixed_loss_of_one_path_drawn_from_q(
    monkeypatch: pytest.MonkeyPatch, kind: str, classifiers: str
) -> None:
    shape, batch, seed = f"model.classifiers={classifiers}", tiny_batch(), 11
    plain, objective = new_objective(kind, shape), new_objective(kind, shape, "exits.path_weight=0.6")
    seen = watch_exits(objective, monkeypatch)
    sums, without = objective(batch, seed), plain(batch, seed)
    aligned, exits = seen
    assert aligned is None
    assert exits is not None
    assert plain.model.halting is not None
    memory = plain.model.encode(batch.source, batch.source_mask)
    states = plain.model.decode(batch.target_inputs, memory, batch.source_mask)
    assert exits.equal(drawn_exits(plain.model.halting.exit_log_probs(states, memory, batch.source_mask), seed))
    path = [left[real].tolist() for left, real in zip(exits, batch.target_mask, strict=True)]
    extra = 0.6 * reference.mixed_loss(plain.model, sentences_of(batch), [path], 0.1)
    torch.testing.assert_close(sums.loss - without.loss, extra, atol=1e-3, rtol=1e-4)
    found, expected = gradients(objective.model, sums.loss), gradients(plain.model, without.loss + extra)
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=2e-3)
    assert all(mine.equal(theirs) for mine, theirs in zip(sums[1:], without[1:], strict=True)), (
        "the path is not reported"
    )


def test_drawn_exits_follow_q() -> None:
    draws = 4000
    q = torch.rand(BLOCKS, BATCH, generator=torch.Generator().manual_seed(1)) ** 2
    q = q / q.sum(dim=0)
    exits = drawn_exits(q.log().unsqueeze(-1).expand(BLOCKS, BATCH, draws), 3)
    for row in range(BATCH):
        shares = exits[row].bincount(minlength=BLOCKS + 1)[1:] / draws
        assert ((shares - q[:, row]).abs() <= 4 * (q[:, row] * (1 - q[:, row]) / draws).sqrt()).all()


def test_drawn_exits_belong_to_the_seed() -> None:
    even = torch.full((BLOCKS, BATCH, 50), -math.log(BLOCKS))
    assert drawn_exits(even, 3).equal(drawn_exits(even, 3))
    assert not drawn_exits(even, 3).equal(drawn_exits(even, 4))
    from_dropouts_numbers = torch.rand(BATCH, 50, generator=torch.Generator().manual_seed(3)).mul(BLOCKS).long() + 1
    assert not drawn_exits(even, 3).equal(from_dropouts_numbers)


@pytest.mark.parametrize("n", range(1, BLOCKS + 1))
def test_a_certain_exit_is_always_drawn(n: int) -> None:
    certain = torch.full((BLOCKS, BATCH, 500), -math.inf)
    certain[n - 1] = 0
    assert (drawn_exits(certain, 3) == n).all()


@pytest.mark.parametrize("oracle", ORACLES)
def test_a_likelihood_that_is_not_a_number_names_the_training_pair(oracle: str) -> None:
    objective, pairs = (
        new_objective("geometric", f"exits.oracle={oracle}", "training.learning_rate=0.3"),
        tiny_pairs(30),
    )
    token = pairs.source(7)[0]
    others = [number for number in range(30) if token not in pairs.source(number)]
    with torch.no_grad():
        objective.model.source_embedding.weight[int(token)] = math.nan
    batch = make_batch(pairs, [others[0], others[5], 7, others[3]])
    where = r"the oracle cannot choose: the log-likelihood at exit 1 is not a number at token 1 of training pair 8; "
    with pytest.raises(OracleError, match=where + r"lower training\.learning_rate \(now 0\.3\) or look at that pair$"):
        objective(batch, 0)


def test_a_model_of_one_block_has_nothing_to_learn_about_exits() -> None:
    for kind in KINDS:
        objective, batch = new_objective(kind, "model.blocks=1"), tiny_batch()
        sums = objective(batch, 0)
        assert sums.exit_loss.item() == 0
        assert sums.oracle_exits.tolist() == sums.halting_exits.tolist() == [batch.tokens]
        assert all(
            not gradient.any()
            for name, gradient in gradients(objective.model, sums.loss).items()
            if name.startswith("halting.")
        )


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_label_smoothing_does_not_reach_the_oracle(precision: str) -> None:
    batch = tiny_batch()
    plain, smooth = (
        new_objective(
            "multinomial",
            "exits.oracle=likelihood",
            f"training.precision={precision}",
            f"training.label_smoothing={smoothing}",
        )
        for smoothing in (0.0, 0.6)
    )
    mine, theirs = plain(batch, 0), smooth(batch, 0)
    assert mine.oracle_exits.equal(theirs.oracle_exits)
    assert mine.exit_loss.equal(theirs.exit_loss)
    assert not mine.loss.equal(theirs.loss)
