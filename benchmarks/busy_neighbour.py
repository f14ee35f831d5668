"""What training and translating with torch lose beside a busy process, by how OpenMP's threads wait
for each other.

    python benchmarks/busy_neighbour.py --rounds 5

The model is that of the settings multi30k_de_en. A contestant is a setting of the environment; each
turn is a process of its own, because OpenMP reads the environment once, and works for some seconds
alone or beside a process that never sleeps. Turns are interleaved. A share is the median over the
rounds of the work done by that of torch's own setting, alone, in the same round.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anydepth.config.schema import Config

WORK = ("train", "translate")
PLACES = ("alone", "busy")
NEIGHBOUR = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"  # ends with who started it
READ_BY_OPENMP = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
CONTESTANTS = {
    "torch's own": {},
    "anydepth": {"ANYDEPTH": "1"},
    "passive": {"OMP_WAIT_POLICY": "passive"},
    "one thread": {"OMP_NUM_THREADS": "1"},
}


def main() -> None:
    """Prints a row for each contestant and kind of work; with --turn, does one turn and prints the
    work done a second."""
    options = parse_options()
    if options.turn:
        print(json.dumps(one_turn(options)))
        return
    contestants = CONTESTANTS | {f"spin {count:,}": {"GOMP_SPINCOUNT": str(count)} for count in options.spin}
    speeds: dict[tuple[str, str, str], list[float]] = {}
    for number in range(options.rounds):
        turns = list(product(options.work, PLACES, contestants))
        for work, place, name in turns if number % 2 == 0 else reversed(turns):
            with neighbours(options.neighbours if place == "busy" else 0):
                speeds.setdefault((work, place, name), []).append(turn_in_process(work, options, contestants[name]))
    print_table(speeds, contestants)


def print_table(speeds: dict[tuple[str, str, str], list[float]], contestants: dict[str, dict[str, str]]) -> None:
    """Work a second, and its share of torch's own setting alone, with the smallest and the
    largest."""
    from anydepth.evaluation.evaluation_table import aligned_table

    rows = [["work", "waiting", *(cell for place in PLACES for cell in (place, "share", "min-max"))]]
    for work in dict.fromkeys(key[0] for key in speeds):
        first = speeds[work, "alone", "torch's own"]
        for name in contestants:
            cells = []
            for place in PLACES:
                own = speeds[work, place, name]
                shares = [speed / most for speed, most in zip(own, first, strict=True)]
                cells += [f"{median(own):,.1f}", f"{median(shares):.2f}", f"{min(shares):.2f}-{max(shares):.2f}"]
            rows.append([work, name, *cells])
    print("\n".join(aligned_table(rows)))
    print("train: updates/s; translate: sentences/s")


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """While inside, so many processes of the same priority are busy."""
    processes = [subprocess.Popen([sys.executable, "-c", NEIGHBOUR]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def turn_in_process(work: str, options: argparse.Namespace, setting: dict[str, str]) -> float:
    """The work done a second by a new process with this setting."""
    kept = {name: value for name, value in os.environ.items() if name not in READ_BY_OPENMP}
    sizes = ("--seconds", str(options.seconds), "--dim", str(options.dim), "--vocab", str(options.vocab))
    command = [sys.executable, __file__, "--turn", work, *sizes]
    finished = subprocess.run(command, env=kept | setting, stdout=subprocess.PIPE, check=True)
    return float(json.loads(finished.stdout))


def one_turn(options: argparse.Namespace) -> float:
    """Work done a second, measured after a warm-up."""
    if "ANYDEPTH" in os.environ:
        from anydepth.cli.waiting import choose_waiting

        choose_waiting()
    make_step = training_step if options.turn == "train" else translating_step
    step = make_step(sized(options.dim), options.vocab)
    for _ in range(3):
        step()
    started, done = time.perf_counter(), 0.0
    while time.perf_counter() < started + options.seconds:
        done += step()
    return done / (time.perf_counter() - started)


def training_step(config: "Config", vocab: int) -> Callable[[], float]:
    """Makes one update with the next batch."""
    from training_throughput import make_pairs, make_step

    from anydepth.exits.adaptive import AdaptiveTransformer
    from anydepth.text.batches import ordered_batches

    pairs = make_pairs(sentences=2000, length=16, vocab=vocab, longest=config.model.max_length)
    batches = list(ordered_batches(pairs, max_tokens=config.training.batch_tokens))
    model = AdaptiveTransformer(config, source_vocab=vocab, target_vocab=vocab, is_joint=True).train()
    step, turn = make_step("anydepth", model, config), iter(range(10**9))

    def update() -> float:
        step(batches[next(turn) * 7 % len(batches)])
        return 1.0

    return update


def translating_step(config: "Config", vocab: int) -> Callable[[], float]:
    """Searches some sentences with a beam of 5, every token at full depth."""
    from training_throughput import make_pairs

    from anydepth.exits.adaptive import AdaptiveTransformer
    from anydepth.exits.policies import FixedExit
    from anydepth.inference.engines.torch_engine import TorchEngine
    from anydepth.search.decoding import SearchSettings

    model = AdaptiveTransformer(config, source_vocab=vocab, target_vocab=vocab, is_joint=True).eval()
    pairs = make_pairs(sentences=32, length=16, vocab=vocab, longest=config.model.max_length)
    sources = [pairs.source(number).tolist() for number in range(len(pairs))]
    engine, policy = TorchEngine(model), FixedExit(model.blocks, model.blocks)
    settings = SearchSettings(beam=5, batch_tokens=4096)

    def search() -> float:
        engine.search(sources, policy, settings)
        return float(len(sources))

    return search


def sized(dim: int) -> "Config":
    """The settings of multi30k_de_en, of this width."""
    from anydepth.config.loading import make_config

    side = {"dim": dim, "ffn_dim": 4 * dim}
    model = {"blocks": 6, "classifiers": "tied", "dropout": 0.1, "encoder": {"blocks": 3, **side}, "decoder": side}
    return make_config({"model": model, "training": {"batch_tokens": 1500, "precision": "bfloat16"}})


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each turn")
    parser.add_argument("--neighbours", type=int, default=1, help="busy processes beside it")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--vocab", type=int, default=3000)
    parser.add_argument("--work", nargs="+", default=list(WORK), choices=WORK)
    parser.add_argument("--spin", type=int, nargs="*", default=[], help="further contestants: values of GOMP_SPINCOUNT")
    parser.add_argument("--turn", choices=WORK, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
