"""Training that leaves out blocks: what is drawn, what it computes, what gets a gradient, and a
model that can be cut anywhere."""

import json
import signal
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import reference
import torch
from safetensors.torch import load_file
from tiny import (
    ALONE,
    BLOCKS,
    exit_code_of,
    free_port,
    gradients_in_own_process,
    gradients_of_update_7,
    in_own_process,
    short_training,
    signal_at_write,
    tiny_batch,
    tiny_config,
    tiny_model,
    tiny_pairs,
    train,
    train_in_own_process,
)
from torch import Tensor

from anydepth.evaluation.evaluate import evaluate_run
from anydepth.exits.policies import FixedExit
from anydepth.runs.run import Run, create_run
from anydepth.search.beam import search
from anydepth.search.decoding import SearchSettings
from anydepth.text.batches import make_batch
from anydepth.text.prepared import PreparedData
from anydepth.text.tokenizer import BOS
from anydepth.training.objective import TrainingObjective, kept_blocks
from anydepth.training.update import accumulate_gradients, batch_seed

LAYERDROP = ("training.mode=layerdrop", "model.classifiers=tied")


def new_objective(*changes: str) -> TrainingObjective:
    return TrainingObjective(tiny_model(*LAYERDROP, *changes), tiny_config(*LAYERDROP, *changes))


def gradients(objective: TrainingObjective, loss: Tensor) -> dict[str, Tensor]:
    objective.zero_grad()
    loss.backward()
    return {
        name: parameter.grad.clone() for name, parameter in objective.named_parameters() if parameter.grad is not None
    }


@pytest.mark.parametrize("classifiers", ["tied", "shared"])
def test_with_nothing_left_out_it_is_the_training_of_a_model_with_one_classifier(classifiers: str) -> None:
    change, batch = f"model.classifiers={classifiers}", tiny_batch()
    dropping = new_objective("training.layer_drop=0", change)
    baseline = TrainingObjective(tiny_model("model.exits=last", change), tiny_config("model.exits=last", change))
    for mine, theirs in zip(dropping.model.parameters(), baseline.model.parameters(), strict=True):
        assert mine.equal(theirs)
    found, expected = dropping(batch, 3, 9), baseline(batch, 3, 9)
    assert all(mine.equal(theirs) for mine, theirs in zip(found, expected, strict=True))
    assert found.rows.tolist() == [batch.tokens], "the last exit alone has rows"
    mine, theirs = gradients(dropping, found.loss), gradients(baseline, expected.loss)
    assert mine.keys() == theirs.keys()
    assert all(mine[name].equal(theirs[name]) for name in mine)


@pytest.mark.parametrize("kept", [(1, 2, 3, 4), (1, 3), (2, 4), (3,), (4,), (1,)])
def test_a_block_left_out_is_the_identity_and_the_last_classifier_reads_the_top_kept_one(kept: tuple[int, ...]) -> None:
    model, batch = tiny_model(*LAYERDROP), tiny_batch()
    states = model.decode(
        batch.target_inputs, model.encode(batch.source, batch.source_mask), batch.source_mask, kept=kept
    )
    for row in range(len(batch.targets)):
        memory = reference.encode(model, batch.source[row][batch.source_mask[row]].tolist())
        length = int(batch.target_mask[row].sum())
        own = reference.embed(model.target_embedding, batch.target_inputs[row, :length].tolist())
        for n in range(1, BLOCKS + 1):
            if n in kept:
                own = [
                    reference.decoder_block(model.decoder[n - 1], own[t], own[: t + 1], memory) for t in range(length)
                ]
            torch.testing.assert_close(states[n - 1, row, :length], torch.stack(own), atol=1e-4, rtol=1e-4)


def seed_that_keeps(kept: tuple[int, ...]) -> int:
    return next(seed for seed in range(10_000) if kept_blocks(BLOCKS, 0.5, seed) == kept)


@pytest.mark.parametrize("kept", [(1, 3), (4,), (2, 3, 4)])
def test_a_block_left_out_gets_no_gradient_and_every_other_one_does(kept: tuple[int, ...]) -> None:
    objective = new_objective("training.layer_drop=0.5")
    found = gradients(objective, objective(tiny_batch(), 0, seed_that_keeps(kept)).loss)
    assert found.keys() == dict(objective.named_parameters()).keys(), "workers and Adam expect one for each parameter"
    for n in range(1, BLOCKS + 1):
        own = [gradient for name, gradient in found.items() if name.startswith(f"model.decoder.{n - 1}.")]
        assert any(gradient.any() for gradient in own) == (n in kept)


def test_the_draw_depends_on_the_seed_of_the_update_alone() -> None:
    objective = new_objective("training.layer_drop=0.5")
    batch, seeds = tiny_batch(), [seed_that_keeps(kept) for kept in ((1, 3), (2, 4))]
    first, again, other = objective(batch, 1, seeds[0]), objective(batch, 2, seeds[0]), objective(batch, 1, seeds[1])
    assert first.loss.equal(again.loss)
    assert not first.loss.equal(other.loss)
    assert kept_blocks(6, 0.3, 5) == kept_blocks(6, 0.3, 5)
    assert len({kept_blocks(6, 0.3, seed) for seed in range(50)}) > 5


