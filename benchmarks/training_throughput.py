"""Target tokens/s in training, against implementations of the same model by others.

    python benchmarks/training_throughput.py --rounds 5

The contestants are anydepth with a single classifier, torch's nn.Transformer in a plain loop and,
where it is installed, the model of JoeyNMT. All have the same sizes, number of parameters, padded
batches, optimizer and clipping. Dropout falls in the same places in all: after embeddings and
sub-blocks, neither on attention weights nor inside the feed-forward network, where nn.Transformer
and JoeyNMT would also have it. What differs is how each computes: anydepth draws its dropout masks
from raw bits, takes logits of real tokens only and never holds all of them; JoeyNMT's loss is a
divergence, lower by the entropy of the smoothed targets.

Only real target tokens are counted. Every batch goes to each contestant before the next one does,
in an order that rotates; a figure is the median over the rounds, a ratio the median of the ratios
within a round.
"""

import argparse
import importlib.util
import math
import time
from collections.abc import Callable
from statistics import median
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from training_step import ALONE, FIRST_WORD, machine, rotated, spread

from anydepth.config.loading import make_config
from anydepth.config.model_settings import ModelConfig
from anydepth.config.schema import Config, TrainingConfig
from anydepth.evaluation.evaluation_table import aligned_table
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.text.batches import Batch, ordered_batches
from anydepth.text.tokenizer import PAD
from anydepth.text.tokens import TokenPairs, TokenSide
from anydepth.training.objective import TrainingObjective
from anydepth.training.optimizer import make_optimizer
from anydepth.training.update import accumulate_gradients, clip_and_step

Step = Callable[[Batch], float]

OURS = "anydepth"
HEAD = ["", "parameters", "first loss", "tokens/s", "min-max", "anydepth by it", "min-max"]


class TorchTransformer(nn.Module):
    """The model of `ModelConfig` made of nn.Transformer: the sum of a batch's label-smoothed
    losses."""

    def __init__(self, config: ModelConfig, *, vocab: int, label_smoothing: float) -> None:
        super().__init__()
        self.dim, self.label_smoothing = config.decoder.dim, label_smoothing
        self.source_embedding, self.target_embedding = nn.Embedding(vocab, self.dim), nn.Embedding(vocab, self.dim)
        self.classifier = nn.Linear(self.dim, vocab, bias=False)
        for words in (self.source_embedding, self.target_embedding, self.classifier):
            nn.init.normal_(words.weight, std=self.dim**-0.5)
        sizes = {
            "dim_feedforward": config.decoder.ffn_dim,
            "dropout": config.dropout,
            "activation": "relu",
            "batch_first": True,
        }
        encoder_layer = nn.TransformerEncoderLayer(self.dim, config.heads, norm_first=False, **sizes)
        decoder_layer = nn.TransformerDecoderLayer(self.dim, config.heads, norm_first=False, **sizes)
        encoder_layer.self_attn.dropout = decoder_layer.self_attn.dropout = decoder_layer.multihead_attn.dropout = 0.0
        encoder_layer.dropout.p = decoder_layer.dropout.p = 0.0
        self.transformer = nn.Transformer(
            self.dim,
            config.heads,
            custom_encoder=nn.TransformerEncoder(encoder_layer, config.encoder.blocks, enable_nested_tensor=False),
            custom_decoder=nn.TransformerDecoder(decoder_layer, config.blocks),
            batch_first=True,
        )
        self.dropout = nn.Dropout(config.dropout)
        self.register_buffer("positions", interleaved_sinusoids(config.max_length, self.dim))

    def forward(self, batch: Batch) -> Tensor:
        is_padding = ~batch.source_mask
        time_steps = batch.targets.shape[1]
        states = self.transformer(
            self._embed(self.source_embedding, batch.source),
            self._embed(self.target_embedding, batch.target_inputs),
            tgt_mask=torch.ones(time_steps, time_steps, dtype=torch.bool).triu(1),
            tgt_is_causal=True,
            src_key_padding_mask=is_padding,
            memory_key_padding_mask=is_padding,
        )
        logits = self.classifier(states).flatten(0, 1)  # (batch * time, vocab)
        targets = batch.targets.flatten()
        return F.cross_entropy(logits, targets, ignore_index=PAD, label_smoothing=self.label_smoothing, reduction="sum")

    def _embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        return self.dropout(embedding(tokens) * math.sqrt(self.dim) + self.positions[: tokens.shape[1]])


