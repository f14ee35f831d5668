"""The native engine taken apart: its products against the processor's limits, idea by idea, and
where its time goes.

    python benchmarks/native_engine.py --rounds 5
    python benchmarks/native_engine.py --rounds 5 --run RUN --source-file FILE.de

The model is that of the paper's IWSLT'14 experiments with random weights; every output has the same
length, and the exits are drawn. Every round times each contestant once, in an order that rotates; a
ratio is the median over the rounds of the kept engine's seconds by those of the contestant in the
same round. `immediate` makes the keys and values of copied states at once; `avx2` and `plain` use
fewer instructions. With a run, real sentences are translated in batches that are refilled whenever
a sentence ends, and in batches that end with their longest sentence.
"""

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median

import torch
from training_step import FIRST_WORD, machine, rotated

from anydepth.config.loading import make_config
from anydepth.evaluation.evaluation_table import aligned_table
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.policies import FixedExit, ForcedExits, Policy
from anydepth.inference.engines.native import _native
from anydepth.inference.engines.native.native_engine import NativeEngine
from anydepth.inference.translator import Translator
from anydepth.search.decoding import SearchSettings

EXIT_SHARES = (0.62, 0.20, 0.09, 0.05, 0.025, 0.015)  # averages 1.7
LOTS = 1_000_000_000


def main() -> None:
    options = parse_options()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    print(machine())
    print(kernels_table(options.dim, options.vocab))
    model = shape_model(options.dim, options.vocab)
    for batch in options.batches:
        for beam in options.beams:
            print(f"\nbatch {batch}, beam {beam}")
            print(ideas_table(model, options, batch, beam))
    if options.run:
        print(f"\nbatches of {options.run}, full depth, float32")
        print(batches_table(options))


def kernels_table(dim: int, vocab: int) -> str:
    """What one product reaches: multiplications a second, and bytes of weights a second."""
    shapes = [(1, dim, vocab), (32, dim, vocab), (1, dim, 4 * dim), (32, dim, 4 * dim), (736, 2 * dim, 4 * dim)]
    rows = [
        ["rows x in x out", *(f"{set_} {kind}" for set_ in _native.instruction_sets() for kind in ("fp32", "int8"))]
    ]
    for m, k, n in shapes:
        cells = []
        for instructions in _native.instruction_sets():
            for is_int8 in (False, True):
                seconds = _native.linear_seconds(m, k, n, is_int8, instructions=instructions)
                cells.append(
                    f"{m * k * n / seconds / 1e9:.0f} GMAC/s, {k * n * (1 if is_int8 else 4) / seconds / 1e9:.0f} GB/s"
                )
        rows.append([f"{m} x {k} x {n}", *cells])
    return "\n".join(aligned_table(rows))


def ideas_table(model: AdaptiveTransformer, options: argparse.Namespace, batch: int, beam: int) -> str:
    """Every contestant at full depth and with drawn exits, and the shares of the kept engine's
    time."""
    sentences = torch.randint(FIRST_WORD, options.vocab, (options.sentences, options.source)).tolist()
    shares = torch.tensor(EXIT_SHARES).repeat(options.sentences, 1)
    table = 1 + torch.multinomial(shares, options.length, replacement=True)
    settings = SearchSettings(beam=beam, exact_length=options.length)
    rows = [["exits", "contestant", "ms a sentence", "kept by it", "min-max", "where its time goes"]]
    for kind, policy in (
        ("full", FixedExit(model.blocks, model.blocks)),
        ("drawn", ForcedExits(table, None, model.blocks)),
    ):
        for int8 in (False, True):
            engines = contestants(model, int8=int8)
            seconds = timed_rounds(
                {name: searching(engine, sentences, policy, settings, batch) for name, engine in engines.items()},
                options.rounds,
            )
            kept = next(iter(engines))
            for name, engine in engines.items():
                ratios = [first / own for first, own in zip(seconds[kept], seconds[name], strict=True)]
                rows.append(
                    [
                        f"{kind} {'int8' if int8 else 'fp32'}",
                        name,
                        f"{1000 * median(seconds[name]) / len(sentences):.2f}",
                        f"{median(ratios):.2f}",
                        f"{min(ratios):.2f}-{max(ratios):.2f}",
                        phases(engine),
                    ]
                )
    return "\n".join(aligned_table(rows))


