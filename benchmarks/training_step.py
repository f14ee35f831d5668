"""What aligned training with six classifiers costs over a single one, with the chunked loss and
with the plain one.

    python benchmarks/training_step.py --rounds 5

The model is that of the paper's IWSLT'14 experiments. A step is a whole update of the parameters:
forward, backward, clip, AdamW. Every round times one step of each contestant, in an order that
rotates, and a ratio is the median over the rounds of a contestant's seconds by those of the single
classifier with the same loss in the same round. Memory is the peak of a process that holds one
contestant alone, and how much of it came on top of weights and optimizer.
"""

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch.nn import functional as F

from anydepth.config.loading import make_config
from anydepth.config.schema import Config, TrainingConfig
from anydepth.evaluation.evaluation_table import aligned_table
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.text.batches import Batch
from anydepth.text.tokenizer import BOS, EOS, UNK
from anydepth.training.distributed import Workers
from anydepth.training.losses import Teacher
from anydepth.training.objective import ExitRows, ScoredRows, TrainingObjective
from anydepth.training.optimizer import make_optimizer
from anydepth.training.update import accumulate_gradients, clip_and_step

ALONE = Workers(0, 1, torch.device("cpu"))
FIRST_WORD = UNK + 1
HEAD = ["", "first loss", "seconds", "min-max", "by single", "min-max", "peak MB", "over weights MB"]


class PlainObjective(TrainingObjective):
    """The same states, then the logits of all exits at once and torch's own cross-entropy.

    The losses stand in for the log-likelihoods, which it could not tell without another pass over
    the logits.
    """

    def decoding_loss(
        self, every: list[ExitRows], *, is_for_oracle: bool = False, teacher: Teacher | None = None
    ) -> ScoredRows:
        assert not is_for_oracle and teacher is None, "what is timed has no halting module and no teacher"
        logits = [F.linear(rows.hidden, self.model.classifier(rows.n)) for rows in every]
        smoothing = self.training_config.label_smoothing
        losses = torch.stack(
            [
                rows.weight * F.cross_entropy(scores, rows.targets, label_smoothing=smoothing, reduction="sum")
                for rows, scores in zip(every, logits, strict=True)
            ]
        )
        stand_in = [
            -loss.detach().expand(len(rows.hidden)) / len(rows.hidden) for loss, rows in zip(losses, every, strict=True)
        ]
        return ScoredRows(losses.sum(), stand_in, [])


@dataclass(frozen=True)
class Contestant:
    """A way to train, and the way with a single classifier that it is compared with."""

    name: str
    single: str
    exits: str
    objective: type[TrainingObjective] = TrainingObjective
    precision: str = "float32"
    block_precision: str = "float32"


CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant("single-plain", "single-plain", "last", PlainObjective),
        Contestant("aligned-plain", "single-plain", "all", PlainObjective),
        Contestant("single-chunked", "single-chunked", "last"),
        Contestant("aligned-chunked", "single-chunked", "all"),
        Contestant("single-chunked-bfloat16", "single-chunked-bfloat16", "last", precision="bfloat16"),
        Contestant("aligned-chunked-bfloat16", "single-chunked-bfloat16", "all", precision="bfloat16"),
        Contestant(
            "single-all-bfloat16", "single-all-bfloat16", "last", precision="bfloat16", block_precision="bfloat16"
        ),
        Contestant(
            "aligned-all-bfloat16", "single-all-bfloat16", "all", precision="bfloat16", block_precision="bfloat16"
        ),
    )
}


class Trainer:
    """A contestant with its weights, its optimizer and the batch that it sees at every step."""

    def __init__(self, contestant: Contestant, sizes: argparse.Namespace) -> None:
        config = make_training(contestant, dim=sizes.dim)
        torch.manual_seed(config.training.seed)
        self.config: TrainingConfig = config.training
        self.model = AdaptiveTransformer(
            config, source_vocab=sizes.vocab, target_vocab=sizes.vocab, is_joint=False
        ).train()
        self.objective = contestant.objective(self.model, config)
        self.parameters = list(self.model.parameters())
        self.optimizer = make_optimizer(self.model, config)
        self.batch = make_full_batch(sentences=sizes.sentences, length=sizes.length, vocab=sizes.vocab)
        self.steps = 0

    def fill_optimizer(self) -> None:
        """Makes the optimizer's moments now rather than in the first step, so that they are not
        counted as the step's."""
        for parameter in self.parameters:
            moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
            self.optimizer.state[parameter] = {"step": torch.tensor(0.0), **moments}

    def step(self) -> float:
        """The loss of one update, per target token."""
        sums = accumulate_gradients(self.objective, [self.batch], ALONE, seed=self.config.seed, update=self.steps)
        assert clip_and_step(self.optimizer, self.parameters, self.config, self.config.learning_rate)
        self.steps += 1
        return float(sums.loss / sums.tokens)


