"""A corpus of many pairs from text to batches: speed and memory of `prepare`, the start of the
loader, exact resuming, and how even the shuffle is.

    python benchmarks/large_corpus.py --pairs 35000000 --folder /tmp/large

`prepare` runs as the command at a million pairs and at --pairs; its memory is the largest sum over
its processes, seen twenty times a second. The loader runs in a fresh process: seconds from its start
to the first batch, then resuming at a random update, whose next 1,000 batches must be the same. The
text is made up: words of a Zipf-like vocabulary, about 28 tokens a side.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from anydepth.text.batches import BatchStream

WORDS = 50_000
FIRST_PAIRS = 1_000_000
PAIRS_AT_ONCE = 50_000
RESUMED = 1000  # batches that must be the same
SOURCES = 20  # parts of the corpus, as if it were put together from so many
WINDOW = 100  # updates over which their shares are counted


def main() -> None:
    """Prints what each step took."""
    arguments = parse_arguments()
    if arguments.load is not None:
        print(json.dumps(measure_loader(arguments.load, arguments.seed)))
        return
    rows = {}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        for pairs in sorted({min(FIRST_PAIRS, arguments.pairs), arguments.pairs}):
            folder = Path(name) / str(pairs)
            rows[pairs] = prepare_at(folder, pairs, arguments)
            if pairs < arguments.pairs:
                shutil.rmtree(folder)
        first, last = rows.values() if len(rows) == 2 else [*rows.values()] * 2
        print(f"peak memory at {arguments.pairs:,} pairs: {last['peak_mb'] / first['peak_mb']:.3f} of that at fewer")
        print_loader(load_in_subprocess(Path(name) / str(arguments.pairs) / "prepared", arguments.seed))


def parse_arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=2_000_000)
    parser.add_argument("--folder", type=Path, help="where text and tokens lie meanwhile: 330 bytes a pair")
    parser.add_argument("--vocab", type=int, default=10_000)
    parser.add_argument("--sample", type=int, default=200_000, help="lines that the vocabulary is learned from")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def prepare_at(folder: Path, pairs: int, arguments: argparse.Namespace) -> dict[str, float]:
    """Seconds and memory of `prepare` on so many pairs, printed as well."""
    folder.mkdir()
    started = time.perf_counter()
    write_corpus(folder, pairs)
    print(f"{pairs:,} pairs: written in {time.perf_counter() - started:.1f} s", flush=True)
    row = run_prepare(folder, arguments)
    manifest = json.loads((folder / "prepared/manifest.json").read_bytes())
    assert manifest["splits"]["train"]["pairs"] == pairs, manifest["splits"]
    tokens = sum(manifest["splits"]["train"]["tokens"].values())
    for text in folder.glob("train.*"):
        text.unlink()
    print(
        f"{pairs:,} pairs: {tokens:,} tokens; vocabulary {row['vocabulary']:.1f} s, encoding {row['encoding']:.1f} s: "
        f"{pairs / row['encoding']:,.0f} pairs/s encoding, {pairs / row['wall']:,.0f} in all; processor time "
        f"{row['cpu']:.1f} s, {1e6 * row['cpu'] / pairs:.2f} us a pair; peak memory {row['peak_mb']:,.0f} MB",
        flush=True,
    )
    return row


def run_prepare(folder: Path, arguments: argparse.Namespace) -> dict[str, float]:
    """Runs `anydepth prepare`; wall and processor seconds, and the peak memory of all its
    processes."""
    command = [sys.executable, "-m", "anydepth", "prepare", "--source-lang", "de", "--target-lang", "en"]
    command += ["--train", str(folder / "train"), "--valid", str(folder / "valid"), "--to", str(folder / "prepared")]
    command += ["--vocab-size", str(arguments.vocab), "--sample", str(arguments.sample), "--max-ratio", "100"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    process = subprocess.Popen([*command, "--jobs", str(arguments.jobs)], stderr=subprocess.PIPE, text=True)
    peaks = [0.0]
    watch = threading.Thread(target=watch_memory, args=(process, peaks))
    watch.start()
    assert process.stderr is not None
    learned = started
    for line in process.stderr:
        if line.startswith("tokenizer.model: has"):
            learned = time.perf_counter()
    code = process.wait()
    finished = time.perf_counter()
    watch.join()
    if code != 0:
        sys.exit(f"prepare failed with exit code {code}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "vocabulary": learned - started,
        "encoding": finished - learned,
        "wall": finished - started,
        "cpu": cpu,
        "peak_mb": peaks[0],
    }


def watch_memory(process: subprocess.Popen[str], peaks: list[float]) -> None:
    """Keeps in `peaks` the most that the process and its children held at a time, in MB; pages that
    they share count in each."""
    while process.poll() is None:
        numbers = [process.pid, *children_of(process.pid)]
        peaks[0] = max(peaks[0], sum(status_of(number).get("VmRSS", 0.0) for number in numbers))
        time.sleep(0.05)


def children_of(number: int) -> list[int]:
    """The processes that the process of this number started."""
    try:
        tasks = list(Path(f"/proc/{number}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def status_of(number: int | str) -> dict[str, float]:
    """What Linux tells about the memory of a process, in MB."""
    try:
        lines = Path(f"/proc/{number}/status").read_text().splitlines()
    except OSError:
        return {}
    return {line.split(":")[0]: float(line.split()[1]) / 1024 for line in lines if line.endswith(" kB")}


def write_corpus(folder: Path, pairs: int) -> None:
    """Writes train.de, train.en and a small valid set."""
    randomness = np.random.default_rng(1)
    spellings = make_vocabulary(randomness).tolist()
    tables = [
        [word.encode() + end for end in (b" ", b"\n") for word in words]
        for words in (spellings, [word[::-1] for word in spellings])
    ]
    for split, count in (("valid", 100), ("train", pairs)):
        with open(folder / f"{split}.de", "wb") as source, open(folder / f"{split}.en", "wb") as target:
            for start in range(0, count, PAIRS_AT_ONCE):
                lengths = randomness.integers(5, 26, min(PAIRS_AT_ONCE, count - start))
                ranks = np.minimum(WORDS ** randomness.random(lengths.sum()), WORDS - 1).astype(np.int64)
                ranks[lengths.cumsum() - 1] += WORDS  # the last of a line, with its end
                numbers = ranks.tolist()
                for file, table in ((source, tables[0]), (target, tables[1])):
                    file.write(b"".join(map(table.__getitem__, numbers)))


def make_vocabulary(randomness: np.random.Generator) -> np.ndarray:
    """Words of 1 to 5 random syllables; frequent ones, with low ranks, are short."""
    syllables = np.array([consonant + vowel for consonant in "bdfgklmnprstvwzß" for vowel in "aeiouäöü"], dtype=object)
    parts = 1 + np.minimum(4, np.log10(np.arange(1, WORDS + 1)).astype(int))
    return np.array(["".join(randomness.choice(syllables, count)) for count in parts], dtype=object)


def load_in_subprocess(data: Path, seed: int) -> dict[str, float]:
    """What `measure_loader` returns in a fresh process, and how long that took to its first batch."""
    command = [sys.executable, __file__, "--load", str(data), "--seed", str(seed)]
    started = time.time()
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    row: dict[str, float] = json.loads(finished.stdout)
    return row | {"first_batch": row["first_batch_at"] - started}


def measure_loader(data: Path, seed: int) -> dict[str, float]:
    """The first batch, the shuffle of an epoch, and resuming at a random update of it."""
    from anydepth.text.batches import BatchStream, Position, training_batches
    from anydepth.text.prepared import PreparedData

    def stream() -> BatchStream:
        return BatchStream(PreparedData.open(data).pairs("train"), max_tokens=4096, seed=seed)

    next(training_batches(stream(), Position(), rank=0, world=1, accumulation=1))
    row: dict[str, float] = {"first_batch_at": time.time(), "first_batch_cpu": time.process_time()}
    updates, spread, ideal = shuffled_epoch(stream())
    update = int(np.random.default_rng(seed).integers(0, max(1, updates - RESUMED)))
    walked = islice(stream().from_position(Position()), update, update + 1 + RESUMED)
    _, position = next(walked)
    started, cpu, same, tokens = time.perf_counter(), time.process_time(), 0, 0
    resumed = training_batches(stream(), position, rank=0, world=1, accumulation=1)
    for (indices, following), ((batch,), after) in zip(walked, resumed, strict=False):
        same += batch.indices == indices.tolist() and following == after
        tokens += batch.tokens
    status = status_of("self")
    return row | {
        "updates": updates,
        "update": update,
        "same": same,
        "resumed_cpu": time.process_time() - cpu,
        "resumed_wall": time.perf_counter() - started,
        "tokens": tokens,
        "peak_mb": status["VmHWM"],
        "resident_mb": status["VmRSS"],
        "own_mb": status["RssAnon"],
        "mapped_mb": status["RssFile"],
        "spread": spread,
        "ideal": ideal,
    }


def shuffled_epoch(stream: "BatchStream") -> tuple[int, float, float]:
    """The updates of the first epoch; how much the shares of the corpus's parts vary between
    windows of them, and how much they would if every pair were drawn by itself."""
    from anydepth.text.batches import Position

    parts = (np.arange(SOURCES + 1) * len(stream.pairs)) // SOURCES
    windows, updates = [np.zeros(SOURCES)], 0
    for batch, after in stream.from_position(Position()):
        windows[-1] += np.histogram(batch, parts)[0]
        updates += 1
        if updates % WINDOW == 0:
            windows.append(np.zeros(SOURCES))
        if after.epoch:
            break
    whole = np.array(windows[:-1] or windows)  # (window, part)
    sizes = whole.sum(1, keepdims=True)
    share = 1 / SOURCES
    return updates, float((whole / sizes).std()), float(np.sqrt(share * (1 - share) * (1 / sizes).mean()))


def print_loader(row: dict[str, float]) -> None:
    """Prints what `measure_loader` found."""
    print(
        f"first batch {row['first_batch']:.2f} s after the start of the process, processor time "
        f"{row['first_batch_cpu']:.2f} s"
    )
    print(
        f"resumed at update {row['update']:,.0f} of {row['updates']:,.0f}: {row['same']:,.0f} of the next {RESUMED:,} "
        f"batches are the same; {row['tokens']:,.0f} target tokens in {row['resumed_wall']:.2f} s, processor time "
        f"{row['resumed_cpu']:.2f} s"
    )
    print(
        f"memory of the loader: at most {row['peak_mb']:.0f} MB; at the end {row['resident_mb']:.0f} MB, "
        f"{row['own_mb']:.0f} its own and {row['mapped_mb']:.0f} mapped from files"
    )
    print(
        f"share of a twentieth of the corpus in {WINDOW} updates: 5% +- {100 * row['spread']:.2f} points; "
        f"if every pair were drawn by itself {100 * row['ideal']:.2f}"
    )
    if row["same"] < RESUMED:
        sys.exit("the resumed stream is another one")


if __name__ == "__main__":
    main()
