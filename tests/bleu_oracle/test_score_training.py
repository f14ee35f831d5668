"""Training with the BLEU oracle: which exits it teaches, to which sentences, however the batch is
cut; and whole runs of it."""

import json
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest
import reference
import torch
from safetensors.torch import load_file, save_file
from tiny import (
    ALONE,
    BLOCKS,
    SOURCE_VOCAB,
    TARGET_VOCAB,
    be_worker,
    exit_code_of,
    free_port,
    in_own_process,
    prepare_tiny,
    short_training,
    signal_at_write,
    tiny_config,
    tiny_pairs,
    train_in_own_process,
)
from torch import Tensor
from walks import model_for

from anydepth.bleu_oracle.scoring import ScoreSettings, score_exits
from anydepth.bleu_oracle.table import ScoreTable, load_scores
from anydepth.config.loading import save_config
from anydepth.errors import ConfigError, RunError
from anydepth.evaluation.evaluate import evaluate_run
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.model.checkpoint import load_tensors, save_tensors
from anydepth.runs.run import Run, create_run
from anydepth.text.batches import Batch, BatchStream, Position, make_batch, training_batches
from anydepth.training.distributed import Workers, workers
from anydepth.training.objective import TrainingObjective
from anydepth.training.start import continued_run, new_run, resumed_run, train_run
from anydepth.training.update import UpdateSums, accumulate_gradients
from anydepth.training.validation import validation_exit_loss

FLOAT32 = {"atol": 1e-6, "rtol": 1e-6}  # sums in another order differ by a few units in the last place
SEQ_BLEU = ("exits.halting=sequence", "exits.oracle=bleu", "exits.exit_penalty=3", "exits.exit_loss_weight=0.7")
SCORED = [0, 2, 3]  # of five pairs