def contestants(model: AdaptiveTransformer, *, int8: bool) -> dict[str, NativeEngine]:
    """The engine as it is, and without one idea at a time."""
    best, *others = _native.instruction_sets()
    engines = {best: NativeEngine(model, int8=int8), "immediate": NativeEngine(model, int8=int8, is_deferred=False)}
    return engines | {name: NativeEngine(model, int8=int8, instructions=name) for name in others}


def searching(
    engine: NativeEngine, sentences: list[list[int]], policy: Policy, settings: SearchSettings, batch: int
) -> Callable[[], object]:
    """A search of all sentences, `batch` at a time."""
    limited = replace(settings, batch_tokens=LOTS, batch_sentences=batch)
    return lambda: engine.search(sentences, policy, limited)


def phases(engine: NativeEngine) -> str:
    """The shares of the last search's time, largest first."""
    assert engine.counts is not None
    seconds = engine.counts.seconds
    total = sum(seconds.values())
    parts = sorted(seconds.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {100 * part / total:.0f}%" for name, part in parts if part > total / 200)


def batches_table(options: argparse.Namespace) -> str:
    """Refilled batches against fixed ones, sorted by length or as they come."""
    translator = Translator.load(options.run, engine="native", threads=1)
    lines = options.source_file.read_text(encoding="utf-8").splitlines()
    encoded = [ids for ids in translator.source_tokenizer.encode_lines(lines) if ids]
    engine, policy, batch = translator.engine, translator.policy(None), max(options.batches)
    settings = SearchSettings(beam=max(options.beams), batch_tokens=LOTS, batch_sentences=batch)

    def fixed(sentences: list[list[int]]) -> None:
        for start in range(0, len(sentences), batch):
            engine.search(sentences[start : start + batch], policy, settings)

    ways: dict[str, Callable[[], object]] = {
        "refilled": lambda: engine.search(encoded, policy, settings),
        "fixed, sorted by length": lambda: fixed(sorted(encoded, key=len)),
        "fixed, as they come": lambda: fixed(encoded),
    }
    seconds = timed_rounds(ways, options.rounds)
    rows = [["batches", "sentences/s", "refilled by it", "min-max"]]
    for name in ways:
        ratios = [first / own for first, own in zip(seconds["refilled"], seconds[name], strict=True)]
        speed = len(encoded) / median(seconds[name])
        rows.append([name, f"{speed:.0f}", f"{median(ratios):.2f}", f"{min(ratios):.2f}-{max(ratios):.2f}"])
    return "\n".join(aligned_table(rows))


def timed_rounds(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """The seconds of each way in each round, after one run that is not timed; the order rotates."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for work in ways.values():
        work()
    for number in range(rounds):
        for name in rotated(list(ways), number):
            started = time.perf_counter()
            ways[name]()
            seconds[name].append(time.perf_counter() - started)
    return seconds


def shape_model(dim: int, vocab: int) -> AdaptiveTransformer:
    """The paper's IWSLT'14 model with random weights: an encoder of twice the decoder's width, a
    classifier for every exit."""
    values = {
        "model": {
            "blocks": len(EXIT_SHARES),
            "heads": 4,
            "classifiers": "untied",
            "encoder": {"blocks": 6, "dim": 2 * dim, "ffn_dim": 4 * dim},
            "decoder": {"dim": dim, "ffn_dim": 4 * dim},
        }
    }
    return AdaptiveTransformer(make_config(values, []), source_vocab=vocab, target_vocab=vocab, is_joint=False).eval()


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--sentences", type=int, default=32)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--vocab", type=int, default=10_000)
    parser.add_argument("--length", type=int, default=25)
    parser.add_argument("--source", type=int, default=22, help="tokens of a source, without its end")
    parser.add_argument("--run", type=Path)
    parser.add_argument("--source-file", type=Path, help="sentences for --run")
    return parser.parse_args()


if __name__ == "__main__":
    main()
