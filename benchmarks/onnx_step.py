"""Search with the blocks in ONNX Runtime against the plain step in torch, idea by idea, at full
depth and with early exits.

    python benchmarks/onnx_step.py --rounds 5

The model is that of the paper's IWSLT'14 experiments with one classifier for all exits and random
weights; every output has the same length, and the exits are drawn. Every round times each
contestant once, in an order that rotates; a ratio is the median over the rounds of torch's seconds
by those of the contestant in the same round, in all and without the encoder. The contestants that
are not kept: `all-rows` takes every row through a block while one row runs it; `immediate` makes
keys and values of skipped blocks at once, block by block; `stacked` makes them at once in one
product; `one-scale` is int8 with one scale for all rows of a product's states.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import numpy as np
import onnxruntime
import torch
from torch import Tensor
from training_step import FIRST_WORD, machine, rotated

from anydepth.config.loading import make_config
from anydepth.evaluation.evaluation_table import aligned_table
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.policies import FixedExit, ForcedExits, Policy
from anydepth.inference.engines.onnx.onnx_cache import DeferredCache
from anydepth.inference.engines.onnx.onnx_model import OnnxTransformer
from anydepth.inference.engines.onnx.sessions import Array, Program, open_programs
from anydepth.inference.export import onnx_graphs as graphs
from anydepth.inference.export.onnx_folder import OPSET, write_graphs
from anydepth.model.cache import DecoderCache
from anydepth.search.beam import search
from anydepth.search.decoding import SearchSettings
from anydepth.text.tokenizer import EOS

EXIT_SHARES = (0.62, 0.20, 0.09, 0.05, 0.025, 0.015)  # averages 1.7
HEAD = ["batch", "exits", "contestant", "ms", "encoder ms", "torch by it", "min-max", "decoding alone", "same words"]


class AllRows(OnnxTransformer):
    """Rows that have left go on through blocks for nothing."""

    def _run_rows(self, n: int, states: Array, cache: DeferredCache, rows: Array) -> Array:
        every = super()._run_rows(n, np.ascontiguousarray(cache.states[:, cache.time]), cache, cache.rows)
        return every[rows]


class ImmediateCache(DeferredCache):
    """Keys and values of skipped blocks are made when the position ends."""

    programs: Mapping[str, Program]

    def end(self) -> Array:
        for n in range(2, 1 + sum(name.startswith("block") for name in self.programs)):
            rows = self.rows[self.done[n] <= self.time] if n in self.done else self.rows
            if len(rows):
                self.catch_up(n, rows, self.states[rows, self.time], self.programs[f"keys_values{n}"])
        return super().end()


class StackedCache(ImmediateCache):
    """The same in one product for all blocks."""

    def end(self) -> Array:
        blocks = sum(name.startswith("block") for name in self.programs)
        rows = self.rows[self.done[blocks] <= self.time] if blocks in self.done else self.rows
        if len(rows):
            outputs = self.programs["stacked"](states=self.states[rows, self.time])
            for n in range(2, blocks + 1):
                missing = self.done[n][rows] <= self.time if n in self.done else np.ones(len(rows), bool)
                keys, values = (output[missing] for output in outputs[2 * n - 4 : 2 * n - 2])
                self.keep(n, rows[missing], np.array(self.time), keys, values)
                self.done[n][rows] = self.time + 1
        return DeferredCache.end(self)


class Immediate(OnnxTransformer):
    """Keys and values are made at once, in the way of `cache_kind`."""

    cache_kind = ImmediateCache

    def start_cache(self, memory: Tensor, source_mask: Tensor) -> DecoderCache:
        cache = self.cache_kind(memory, source_mask, torch.arange(len(memory)))
        cache.programs = self.programs
        return cache


class Stacked(Immediate):
    cache_kind = StackedCache


class OneScale(graphs.Graph):
    """Products of int8 whose states have one scale for all rows."""

    def matrix_product(self, states: str, matrix: Array) -> str:
        scales = np.abs(matrix).max(axis=0) / graphs.INT8_STEPS
        rounded = np.ascontiguousarray(np.round(matrix / scales).astype(np.int8))
        small, scale, zero = self.add_many("DynamicQuantizeLinear", states, results=3)
        sums = self.add("MatMulInteger", small, self.constant(rounded), zero, self.constant(np.zeros((), np.int8)))
        return self.add(
            "Mul",
            self.add("Cast", sums, to=graphs.FLOAT),
            self.add("Mul", scale, self.constant(scales.astype(np.float32))),
        )


class Stopwatch:
    """A program that adds up its seconds under its kind, such as "block"."""

    def __init__(self, name: str, program: Program, seconds: dict[str, float]) -> None:
        self.kind, self.program, self.seconds = name.rstrip("0123456789"), program, seconds

    def __call__(self, **inputs: Array) -> list[Array]:
        started = time.perf_counter()
        outputs = self.program(**inputs)
        self.seconds[self.kind] = self.seconds.get(self.kind, 0.0) + time.perf_counter() - started
        return outputs


def main() -> None:
    """Prints the machine, one table row a contestant, and where the time of the kept ones goes."""
    options = parse_options()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = make_model(options)
    settings = SearchSettings(beam=options.beam, exact_length=options.length)
    print(
        f"{machine()}, ONNX Runtime {onnxruntime.__version__}; beam {options.beam}, source {options.source}, "
        f"output {options.length}"
    )
    rows, shares = [HEAD], [["batch", "exits", "contestant", "", "share of the time"]]
    with tempfile.TemporaryDirectory() as folder:
        contestants = make_contestants(model, Path(folder), options.threads)
        for batch in options.batches:
            source, mask = make_sources(batch, options)
            for name, policy in policies(batch, options, model.blocks).items():
                table = time_rounds(contestants, source, mask, policy, settings, rounds=options.rounds)
                rows += [[str(batch), name, *cells] for cells in table]
                for each in ("onnx", "onnx-int8"):
                    shares += [
                        [str(batch), name, each, *cells]
                        for cells in time_parts(contestants[each], source, mask, policy, settings)
                    ]
    print("\n".join(aligned_table(rows)))
    print("\n".join(aligned_table(shares)))


def parse_options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--source", type=int, default=23, help="tokens of every source sentence, its end included")
    parser.add_argument("--length", type=int, default=25, help="tokens of every output")
    parser.add_argument("--vocab", type=int, default=10_000)
    parser.add_argument("--dim", type=int, default=256, help="width of the decoder; the encoder is twice as wide")
    parser.add_argument("--threads", type=int, default=1)
    return parser.parse_args()


def make_model(options: argparse.Namespace) -> AdaptiveTransformer:
    """A model of random weights; at dim 256 the paper's sizes for IWSLT'14."""
    dim = options.dim
    sizes = {
        "encoder": {"dim": 2 * dim, "ffn_dim": 4 * dim},
        "decoder": {"dim": dim, "ffn_dim": 4 * dim},
        "classifiers": "shared",
    }
    config = make_config({"model": sizes})
    return AdaptiveTransformer(config, source_vocab=options.vocab, target_vocab=options.vocab, is_joint=False).eval()


def make_contestants(model: AdaptiveTransformer, folder: Path, threads: int) -> dict[str, AdaptiveTransformer]:
    """Torch and all ways to use ONNX Runtime."""

    def programs(name: str, *, int8: bool) -> dict[str, Program]:
        (folder / name).mkdir()
        return open_programs(write_graphs(model, folder / name, int8=int8), threads=threads)

    plain, small = programs("float32", int8=False), programs("int8", int8=True)
    kept, graphs.Graph = graphs.Graph, OneScale  # type: ignore[misc]
    one_scale = programs("one-scale", int8=True)
    graphs.Graph = kept  # type: ignore[misc]
    (folder / "stacked.onnx").write_bytes(stacked_graph(model).content(opset=OPSET))
    plain |= open_programs({"stacked": folder / "stacked.onnx"}, threads=threads)
    return {
        "torch": model,
        "onnx": OnnxTransformer(model, plain, name="onnx"),
        "all-rows": AllRows(model, plain, name="all-rows"),
        "immediate": Immediate(model, plain, name="immediate"),
        "stacked": Stacked(model, plain, name="stacked"),
        "onnx-int8": OnnxTransformer(model, small, name="onnx-int8"),
        "one-scale": OnnxTransformer(model, one_scale, name="one-scale"),
    }


def stacked_graph(model: AdaptiveTransformer) -> graphs.Graph:
    """The keys and values of all blocks but the first in one product."""
    graph = graphs.Graph("stacked", int8=False)
    attentions = [block.self_attention for block in model._decoder_blocks[1:]]
    heads, head_dim = graphs.head_sizes(attentions[0])
    states = graph.input("states", graphs.FLOAT, ["row", model.config.decoder.dim])
    layers = [graphs.parameters(layer) for attention in attentions for layer in (attention.key, attention.value)]
    parts = graph.add_many("Split", graph.linear(states, *layers), results=len(layers), axis=-1)
    for number, part in enumerate(parts):
        graph.output(
            f"part{number}", graph.add("Reshape", part, graph.constant([0, heads, head_dim])), ["row", heads, head_dim]
        )
    return graph


def make_sources(batch: int, options: argparse.Namespace) -> tuple[Tensor, Tensor]:
    """Random sources of one length."""
    source = torch.randint(
        FIRST_WORD, options.vocab, (batch, options.source), generator=torch.Generator().manual_seed(1)
    )
    source[:, -1] = EOS
    return source, torch.ones_like(source, dtype=torch.bool)


def policies(batch: int, options: argparse.Namespace, blocks: int) -> dict[str, Policy]:
    """Full depth and drawn exits, by the average exit."""
    shares = np.array(EXIT_SHARES) / sum(EXIT_SHARES)
    drawn = torch.tensor(
        np.random.default_rng(1).choice(np.arange(1, blocks + 1), size=(batch, options.length), p=shares)
    )
    return {f"{blocks:.2f}": FixedExit(blocks, blocks), f"{drawn.float().mean():.2f}": ForcedExits(drawn)}


def time_rounds(
    contestants: Mapping[str, AdaptiveTransformer],
    source: Tensor,
    mask: Tensor,
    policy: Policy,
    settings: SearchSettings,
    *,
    rounds: int,
) -> list[list[str]]:
    """The cells of each contestant: milliseconds, and torch's by its own."""
    encoding: dict[str, list[float]] = {name: [] for name in contestants}
    total: dict[str, list[float]] = {name: [] for name in contestants}
    repeats = max(1, 8 // len(source))
    for turn in range(-1, rounds):  # the first round warms up
        for name in rotated(list(contestants), max(turn, 0)):
            model = contestants[name]
            with torch.inference_mode():
                encoder = timed(lambda: model.encode(source, mask), repeats)  # noqa: B023
            whole = timed(lambda: search(model, source, mask, policy, settings), repeats)  # noqa: B023
            if turn >= 0:
                encoding[name].append(encoder)
                total[name].append(whole)
    words = {
        name: [best[0].tokens for best in search(model, source, mask, policy, settings)]
        for name, model in contestants.items()
    }
    cells = []
    for name, own in total.items():
        ratios = [slow / fast for slow, fast in zip(total["torch"], own, strict=True)]
        decoding = [
            (total["torch"][turn] - encoding["torch"][turn]) / (own[turn] - encoding[name][turn])
            for turn in range(rounds)
        ]
        milliseconds = [f"{1000 * median(each):.1f}" for each in (own, encoding[name])]
        same = sum(mine == theirs for mine, theirs in zip(words[name], words["torch"], strict=True)) / len(source)
        spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
        cells.append(
            [name, *milliseconds, f"{median(ratios):.2f}", spread, f"{median(decoding):.2f}", f"{100 * same:.0f}%"]
        )
    return cells


def time_parts(
    model: AdaptiveTransformer, source: Tensor, mask: Tensor, policy: Policy, settings: SearchSettings
) -> list[list[str]]:
    """The share of the time that each kind of graph takes, and what is left for Python, NumPy and
    search."""
    assert isinstance(model, OnnxTransformer)
    seconds: dict[str, float] = {}
    watched = {name: Stopwatch(name, program, seconds) for name, program in model.programs.items()}
    timed_model = OnnxTransformer(model, watched, name=model.name)  # type: ignore[arg-type]
    repeats = max(1, 8 // len(source))
    whole = repeats * timed(lambda: search(timed_model, source, mask, policy, settings), repeats)
    parts = {**seconds, "between graphs": whole - sum(seconds.values())}
    return [[kind, f"{100 * part / whole:.0f}%"] for kind, part in parts.items()]


def timed(work: Callable[[], object], repeats: int) -> float:
    """Seconds of one of several repetitions."""
    started = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - started) / repeats


if __name__ == "__main__":
    main()