def main() -> None:
    """Prints the machine and one table row a contestant."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    if arguments.measure is not None:
        print(json.dumps(measure_memory(CONTESTANTS[arguments.measure], arguments)))
        return
    # A process starts with its parent's peak as its own, so memory comes first, while this process
    # is small.
    memory = {name: measure_in_subprocess(name, arguments) for name in CONTESTANTS}
    trainers = {name: Trainer(contestant, arguments) for name, contestant in CONTESTANTS.items()}
    losses = {name: trainer.step() for name, trainer in trainers.items()}
    seconds = time_rounds(trainers, rounds=arguments.rounds)
    print(machine())
    print(
        f"{arguments.sentences * arguments.length:,} target tokens a batch, {arguments.vocab:,} words, "
        f"{arguments.rounds} rounds"
    )
    rows = [
        [name, f"{losses[name]:.4f}", *time_cells(seconds, name), *memory_cells(memory[name])] for name in CONTESTANTS
    ]
    print("\n".join(aligned_table([HEAD, *rows])))


def parse_arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=128)
    parser.add_argument(
        "--length", type=int, default=25, help="tokens of every source and target sentence, ends included"
    )
    parser.add_argument("--vocab", type=int, default=10_000)
    parser.add_argument(
        "--dim",
        type=int,
        default=256,
        help="width of the decoder; the encoder is twice, the inner layers four times as wide",
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--measure", choices=CONTESTANTS, help=argparse.SUPPRESS)
    return parser.parse_args()


def make_training(contestant: Contestant, *, dim: int) -> Config:
    """The settings of a contestant; at dim 256 the paper's sizes for IWSLT'14."""
    return make_config(
        {
            "model": {
                "exits": contestant.exits,
                "encoder": {"dim": 2 * dim, "ffn_dim": 4 * dim},
                "decoder": {"dim": dim, "ffn_dim": 4 * dim},
            },
            "training": {"precision": contestant.precision, "block_precision": contestant.block_precision},
        }
    )


def make_full_batch(*, sentences: int, length: int, vocab: int) -> Batch:
    """Random pairs of one length, so that nothing is padding; the same at every call."""
    words = partial(torch.randint, FIRST_WORD, vocab, generator=torch.Generator().manual_seed(1))
    source, targets = words((sentences, length)), words((sentences, length))
    source[:, -1] = targets[:, -1] = EOS
    target_inputs = torch.cat([torch.full((sentences, 1), BOS), targets[:, :-1]], dim=1)
    everywhere = torch.ones(sentences, length, dtype=torch.bool)
    return Batch(source, everywhere, target_inputs, targets, everywhere, list(range(sentences)))


def time_rounds(trainers: dict[str, Trainer], *, rounds: int) -> dict[str, list[float]]:
    """Seconds of one step of every contestant in every round; each round begins with another
    contestant."""
    seconds: dict[str, list[float]] = {name: [] for name in trainers}
    names = list(trainers)
    for turn in range(rounds):
        for name in rotated(names, turn):
            started = time.perf_counter()
            trainers[name].step()
            seconds[name].append(time.perf_counter() - started)
    return seconds


def rotated(names: Sequence[str], turn: int) -> list[str]:
    """The names from number `turn` on, then those before it."""
    first = turn % len(names)
    return [*names[first:], *names[:first]]


def time_cells(seconds: dict[str, list[float]], name: str) -> list[str]:
    """Seconds, and their ratio to the single classifier's: medians and extremes."""
    own, single = seconds[name], seconds[CONTESTANTS[name].single]
    return spread(own) + spread([mine / theirs for mine, theirs in zip(own, single, strict=True)])


def spread(values: Sequence[float]) -> list[str]:
    """The median, and the smallest and largest value."""
    return [f"{median(values):.3f}", f"{min(values):.3f}-{max(values):.3f}"]


def memory_cells(memory: dict[str, float]) -> list[str]:
    """The peak, and what of it the steps added."""
    return [f"{memory['peak_mb']:,.0f}", f"{memory['peak_mb'] - memory['before_mb']:,.0f}"]


def measure_in_subprocess(name: str, arguments: argparse.Namespace) -> dict[str, float]:
    """What `measure_memory` returns in a fresh process."""
    sizes = [
        word
        for option in ("sentences", "length", "vocab", "dim", "threads")
        for word in (f"--{option}", str(getattr(arguments, option)))
    ]
    finished = subprocess.run(
        [sys.executable, __file__, "--measure", name, *sizes], check=True, stdout=subprocess.PIPE, text=True
    )
    memory: dict[str, float] = json.loads(finished.stdout)
    return memory


def measure_memory(contestant: Contestant, sizes: argparse.Namespace) -> dict[str, float]:
    """Peak memory of this process with weights and optimizer alone, and after two steps."""
    trainer = Trainer(contestant, sizes)
    trainer.fill_optimizer()
    before = peak_mb()
    trainer.step()
    trainer.step()
    return {"before_mb": before, "peak_mb": peak_mb()}


def peak_mb() -> float:
    """The largest memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def machine() -> str:
    """The processor, the threads in use and the version of torch."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = models[0] if models else platform.processor() or platform.machine()
    return f"{processor}, {torch.get_num_threads()} threads, torch {torch.__version__}"


if __name__ == "__main__":
    main()