def interleaved_sinusoids(length: int, dim: int) -> Tensor:
    """Position vectors whose even entries are sines and odd entries cosines."""
    rates = torch.exp(torch.arange(0, dim, 2) * (-math.log(10_000.0) / dim))
    angles = torch.arange(length)[:, None] * rates  # (time, dim / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)


class JoeyTransformer(nn.Module):
    """The model of `ModelConfig` as JoeyNMT builds it: the sum of a batch's label-smoothed
    losses."""

    def __init__(self, config: ModelConfig, *, vocab: int, label_smoothing: float) -> None:
        from joeynmt.model import build_model
        from joeynmt.vocabulary import Vocabulary

        super().__init__()
        names = {f"{name}_token": f"<{name}>" for name in ("unk", "pad", "bos", "eos")}
        numbers = {f"{name}_id": number for number, name in enumerate(("unk", "pad", "bos", "eos"))}
        special = SimpleNamespace(**names, **numbers, sep_token=None, lang_tags=[])
        words = Vocabulary([str(number) for number in range(FIRST_WORD, vocab)], special)
        words.pad_index = PAD
        side = {
            "type": "transformer",
            "num_heads": config.heads,
            "hidden_size": config.decoder.dim,
            "ff_size": config.decoder.ffn_dim,
            "dropout": config.dropout,
            "layer_norm": "post",
            "embeddings": {"embedding_dim": config.decoder.dim, "scale": True, "dropout": config.dropout},
        }
        sides = {
            "encoder": {**side, "num_layers": config.encoder.blocks},
            "decoder": {**side, "num_layers": config.blocks},
        }
        self.model = build_model(sides, words, words)
        self.model.loss_function = ("crossentropy", label_smoothing)
        for layer in (*self.model.encoder.layers, *self.model.decoder.layers):
            layer.feed_forward.pwff_layer[2].p = 0.0
            for name in ("src_src_att", "trg_trg_att", "src_trg_att"):
                if hasattr(layer, name):
                    getattr(layer, name).dropout.p = 0.0

    def forward(self, batch: Batch) -> Tensor:
        loss, *_ = self.model(
            return_type="loss",
            src=batch.source,
            src_length=batch.source_mask.sum(dim=1),
            src_mask=batch.source_mask[:, None, :],
            trg_input=batch.target_inputs,
            trg=batch.targets,
            trg_mask=batch.target_mask[:, None, :],
        )
        return loss


