"""Speed and peak memory of `prepare` at two corpus sizes: memory should stay flat, and lines/s
should not fall.

    python benchmarks/prepare_throughput.py --lines 2000000

Each size runs in a process of its own, whose peak memory is its ru_maxrss. The text is made up:
words of a Zipf-like vocabulary, the target a scrambled spelling of the source, the same at every
run.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np

from anydepth.text.prepare import PrepareSettings, prepare

WORDS = 50_000
LINES_AT_ONCE = 50_000


def main() -> None:
    """Prints one table row a size."""
    arguments = parse_arguments()
    if arguments.measure is not None:
        print(
            json.dumps(measure(arguments.measure, arguments.lines, vocab_size=arguments.vocab, sample=arguments.sample))
        )
        return
    print(
        f"{'lines a side':>12}  {'tokens':>12}  {'tokenizer s':>11}  {'encoding s':>10}  {'lines/s encoding':>16}  "
        f"{'lines/s in all':>14}  {'peak MB':>8}"
    )
    for lines in sorted({max(1, arguments.lines // 10), arguments.lines}):
        with tempfile.TemporaryDirectory() as folder:
            write_corpus(Path(folder), lines)
            row = run_in_subprocess(folder, lines, arguments)
        total = row["tokenizer"] + row["encoding"]
        print(
            f"{lines:12,}  {row['tokens']:12,}  {row['tokenizer']:11.1f}  {row['encoding']:10.1f}  "
            f"{2 * lines / row['encoding']:16,.0f}  {2 * lines / total:14,.0f}  {row['peak_mb']:8.0f}",
            flush=True,
        )


def parse_arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--lines", type=int, default=2_000_000, help="lines of the larger corpus; the smaller has a tenth"
    )
    parser.add_argument("--vocab", type=int, default=10_000)
    parser.add_argument(
        "--sample", type=int, default=200_000, help="lines that the tokenizer learns from, at either size"
    )
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def run_in_subprocess(folder: str, lines: int, arguments: argparse.Namespace) -> dict[str, float]:
    """What `measure` returns in a fresh process."""
    command = [sys.executable, __file__, "--measure", folder, "--lines", str(lines)]
    command += ["--vocab", str(arguments.vocab), "--sample", str(arguments.sample)]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    row: dict[str, float] = json.loads(finished.stdout)
    return row


def measure(folder: Path, lines: int, *, vocab_size: int, sample: int) -> dict[str, float]:
    """Seconds for the tokenizer, seconds for the rest, tokens written and the peak memory of this
    process."""
    settings = PrepareSettings(
        source_lang="de",
        target_lang="en",
        train=str(folder / "train"),
        valid=str(folder / "valid"),
        vocab_size=vocab_size,
        sample=sample,
        max_ratio=100.0,
    )
    reports: list[tuple[float, str]] = []
    started = time.perf_counter()
    manifest = prepare(settings, folder / "prepared", say=lambda line: reports.append((time.perf_counter(), line)))
    finished = time.perf_counter()
    tokenizer_done = next(moment for moment, line in reports if line.startswith("tokenizer.model: has"))
    assert manifest.splits["train"].pairs == lines, manifest.splits
    return {
        "tokenizer": tokenizer_done - started,
        "encoding": finished - tokenizer_done,
        "tokens": sum(manifest.splits["train"].tokens.values()),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def write_corpus(folder: Path, lines: int) -> None:
    """Writes train.de, train.en and a small valid set."""
    randomness = np.random.default_rng(1)
    vocabulary = make_vocabulary(randomness)
    scrambled = np.array([word[::-1] for word in vocabulary], dtype=object)
    for split, count in (("valid", 100), ("train", lines)):
        with (
            open(folder / f"{split}.de", "w", encoding="utf-8") as source,
            open(folder / f"{split}.en", "w", encoding="utf-8") as target,
        ):
            for start in range(0, count, LINES_AT_ONCE):
                rows = min(LINES_AT_ONCE, count - start)
                lengths = randomness.integers(5, 35, rows)
                ranks = np.minimum(WORDS ** randomness.random(lengths.sum()), WORDS - 1).astype(np.int64)
                for file, spelling in ((source, vocabulary), (target, scrambled)):
                    words = iter(spelling[ranks].tolist())
                    file.writelines(" ".join(islice(words, length)) + "\n" for length in lengths.tolist())


def make_vocabulary(randomness: np.random.Generator) -> np.ndarray:
    """Words of 1 to 5 random syllables; frequent ones, with low ranks, are short."""
    syllables = np.array([consonant + vowel for consonant in "bdfgklmnprstvwzß" for vowel in "aeiouäöü"], dtype=object)
    parts = 1 + np.minimum(4, np.log10(np.arange(1, WORDS + 1)).astype(int))
    return np.array(["".join(randomness.choice(syllables, count)) for count in parts], dtype=object)


if __name__ == "__main__":
    main()
