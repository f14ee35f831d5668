"""What an update costs: several ways to train, on the same batches, their turns interleaved."""

import time
from collections.abc import Sequence

import torch
from torch import nn

from anydepth.config.schema import Config
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.model.memory import check_memory
from anydepth.text.batches import Batch, BatchStream, Position, training_batches
from anydepth.text.prepared import PreparedData
from anydepth.training.distributed import Workers
from anydepth.training.objective import TrainingObjective
from anydepth.training.optimizer import make_optimizer
from anydepth.training.update import accumulate_gradients, clip_and_step


def single_worker() -> Workers:
    """This process as the only worker, on a GPU where there is one."""
    return Workers(0, 1, torch.device("cuda" if torch.cuda.is_available() else "cpu"))


class TimedUpdates:
    """A fresh model that can be trained for an update at a time."""

    def __init__(self, config: Config, data: PreparedData) -> None:
        torch.manual_seed(config.training.seed)
        self.workers = single_worker()
        self.config = config.training
        source_vocab, target_vocab = (
            data.manifest.vocab_sizes[language] for language in (data.source_lang, data.target_lang)
        )
        check_memory(config.model, source_vocab=source_vocab, target_vocab=target_vocab, is_joint=data.is_joint)
        self.model = AdaptiveTransformer(
            config, source_vocab=source_vocab, target_vocab=target_vocab, is_joint=data.is_joint
        ).train()
        self.model.to(self.workers.device)
        self.objective: nn.Module = TrainingObjective(self.model, config)
        self.optimizer = make_optimizer(self.model, config)
        self.update = 0

    def seconds(self, batches: Sequence[Sequence[Batch]]) -> float:
        """The time of one update for each of `batches`."""
        started = time.perf_counter()
        for mine in batches:
            self.update += 1
            accumulate_gradients(self.objective, mine, self.workers, seed=self.config.seed, update=self.update)
            clip_and_step(
                self.optimizer,
                list(self.model.parameters()),
                self.config,
                self.config.learning_rate / self.config.warmup,
            )
        return time.perf_counter() - started


def update_seconds(configs: Sequence[Config], data: PreparedData, *, rounds: int, updates: int) -> list[list[float]]:
    """Seconds of an update for each of `configs` in each round, on the same batches; a first round,
    which warms up, is left out.

    In every other round the order is turned round.
    """
    first = configs[0].training
    stream = BatchStream(data.pairs("train"), max_tokens=first.batch_tokens, seed=first.seed)
    batches = training_batches(stream, Position(), rank=0, world=1, accumulation=first.accumulation)
    contestants = [TimedUpdates(config, data) for config in configs]
    seconds: list[list[float]] = [[] for _ in configs]
    for turn in range(rounds + 1):
        drawn = [next(batches)[0] for _ in range(updates)]
        order = range(len(configs)) if turn % 2 else reversed(range(len(configs)))
        for number in order:
            taken = contestants[number].seconds(drawn) / updates
            if turn:
                seconds[number].append(taken)
    return seconds