def main() -> None:
    """Prints the machine, the batches and one table row a contestant."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    config = make_training(dim=arguments.dim, batch_tokens=arguments.batch_tokens)
    pairs = make_pairs(
        sentences=arguments.sentences, length=arguments.length, vocab=arguments.vocab, longest=config.model.max_length
    )
    batches = list(ordered_batches(pairs, max_tokens=config.training.batch_tokens))
    models = make_models(config, vocab=arguments.vocab)
    parameters = {name: sum(parameter.numel() for parameter in model.parameters()) for name, model in models.items()}
    assert len(set(parameters.values())) == 1, f"the contestants are not the same model: {parameters}"
    steps = {name: make_step(name, model, config) for name, model in models.items()}
    losses = {name: step(batches[-1]) for name, step in steps.items()}
    speeds = time_rounds(steps, batches, rounds=arguments.rounds)
    print(machine())
    positions = sum(batch.targets.numel() for batch in batches)
    tokens = sum(batch.tokens for batch in batches)
    print(
        f"{len(batches)} batches of {tokens:,} target tokens, {1 - tokens / positions:.0%} padding, "
        f"{arguments.rounds} rounds"
    )
    rows = [[name, f"{parameters[name]:,}", f"{losses[name]:.3f}", *speed_cells(speeds, name)] for name in models]
    print("\n".join(aligned_table([HEAD, *rows])))


def parse_arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=1000, help="pairs in all batches of a round")
    parser.add_argument("--length", type=int, default=22, help="tokens of a sentence on average")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--vocab", type=int, default=10_000)
    parser.add_argument(
        "--dim", type=int, default=256, help="width of encoder and decoder; the inner layers are four times as wide"
    )
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def make_training(*, dim: int, batch_tokens: int) -> Config:
    """A single classifier over a decoder as wide as its encoder, which nn.Transformer needs."""
    side = {"dim": dim, "ffn_dim": 4 * dim}
    return make_config(
        {"model": {"exits": "last", "encoder": side, "decoder": side}, "training": {"batch_tokens": batch_tokens}},
    )


def make_pairs(*, sentences: int, length: int, vocab: int, longest: int) -> TokenPairs:
    """Random pairs, the same at every call: source lengths are log-normal, and targets about as
    long as their sources."""
    randomness = np.random.default_rng(1)
    spread_of_lengths, spread_of_ratios = 0.5, 0.15
    mean = math.log(length) - spread_of_lengths**2 / 2
    source_lengths = randomness.lognormal(mean, spread_of_lengths, sentences)
    target_lengths = source_lengths * randomness.lognormal(0.0, spread_of_ratios, sentences)
    sides = [
        TokenSide.from_sentences(
            [randomness.integers(FIRST_WORD, vocab, size) for size in lengths.round().astype(int).clip(1, longest - 1)]
        )
        for lengths in (source_lengths, target_lengths)
    ]
    return TokenPairs(*sides)


def make_models(config: Config, *, vocab: int) -> dict[str, nn.Module]:
    """The contestants, ours first; JoeyNMT only where it is installed."""
    torch.manual_seed(config.training.seed)
    options = {"vocab": vocab, "label_smoothing": config.training.label_smoothing}
    models: dict[str, nn.Module] = {
        OURS: AdaptiveTransformer(config, source_vocab=vocab, target_vocab=vocab, is_joint=False),
        "nn.Transformer": TorchTransformer(config.model, **options),
    }
    if importlib.util.find_spec("joeynmt") is not None:
        models["JoeyNMT"] = JoeyTransformer(config.model, **options)
    return {name: model.train() for name, model in models.items()}


def make_step(name: str, model: nn.Module, config: Config) -> Step:
    """A function that makes one update with a batch and returns the loss of a token."""
    optimizer, parameters = make_optimizer(model, config), list(model.parameters())
    if name != OURS:
        return lambda batch: plain_step(model, optimizer, parameters, config.training, batch)
    assert isinstance(model, AdaptiveTransformer)
    objective = TrainingObjective(model, config)

    def step(batch: Batch) -> float:
        sums = accumulate_gradients(objective, [batch], ALONE, seed=config.training.seed, update=0)
        assert clip_and_step(optimizer, parameters, config.training, config.training.learning_rate)
        return float(sums.loss / sums.tokens)

    return step


def plain_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    parameters: list[nn.Parameter],
    config: TrainingConfig,
    batch: Batch,
) -> float:
    """One update as it is usually written, and the loss of a token."""
    optimizer.zero_grad()
    loss = model(batch) / batch.tokens
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, config.clip_norm)
    for group in optimizer.param_groups:
        group["lr"] = config.learning_rate
    optimizer.step()
    return float(loss.detach())


def time_rounds(steps: dict[str, Step], batches: list[Batch], *, rounds: int) -> dict[str, list[float]]:
    """Target tokens/s of every contestant in every round over the batches."""
    tokens = sum(batch.tokens for batch in batches)
    speeds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(rounds):
        seconds = dict.fromkeys(steps, 0.0)
        for number, batch in enumerate(batches):
            for name in rotated(list(steps), turn + number):
                started = time.perf_counter()
                steps[name](batch)
                seconds[name] += time.perf_counter() - started
        for name, spent in seconds.items():
            speeds[name].append(tokens / spent)
    return speeds


def speed_cells(speeds: dict[str, list[float]], name: str) -> list[str]:
    """Tokens a second, and our ratio to them: medians and extremes."""
    own = speeds[name]
    ratios = [ours / theirs for ours, theirs in zip(speeds[OURS], own, strict=True)]
    return [f"{median(own):,.0f}", f"{min(own):,.0f}-{max(own):,.0f}", *spread(ratios)]


if __name__ == "__main__":
    main()
