"""Tiny configurations, batches, models and prepared data; all sizes differ, so that a swapped axis
cannot pass."""

import os
import random
import socket
from collections.abc import Callable
from itertools import count
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from anydepth.config.loading import make_config
from anydepth.config.schema import Config
from anydepth.errors import AnydepthError, OtherWorkerReports
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.runs.run import Run, create_run
from anydepth.text.batches import Batch, BatchStream, Position, make_batch, training_batches
from anydepth.text.prepare import PrepareSettings, prepare
from anydepth.text.prepared import PreparedData
from anydepth.text.tokens import TokenPairs, TokenSide
from anydepth.training.distributed import Workers, workers
from anydepth.training.loop import ScoreExits, Training
from anydepth.training.objective import TrainingObjective
from anydepth.training.reporting import Reporter
from anydepth.training.start import train_run
from anydepth.training.update import accumulate_gradients

BATCH, TIME, SOURCE, DIM, HEADS, BLOCKS = 3, 6, 7, 12, 4, 4
FFN_DIM, ENCODER_BLOCKS, ENCODER_DIM, ENCODER_FFN_DIM = 20, 2, 16, 28
SOURCE_VOCAB, TARGET_VOCAB = 19, 23
FIRST_WORD = 4  # after the control pieces

# Of processes of their own. Modules of the tests themselves are not found by the server that forks.
PRELOADED = [
    *("torch._dynamo", "sentencepiece", "rich.progress", "pytest"),
    *("anydepth.training.start", "anydepth.bleu_oracle.scoring", "anydepth.runs.operating_points"),
]
ALONE = Workers(0, 1, torch.device("cpu"))


def tiny_config(*changes: str) -> Config:
    """A model of the sizes above without dropout, and `changes` such as
    "model.classifiers=tied"."""
    values = {
        "model": {
            "blocks": BLOCKS,
            "heads": HEADS,
            "dropout": 0.0,
            "encoder": {"blocks": ENCODER_BLOCKS, "dim": ENCODER_DIM, "ffn_dim": ENCODER_FFN_DIM},
            "decoder": {"dim": DIM, "ffn_dim": FFN_DIM},
        }
    }
    return make_config(values, changes)


def tiny_model(*changes: str, seed: int = 1, is_joint: bool = False) -> AdaptiveTransformer:
    """A model in evaluation mode whose every parameter is random, biases and norms too."""
    torch.manual_seed(seed)
    source_vocab = TARGET_VOCAB if is_joint else SOURCE_VOCAB
    model = AdaptiveTransformer(
        tiny_config(*changes), source_vocab=source_vocab, target_vocab=TARGET_VOCAB, is_joint=is_joint
    )
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model.eval()


def tiny_pairs(count: int = BATCH, *, seed: int = 1) -> TokenPairs:
    """Random pairs; the first is the longest and fills a batch of TIME targets and SOURCE source
    tokens with their ends."""
    randomness = random.Random(seed)
    sizes = [
        (SOURCE - 1, TIME - 1),
        *((randomness.randint(1, SOURCE - 2), randomness.randint(0, TIME - 2)) for _ in range(count - 1)),
    ]
    sources = [randomness.choices(range(FIRST_WORD, SOURCE_VOCAB), k=size) for size, _ in sizes]
    targets = [randomness.choices(range(FIRST_WORD, TARGET_VOCAB), k=size) for _, size in sizes]
    return TokenPairs(TokenSide.from_sentences(sources), TokenSide.from_sentences(targets))


def tiny_batch(*, seed: int = 1) -> Batch:
    """BATCH pairs of unequal lengths."""
    return make_batch(tiny_pairs(seed=seed), range(BATCH))


def random_exits(*shape: int, seed: int) -> Tensor:
    """Exits 1..BLOCKS drawn at random."""
    return torch.randint(1, BLOCKS + 1, shape, generator=torch.Generator().manual_seed(seed))


