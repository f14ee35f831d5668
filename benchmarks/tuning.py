"""What tuning by replay costs a candidate against decoding it, as the paper does.

    python benchmarks/tuning.py RUN --valid PREFIX --candidates 10000 --decoded 5

The record of the validation set is made once, then all candidates are replayed together; a few are
decoded with the run's beam. Rounds alternate replaying and decoding; the ratio is the median over
the rounds, with the smallest and the largest.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np
import torch

from anydepth.evaluation.evaluation_table import aligned_table
from anydepth.evaluation.measure import measure
from anydepth.exits.parsing import threshold_policy
from anydepth.inference.translator import Translator
from anydepth.runs.run import Run
from anydepth.search.decoding import DecodingOptions
from anydepth.tuning.candidates import DIGITS
from anydepth.tuning.decoded_points import DecodedPoints
from anydepth.tuning.replay import record, replay
from anydepth.tuning.tune import tunable_family
from anydepth.tuning.valid_text import ValidationText, validation_text

Result = TypeVar("Result")


def main() -> None:
    options = parse_options()
    if options.threads:
        torch.set_num_threads(options.threads)
    decoding = DecodingOptions(beam=options.beam)
    run, translator = Run(options.run), Translator.load(options.run, engine=options.engine)
    family = tunable_family(options.policy, translator)
    text = validation_text(run, options.valid, lambda line: None)
    points = DecodedPoints(translator, run, text, decoding, lambda line: None)
    generator, decisions = np.random.default_rng(1), translator.model.blocks - 1
    candidates = np.round(generator.random((options.candidates, decisions)), DIGITS)
    policy = threshold_policy(family, [0.5] * decisions, translator.model)

    full_seconds, (_, translated) = timed(points.full_depth)
    pairs = [points.pairs(targets) for targets in (translated, text.references)]
    record_seconds, records = timed(lambda: [record(translator.model, each, policy) for each in pairs])
    replayed, decoded = [], []
    for number in range(options.rounds):
        replayed.append(timed(lambda: [replay(each, candidates) for each in records])[0] / len(candidates))
        chosen = candidates[number * options.decoded : (number + 1) * options.decoded].tolist()
        seconds = []
        for thresholds in chosen:
            seconds.append(timed(partial(decode, translator, family, thresholds, text, decoding))[0])
        decoded.append(sum(seconds) / len(seconds))
    ratios = [slow / fast for slow, fast in zip(decoded, replayed, strict=True)]
    print(f"{family} on {len(text.sources):,} sentences, {len(candidates):,} candidates")
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}")
    rows = [
        ["", "seconds"],
        ["full depth, decoded once", f"{full_seconds:.2f}"],
        ["two records", f"{record_seconds:.2f}"],
    ]
    rows += [["a candidate, replayed", f"{median(replayed):.6f}"], ["a candidate, decoded", f"{median(decoded):.3f}"]]
    rows += [["decoded by replayed", f"{median(ratios):,.0f} ({min(ratios):,.0f}-{max(ratios):,.0f})"]]
    print("\n".join(aligned_table(rows)))


def decode(
    translator: Translator, family: str, thresholds: list[float], text: ValidationText, decoding: DecodingOptions
) -> None:
    """Decodes and scores the validation set with one candidate."""
    policy = threshold_policy(family, thresholds, translator.model)
    measure(translator, text.sources, text.references, policy, decoding)


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    """The seconds that `work` takes, and what it gives."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--valid", required=True)
    parser.add_argument("--policy")
    parser.add_argument("--candidates", type=int, default=10_000)
    parser.add_argument("--decoded", type=int, default=5, help="candidates decoded in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", default="auto", help="what decodes: native, onnx, torch or auto")
    parser.add_argument("--beam", type=int)
    parser.add_argument("--threads", type=int)
    return parser.parse_args()


if __name__ == "__main__":
    main()
