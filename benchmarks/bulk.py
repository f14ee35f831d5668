"""Throughput of bulk work against `translate`, in interleaved rounds, and the memory of its workers.

    python benchmarks/bulk.py --run runs/demo/exits --source-file runs/demo/corpus/test.de --lines 200000
    python benchmarks/bulk.py --run runs/demo/exits --source-file runs/demo/corpus/test.de --lines 2000000 --memory

The text is the lines of the source file, with numbers between their words, so that no line is there
twice. Contestants are `anydepth translate` with as many threads as there are workers, `bulk` with a
process of one thread for each, `bulk` with one process of all threads, and `bulk --on ray`. Seconds
are those of whole commands, start and loading included; sentences/s leave out those of a job of 100
lines, measured the same way in each round. Ratios are the medians of the rounds', with their range.
With --memory one `bulk` job is run, and the resident memory of the driver and each of its workers is
sampled every second: the highest of each tenth of the job.
"""

import argparse
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FEW = 100  # lines, to time what has nothing to do with their number
TENTHS = 10
RIVALS = ("bulk", "bulk-threads", "bulk-ray")  # of translate, which everyone is compared with


def main() -> None:
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for file, lines in (("few.de", FEW), ("many.de", arguments.lines)):
            write_text(place / file, arguments.source_file, lines)
        if arguments.memory:
            watch_memory(place, arguments)
        else:
            race(place, arguments)


def parse_arguments() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--source-file", type=Path, required=True)
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shard-lines", type=int, default=5000)
    parser.add_argument("--options", default="--beam 1", help="of both verbs")
    parser.add_argument("--without", nargs="+", default=[], choices=RIVALS, help="contestants that stay out")
    parser.add_argument("--memory", action="store_true", help="sample memory instead of racing")
    return parser.parse_args()


def write_text(file: Path, origin: Path, count: int) -> None:
    """So many lines made of those of `origin`, each but once."""
    lines, chance = origin.read_text(encoding="utf-8").splitlines(), random.Random(1)
    with file.open("w", encoding="utf-8") as out:
        for number in range(count):
            words = lines[number % len(lines)].split()
            words.insert(chance.randint(0, len(words)), str(number))
            out.write(" ".join(words) + "\n")


def contestants(arguments: argparse.Namespace) -> dict[str, Callable[[Path, Path], list[str]]]:
    """The commands by name: what to translate and a folder that is not there yet."""
    base = [sys.executable, "-m", "anydepth"]
    options = arguments.options.split()

    def bulk(*where: object) -> Callable[[Path, Path], list[str]]:
        own = ["--shard-lines", str(arguments.shard_lines), *map(str, where), *options]
        return lambda source, to: [*base, "bulk", str(arguments.run), str(source), "--to", str(to), *own]

    found = {
        "translate": lambda source, to: [*base, "translate", str(arguments.run), str(source), *options],
        "bulk": bulk("--workers", arguments.workers),
        "bulk-threads": bulk("--workers", 1, "--threads", arguments.workers),
    }
    if find_spec("ray") is not None:
        found["bulk-ray"] = bulk("--workers", arguments.workers, "--on", "ray")
    return {name: command for name, command in found.items() if name not in arguments.without}


def environment(arguments: argparse.Namespace) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(arguments.workers)}


def race(place: Path, arguments: argparse.Namespace) -> None:
    """One row a contestant: seconds, sentences/s and the ratio to translate, as medians with their
    range."""
    seconds: dict[tuple[str, str], list[float]] = {}
    entrants = contestants(arguments)
    for number in range(arguments.rounds):
        names = list(entrants)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            for file in ("few", "many"):
                to = place / "job"
                start = time.monotonic()
                with (place / "out").open("wb") as out:
                    subprocess.run(
                        entrants[name](place / f"{file}.de", to),
                        env=environment(arguments),
                        stdout=out,
                        stderr=subprocess.DEVNULL,
                        check=True,
                    )
                seconds.setdefault((name, file), []).append(time.monotonic() - start)
                shutil.rmtree(to, ignore_errors=True)
    print(
        f"{arguments.lines:,} lines, {arguments.workers} workers or threads, {arguments.rounds} rounds, "
        f"{arguments.options}"
    )
    print(f"{'':14}{'seconds':>10}{'translate / own':>24}{'sentences/s':>28}{'over translate':>24}")
    pure = {name: rates(seconds[name, "few"], seconds[name, "many"], arguments.lines) for name in entrants}
    for name in entrants:
        whole = ratios(seconds["translate", "many"], seconds[name, "many"])
        print(
            f"{name:14}{statistics.median(seconds[name, 'many']):10.1f}{spread(whole):>24}"
            f"{spread(pure[name], digits=0):>28}{spread(ratios(pure[name], pure['translate'])):>24}",
            flush=True,
        )


def rates(few: list[float], many: list[float], lines: int) -> list[float]:
    """Sentences/s of each round without the time of starting; not a number where a round is too short
    to tell."""
    return [
        (lines - FEW) / (all_of - some) if all_of > some else math.nan for some, all_of in zip(few, many, strict=True)
    ]


def ratios(above: list[float], below: list[float]) -> list[float]:
    return [one / other for one, other in zip(above, below, strict=True)]


def spread(values: list[float], *, digits: int = 3) -> str:
    """The median and the range of what can be told."""
    told = [value for value in values if math.isfinite(value)]
    if not told:
        return "too short to tell"
    low, middle, high = min(told), statistics.median(told), max(told)
    return f"{middle:,.{digits}f} ({low:,.{digits}f}-{high:,.{digits}f})"


def watch_memory(place: Path, arguments: argparse.Namespace) -> None:
    """The highest resident memory of the driver and of any worker in each tenth of a job's time."""
    command = contestants(arguments)["bulk"](place / "many.de", place / "job")
    samples: list[tuple[float, float]] = []
    process = subprocess.Popen(command, env=environment(arguments), stderr=subprocess.DEVNULL)
    while process.poll() is None:
        workers = [resident(child) for child in children(process.pid)]
        samples.append((resident(process.pid), max(workers, default=0.0)))
        time.sleep(1.0)
    print(f"{arguments.lines:,} lines, exit code {process.returncode}; highest MB in each tenth of {len(samples)} s")
    for name, column in (("driver", 0), ("worker", 1)):
        parts = [samples[len(samples) * n // TENTHS : len(samples) * (n + 1) // TENTHS] for n in range(TENTHS)]
        print(f"{name:8}" + "".join(f"{max((each[column] for each in part), default=0):8.0f}" for part in parts))


def children(process: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def resident(process: int) -> float:
    """Megabytes in memory; 0 for a process that is gone."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except (OSError, IndexError):
        return 0.0


if __name__ == "__main__":
    main()