def prepare_tiny(folder: Path, *, joint: bool = False) -> PreparedData:
    """40 training and 5 validation pairs of made-up words, prepared in `folder`/data."""
    randomness = random.Random(3)
    for split, pairs in (("train", 40), ("valid", 5)):
        numbers = [randomness.choices(range(9), k=randomness.randint(1, 7)) for _ in range(pairs)]
        for language, words in (
            ("de", "der hund läuft und die katze schläft heute gern"),
            ("en", "the dog runs and a cat sleeps today gladly"),
        ):
            lines = [" ".join(words.split()[number] for number in line) for line in numbers]
            (folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    train, valid = str(folder / "train"), str(folder / "valid")
    settings = PrepareSettings(
        source_lang="de", target_lang="en", train=train, valid=valid, vocab_size=300, joint=joint
    )
    prepare(settings, folder / "data")
    return PreparedData.open(folder / "data")


def short_training(*changes: str) -> Config:
    """Settings of a training of 12 updates that logs, validates and saves often, dropout
    included."""
    return tiny_config(
        "model.dropout=0.1",
        "training.updates=12",
        "training.batch_tokens=60",
        "training.learning_rate=0.01",
        "training.warmup=4",
        "training.log_every=1",
        "training.save_every=3",
        "validation.every=4",
        "validation.sentences=0",
        *changes,
    )


def no_scores(model: AdaptiveTransformer) -> list[float]:
    """The scores of a run that measures no BLEU."""
    raise AssertionError("no BLEU was asked for")


def train(run: Run, data: PreparedData, *, resume: bool = False, score_exits: ScoreExits = no_scores) -> Training:
    """Trains `run` in this process and returns what is left of it."""
    with Reporter(run, is_main=True) as reporter:
        training = Training(run, data, ALONE, reporter)
        training.score_exits = score_exits
        if resume:
            training.resume()
        training.go()
    return training


def in_own_process(body: Callable[..., None], *arguments: Any) -> ForkServerProcess:
    """A process that runs `body`, already started. It is forked from a server that has loaded what
    such bodies import, so it starts at once."""
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=body, args=arguments)
    process.start()
    return process


def exit_code_of(process: ForkServerProcess, *, seconds: float = 240.0) -> int:
    """The exit code of a process that must end by itself; minus the signal's number if a signal
    ended it."""
    process.join(seconds)
    assert process.exitcode is not None, "the process has not ended"
    return process.exitcode


def train_in_own_process(
    folder: Path, data_folder: Path, config: Config, disturb: Callable[[], None] | None = None
) -> None:
    """The body of a process that trains the run in `folder`, or goes on with it where it exists.

    It ends as the command does: the sentence of an error goes to a file beside the run, each
    worker's to its own, and its exit code to the parent; a worker that another one speaks for
    leaves no file.
    """
    torch.set_num_threads(1)

    def make_run() -> Run:
        run = (
            Run(folder)
            if (folder / "config.toml").exists()
            else create_run(folder, config, PreparedData.open(data_folder))
        )
        if disturb is not None:
            disturb()
        return run

    try:
        train_run(folder, make_run)
    except OtherWorkerReports as silent:
        raise SystemExit(silent.exit_code) from None
    except AnydepthError as error:
        folder.with_suffix(f".error{os.environ.get('RANK', '')}").write_text(str(error), encoding="utf-8")
        raise SystemExit(error.exit_code) from None


def signal_at_write(number: int, write: int) -> None:
    """Sends this process the signal `number` just before the given (1, 2, ...) flush, rename or
    removal of a file from now on."""
    writes = count(1)

    def disturbed(operation: Callable[..., Any]) -> Callable[..., Any]:
        def operate(*arguments: Any, **options: Any) -> Any:
            if next(writes) == write:
                os.kill(os.getpid(), number)
            return operation(*arguments, **options)

        return operate

    os.fsync, os.replace, os.unlink = disturbed(os.fsync), disturbed(os.replace), disturbed(os.unlink)


def gradients_in_own_process(rank: int, world: int, port: int, accumulation: int, config: Config, file: Path) -> None:
    """The body of a process that is worker `rank` and writes the gradients of update 7 to
    `file`."""
    torch.set_num_threads(1)
    be_worker(rank, world, port)
    with workers() as group:
        objective = gradients_of_update_7(config, group, accumulation)
        save_file({name: parameter.grad for name, parameter in objective.named_parameters()}, file)


def gradients_of_update_7(config: Config, group: Workers, accumulation: int) -> TrainingObjective:
    """An objective whose gradients are those of one global batch of world * accumulation
    batches."""
    torch.manual_seed(config.training.seed)
    model = AdaptiveTransformer(config, source_vocab=SOURCE_VOCAB, target_vocab=TARGET_VOCAB, is_joint=False).train()
    objective = TrainingObjective(model, config)
    stream = BatchStream(tiny_pairs(40), max_tokens=30, seed=1)
    mine, _ = next(training_batches(stream, Position(), rank=group.rank, world=group.world, accumulation=accumulation))
    accumulate_gradients(group.wrap(objective), mine, group, seed=1, update=7)
    return objective


def free_port() -> int:
    """A port on which processes of this machine can meet."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def be_worker(rank: int, world: int, port: int) -> None:
    """Makes this process what torchrun would make it."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))


def train_as_worker(rank: int, world: int, port: int, folder: Path, data_folder: Path, config: Config) -> None:
    """The body of a process that trains a run together with others."""
    be_worker(rank, world, port)
    train_in_own_process(folder, data_folder, config)