def test_all_batches_of_an_update_leave_out_the_same_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    objective, seen = new_objective("training.layer_drop=0.5"), []
    decode = objective.model.decode

    def watched(*arguments: Tensor, kept: tuple[int, ...]) -> Tensor:
        seen.append(kept)
        return decode(*arguments, kept=kept)

    monkeypatch.setattr(objective.model, "decode", watched)
    pairs = tiny_pairs(5)
    for update in range(1, 9):
        accumulate_gradients(
            objective, [make_batch(pairs, part) for part in ([0, 1], [2], [3, 4])], ALONE, seed=1, update=update
        )
    by_update = [set(seen[3 * place : 3 * place + 3]) for place in range(8)]
    assert all(len(kept) == 1 for kept in by_update)
    assert [next(iter(kept)) for kept in by_update] == [
        kept_blocks(BLOCKS, 0.5, batch_seed(1, update, 0)) for update in range(1, 9)
    ]
    assert len({kept for each in by_update for kept in each}) > 2


@pytest.mark.parametrize("probability", [0.0, 0.2, 0.6])
def test_each_block_is_left_out_as_often_as_asked_for(probability: float) -> None:
    draws = [kept_blocks(12, probability, batch_seed(3, update, 0)) for update in range(2000)]
    counts = Counter(n for kept in draws for n in kept)
    deviation = (probability * (1 - probability) / len(draws)) ** 0.5
    for n in range(1, 13):
        assert abs(counts[n] / len(draws) - (1 - probability)) <= 4.5 * deviation


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_at_least_one_block_is_always_kept_and_it_may_be_any(blocks: int) -> None:
    draws = Counter(kept_blocks(blocks, 0.999, seed) for seed in range(300))
    assert all(len(kept) == 1 for kept in draws)
    assert len(draws) == blocks


def test_two_processes_leave_out_the_same_blocks_and_give_the_gradient_of_one(tmp_path: Path) -> None:
    config, port = tiny_config(*LAYERDROP, "training.layer_drop=0.5", "model.dropout=0.2"), free_port()
    kept = kept_blocks(BLOCKS, 0.5, batch_seed(1, 7, 0))
    assert 0 < len(kept) < BLOCKS, "else this shows little"
    files = [tmp_path / f"{rank}.safetensors" for rank in range(2)]
    processes = [
        in_own_process(gradients_in_own_process, rank, 2, port, 2, config, file) for rank, file in enumerate(files)
    ]
    expected = {name: parameter.grad for name, parameter in gradients_of_update_7(config, ALONE, 4).named_parameters()}
    assert [exit_code_of(process) for process in processes] == [0, 0]
    for file in files:
        torch.testing.assert_close(load_file(file), expected, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("n", range(1, BLOCKS + 1))
def test_a_model_cut_at_n_runs_n_blocks_and_the_one_classifier(n: int) -> None:
    model, batch = tiny_model(*LAYERDROP), tiny_batch()
    settings = SearchSettings(beam=1, length_ratio=1.0, length_offset=1)
    found = search(model, batch.source, batch.source_mask, FixedExit(n, BLOCKS), settings)
    for row, (best, *_) in enumerate(found):
        memory = reference.encode(model, batch.source[row][batch.source_mask[row]].tolist())
        inputs = [BOS, *best.tokens[:-1]]
        states = reference.decode(model, inputs, memory, [n] * len(inputs))[n]
        logits = [model.classifier(BLOCKS) @ hidden for hidden in states]
        for scores, token, score in zip(logits, best.tokens, best.token_scores, strict=True):
            assert reference.softmax(scores)[token].log().item() == pytest.approx(score, abs=1e-4)


CONFIG = short_training(*LAYERDROP, "training.layer_drop=0.5", "training.final=last")


def test_a_run_killed_on_the_way_ends_with_the_same_bits(data: PreparedData, tmp_path: Path) -> None:
    whole, parted = Run(tmp_path / "whole"), Run(tmp_path / "parted")
    assert exit_code_of(in_own_process(train_in_own_process, whole.folder, data.folder, CONFIG)) == 0
    disturb = partial(signal_at_write, signal.SIGKILL, 31)
    assert (
        exit_code_of(in_own_process(train_in_own_process, parted.folder, data.folder, CONFIG, disturb))
        == -signal.SIGKILL
    )
    assert parted.state_file.exists()
    assert exit_code_of(in_own_process(train_in_own_process, parted.folder, data.folder, CONFIG)) == 0
    assert parted.weights_file.read_bytes() == whole.weights_file.read_bytes()


def test_a_run_tells_one_loss_validates_every_cut_keeps_the_best_last_exit_and_evaluates_at_any(
    data: PreparedData, tmp_path: Path
) -> None:
    run = create_run(tmp_path / "run", short_training(*LAYERDROP, "training.updates=40", "training.final=best"), data)
    training = train(run, data)
    lines = [json.loads(line) for line in run.metrics_file.read_text(encoding="utf-8").splitlines()]
    told = [line["nll"] for line in lines if line["event"] == "train"]
    assert {len(losses) for losses in told} == {1}
    assert told[-1][0] < 0.8 * told[0][0]
    validated = {line["update"]: line["nll"] for line in lines if line["event"] == "valid"}
    assert {len(losses) for losses in validated.values()} == {BLOCKS}
    assert training.progress.best == min(losses[-1] for losses in validated.values())
    test = str(Path(run.data_note()["folder"]).parent / "valid")
    results = evaluate_run(
        run.folder, test, [f"fixed:{n}" for n in range(1, BLOCKS + 1)], say=lambda text: None
    ).results
    assert [result.average_exit for result in results] == [1, 2, 3, 4]
