"""Searches of the native engine under the compiler's sanitizers: wrong memory, undefined behaviour
(ASAN, UBSAN) and races (TSAN).

    python soak/sanitizers.py --size 1 --seed 1

Builds the extension twice into a temporary folder. Every case is a tiny random model with a random
policy, beam, batch, number of threads, precision and instruction set, some of it as odd as the
settings allow, and often a second and a third call with others. The plain step of PyTorch says what
the engine must find, and the engine itself, one sentence at a time in one thread, what 8-bit
products must, and a search that stays open, to which several threads submit the sentences of all
calls. Where the plain step in float64 finds something else than in float32, rounding alone decides,
and only the engine itself is asked. The searches run in processes of their own that have nothing
but NumPy and the extension in them, with what the engine's Python side handed over: PyTorch has
races of its own to be told of. `--size 1` is 1,500 cases under each sanitizer. Without g++ or a
sanitizer's library nothing is built, and the closing line says so.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sanitizing.builds import build, surroundings, why_not
from sanitizing.cases import write_case
from sanitizing.searches import search_cases

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

FULL_SIZE = 1_500
PORTION = 60  # cases made together, and searched by one process of each build
SHOWN = 5


def main() -> int:
    options = parse_options()
    if options.search:
        return search_cases(Path(options.search), Path(options.library))
    if reason := why_not():
        print(f"sanitizers: skipped: {reason}")
        return 0
    started, cases = time.monotonic(), max(1, round(FULL_SIZE * options.size))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        libraries = build(folder)
        searches, findings = soak(folder, libraries, cases, options.seed)
    for finding in findings[:SHOWN]:
        print(finding)
    minutes = (time.monotonic() - started) / 60
    print(
        f"sanitizers: {cases:,} cases from seed {options.seed}, {searches:,} searches under {' and '.join(libraries)}: "
        f"{len(findings)} findings, {minutes:.1f} minutes"
    )
    return 1 if findings else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=float, default=1.0, help="share of the full size")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--search", help=argparse.SUPPRESS)  # the folder of cases, in a process that searches
    parser.add_argument("--library", help=argparse.SUPPRESS)
    return parser.parse_args()


def soak(folder: Path, libraries: dict[str, Path], cases: int, seed: int) -> tuple[int, list[str]]:
    """How many searches ran, and what was found."""
    searches, findings = 0, []
    for start in range(0, cases, PORTION):
        numbers = range(start, min(start + PORTION, cases))
        portion = folder / "cases"
        portion.mkdir()
        for number in numbers:
            write_case(portion / f"{number}", random.Random(f"{seed} {number}"))
        for kind, library in libraries.items():
            count, found = searched(portion, kind, library)
            searches += count
            findings += [f"seed {seed}, {kind}, {line}" for line in found]
        shutil.rmtree(portion)
        if sys.stderr.isatty() or (start // PORTION) % 10 == 9:
            print(
                f"sanitizers: {numbers.stop:,} of {cases:,} cases, {len(findings)} findings",
                file=sys.stderr,
                flush=True,
            )
    return searches, findings


def searched(portion: Path, kind: str, library: Path) -> tuple[int, list[str]]:
    """How many searches of a portion ran under a sanitizer, and its findings; a process that it
    ended is followed by one for the rest."""
    searches, findings = 0, []
    waiting = sorted((int(file.stem) for file in portion.glob("*.json")), reverse=True)
    while waiting:
        (portion / "todo").write_text(json.dumps(waiting[::-1]), encoding="utf-8")
        command = [sys.executable, __file__, "--search", str(portion), "--library", str(library)]
        finished = subprocess.run(command, capture_output=True, text=True, **surroundings(kind))
        lines = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")]
        searches += sum(line["searches"] for line in lines)
        findings += [f"case {line['case']}: {line['finding']}" for line in lines if line["finding"]]
        done = len(lines)
        if finished.returncode and done < len(waiting):
            summary = [
                line
                for line in finished.stderr.splitlines()
                if "ERROR" in line or "WARNING" in line or "runtime error" in line
            ]
            told = (summary or finished.stderr.strip().splitlines()[-1:] or [f"exit code {finished.returncode}"])[0]
            findings.append(f"case {waiting[-1 - done]}: {told}")
            print(finished.stderr, file=sys.stderr)
            done += 1
        elif done < len(waiting):
            findings.append(f"case {waiting[-1 - done]}: the process ended without a word")
            done += 1
        waiting = waiting[: len(waiting) - done]
    return searches, findings


if __name__ == "__main__":
    raise SystemExit(main())