def random_table(pairs: list[int], *, seed: int = 1) -> ScoreTable:
    scores = 100 * torch.rand(len(pairs), BLOCKS, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return ScoreTable(torch.tensor(pairs), scores)


def objective_with(table: ScoreTable, *changes: str) -> TrainingObjective:
    return TrainingObjective(model_for("sequence", *SEQ_BLEU, *changes), tiny_config(*SEQ_BLEU, *changes), table)


def exit_loss_by_hand(
    model: AdaptiveTransformer, batch: Batch, table: ScoreTable, penalty: float
) -> tuple[Tensor, list[int]]:
    """The exit loss sentence by sentence, each counting as often as it has targets, and how many
    tokens go to each exit."""
    total, counts = torch.zeros(()), [0] * BLOCKS
    for row, pair in enumerate(batch.indices):
        if pair not in table.pairs.tolist():
            continue
        scores = table.scores[table.pairs.tolist().index(pair)].tolist()
        best = max(range(1, BLOCKS + 1), key=lambda n: (scores[n - 1] - penalty * n, -n))
        memory = reference.encode(model, batch.source[row][batch.source_mask[row]].tolist())
        tokens = int(batch.target_mask[row].sum())
        assert model.halting is not None
        total = total - tokens * reference.exit_probabilities(model.halting, [], memory)[best - 1].log()
        counts[best - 1] += tokens
    return total, counts


@pytest.mark.parametrize("pairs", [SCORED, list(range(5)), [4]])
def test_the_exit_loss_is_that_of_the_scored_sentences_each_counted_by_its_length(pairs: list[int]) -> None:
    table, batch = random_table(pairs), make_batch(tiny_pairs(5), [3, 1, 4, 0, 2])
    objective = objective_with(table)
    sums = objective(batch, 0)
    expected, counts = exit_loss_by_hand(objective.model, batch, table, 3.0)
    torch.testing.assert_close(sums.exit_loss, expected.detach(), atol=1e-4, rtol=1e-4)
    assert sums.oracle_exits.tolist() == counts
    assert sum(sums.halting_exits.tolist()) == batch.tokens
    plain = TrainingObjective(objective.model, tiny_config("exits.halting=sequence", "exits.exit_loss_weight=0"))(
        batch, 0
    )
    torch.testing.assert_close(sums.loss, plain.loss + 0.7 * expected, atol=1e-4, rtol=1e-4)
    assert sums.likelihoods.equal(plain.likelihoods), "every sentence is in the decoding loss"


def test_a_batch_without_scored_sentences_teaches_nothing_about_exits() -> None:
    objective = objective_with(random_table([3, 4]))
    sums = objective(make_batch(tiny_pairs(5), [0, 1, 2]), 0)
    assert (sums.exit_loss.item(), sums.oracle_exits.tolist()) == (0, [0] * BLOCKS)
    sums.loss.backward()
    assert objective.model.halting is not None
    assert all(
        parameter.grad is not None and not parameter.grad.any() for parameter in objective.model.halting.parameters()
    )


def gradients(cut: list[list[int]]) -> tuple[dict[str, Tensor], UpdateSums]:
    objective = objective_with(random_table(SCORED))
    sums = accumulate_gradients(objective, [make_batch(tiny_pairs(5), part) for part in cut], ALONE, seed=1, update=1)
    return {
        name: parameter.grad for name, parameter in objective.named_parameters() if parameter.grad is not None
    }, sums


@pytest.mark.parametrize("cut", [[[0, 3], [1, 2, 4]], [[0, 2, 3], [1, 4]], [[0], [1], [2], [3], [4]]])
def test_the_gradient_does_not_depend_on_how_scored_and_unscored_sentences_are_dealt_out(cut: list[list[int]]) -> None:
    (whole, whole_sums), (parts, parts_sums) = gradients([[0, 1, 2, 3, 4]]), gradients(cut)
    torch.testing.assert_close(parts, whole, atol=1e-6, rtol=1e-4)
    assert whole["model.halting.sentence_scores.weight"].any()
    torch.testing.assert_close(
        (parts_sums.loss, parts_sums.exit_loss), (whole_sums.loss, whole_sums.exit_loss), **FLOAT32
    )
    assert parts_sums.oracle_exits == whole_sums.oracle_exits
    assert 0 < sum(whole_sums.oracle_exits) < sum(whole_sums.halting_exits) == whole_sums.tokens


def update_gradients(group: Workers, accumulation: int) -> dict[str, Tensor]:
    config = tiny_config("model.dropout=0.2", *SEQ_BLEU)
    torch.manual_seed(1)
    model = AdaptiveTransformer(config, source_vocab=SOURCE_VOCAB, target_vocab=TARGET_VOCAB, is_joint=False).train()
    objective = TrainingObjective(model, config, random_table(list(range(0, 40, 3))))
    stream = BatchStream(tiny_pairs(40), max_tokens=30, seed=1)
    mine, _ = next(training_batches(stream, Position(), rank=group.rank, world=group.world, accumulation=accumulation))
    accumulate_gradients(group.wrap(objective), mine, group, seed=1, update=7)
    return {name: parameter.grad for name, parameter in objective.named_parameters() if parameter.grad is not None}


def gradients_of_worker(rank: int, port: int, file: Path) -> None:
    torch.set_num_threads(1)
    be_worker(rank, 2, port)
    with workers() as group:
        save_file(update_gradients(group, 2), file)


def test_two_processes_with_a_sample_give_the_gradient_of_one(tmp_path: Path) -> None:
    port, files = free_port(), [tmp_path / f"{rank}.safetensors" for rank in range(2)]
    processes = [in_own_process(gradients_of_worker, rank, port, file) for rank, file in enumerate(files)]
    expected = update_gradients(ALONE, 4)
    assert [exit_code_of(process) for process in processes] == [0, 0]
    for file in files:
        torch.testing.assert_close(load_file(file), expected, atol=1e-6, rtol=1e-4)


def test_the_validated_exit_loss_is_a_mean_over_the_scored_pairs() -> None:
    objective, pairs = objective_with(random_table(SCORED)), tiny_pairs(5)
    table = random_table([1, 4], seed=2)
    found = validation_exit_loss(objective.model, pairs, tiny_config(*SEQ_BLEU).exits, batch_tokens=20, scores=table)
    batch = make_batch(pairs, range(5))
    total, counts = exit_loss_by_hand(objective.model, batch, table, 3.0)
    assert found == pytest.approx(total.item() / sum(counts), rel=1e-4)


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A trained run with the scores of a sample of its exits, which tests only read."""
    folder = tmp_path_factory.mktemp("origin")
    data = prepare_tiny(folder)
    config = short_training(
        "training.updates=40", "training.log_every=40", "training.save_every=40", "validation.every=40"
    )
    train_run(folder / "run", lambda: create_run(folder / "run", config, data))
    score_exits(folder / "run", ScoreSettings(metric="chrf", sentences=25), say=lambda text: None)
    return Run(folder / "run")


CHANGES = [
    *SEQ_BLEU[:2],
    "exits.exit_penalty=0.5",
    "training.updates=6",
    "training.log_every=1",
    "training.save_every=2",
]


def test_a_run_learns_from_the_scores_of_another_and_its_policy_can_be_evaluated(origin: Run, tmp_path: Path) -> None:
    source = Run(Path(shutil.copytree(origin.folder, tmp_path / "source")))
    changes = [*CHANGES, "exits.rate_factor=20", "exits.stop_gradient=true", "model.dropout=0", "training.updates=25"]
    run = continued_run(tmp_path / "run", source.folder, None, changes, overwrite=False)
    assert run.oracle_scores_file.read_bytes() == source.scores_file.read_bytes()
    assert not run.scores_file.exists(), "those would be of its own exits"
    shutil.rmtree(source.folder)
    train_run(run.folder, lambda: run)
    lines = [json.loads(line) for line in run.metrics_file.read_text(encoding="utf-8").splitlines()]
    first, *_, last = (line for line in lines if line["event"] == "train")
    for line in (first, last):
        assert sum(line["oracle_exits"]) == pytest.approx(1)
        assert sum(line["halting_exits"]) == pytest.approx(1)
    validated = [line["exit_loss"] for line in lines if line["event"] == "valid"]
    assert 0 < last["exit_loss"] < first["exit_loss"]
    assert len(validated) > 0
    assert all(loss > 0 for loss in validated)
    (figures,) = evaluate_run(
        run.folder, str(Path(run.data_note()["folder"]).parent / "valid"), ["sequence"], say=lambda text: None
    ).results
    assert figures.policy == "sequence"
    assert 1 <= figures.average_exit <= BLOCKS


def test_a_run_with_a_bleu_oracle_goes_on_with_the_same_bits_without_the_run_it_came_from(
    origin: Run, tmp_path: Path
) -> None:
    source = Run(Path(shutil.copytree(origin.folder, tmp_path / "source")))
    whole = continued_run(tmp_path / "whole", source.folder, None, [*CHANGES, "training.final=last"], overwrite=False)
    parted = Run(Path(shutil.copytree(whole.folder, tmp_path / "parted")))
    shutil.rmtree(source.folder)
    data_folder, config = Path(whole.data_note()["folder"]), whole.config
    assert exit_code_of(in_own_process(train_in_own_process, whole.folder, data_folder, config)) == 0
    disturb = partial(signal_at_write, signal.SIGKILL, 22)
    assert (
        exit_code_of(in_own_process(train_in_own_process, parted.folder, data_folder, config, disturb))
        == -signal.SIGKILL
    )
    assert parted.state_file.exists()
    assert exit_code_of(in_own_process(train_in_own_process, parted.folder, data_folder, config)) == 0
    assert parted.weights_file.read_bytes() == whole.weights_file.read_bytes()


def test_a_run_without_scores_or_with_foreign_ones_is_refused_with_the_command(origin: Run, tmp_path: Path) -> None:
    own = Run(Path(shutil.copytree(origin.folder, tmp_path / "own")))
    tensors = load_tensors(own.weights_file)[0]
    save_tensors(own.weights_file, {name: 1.1 * tensor for name, tensor in tensors.items()})
    with pytest.raises(
        RunError, match=r"other weights than the run has now; make them again with `anydepth score-exits .*own`$"
    ):
        continued_run(tmp_path / "run", own.folder, None, CHANGES, overwrite=False)
    own.seal.remove([own.scores_file])
    with pytest.raises(
        RunError,
        match=r'^exits.oracle = "bleu" learns .*own, which has none; make them with `anydepth score-exits .*own`$',
    ):
        continued_run(tmp_path / "run", own.folder, None, CHANGES, overwrite=False)
    assert not (tmp_path / "run").exists()


def test_a_new_run_cannot_learn_from_scores_that_nobody_made(origin: Run, tmp_path: Path) -> None:
    save_config(short_training(*SEQ_BLEU[:2]), tmp_path / "tiny.toml")
    message = (
        r'^exits.oracle = "bleu" learns from the scores of a trained run\'s exits; .* `anydepth score-exits '
        r"RUN` and .* --from RUN$"
    )
    with pytest.raises(ConfigError, match=message):
        new_run(tmp_path / "run", tmp_path / "tiny.toml", Path(origin.data_note()["folder"]), [], overwrite=False)


def test_a_resumed_run_that_lost_its_scores_is_refused(origin: Run, tmp_path: Path) -> None:
    run = continued_run(tmp_path / "run", origin.folder, None, CHANGES, overwrite=False)
    run.oracle_scores_file.unlink()
    with pytest.raises(RunError, match=r"oracle_scores.safetensors is missing, but the run has written it"):
        resumed_run(run.folder, [])


def test_the_copied_scores_are_of_the_sample(origin: Run) -> None:
    scores = load_scores(origin.scores_file)
    assert (len(scores.train), len(scores.valid)) == (25, 5)
