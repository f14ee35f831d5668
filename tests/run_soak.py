"""Runs what takes long, all of it whatever fails: tests marked soak, then every script in soak/;
closing lines come again at the end."""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARKED = [
    "-m",
    "pytest",
    "-m",
    "soak",
    "--numprocesses",
    "2",
    "--dist",
    "loadfile",
    "--no-loadscope-reorder",
    "-p",
    "no:cacheprovider",
    "-rs",  # what was skipped, and why: a soak without a browser says so
]


@dataclass(frozen=True)
class Ending:
    """How one part of the soak ended: its last line, its exit code and the minutes it took."""

    name: str
    line: str
    code: int
    minutes: float

    def __str__(self) -> str:
        state = "ok" if self.code == 0 else f"FAILED with exit code {self.code}"
        return f"{self.name}: {state} in {self.minutes:.1f} minutes: {self.line}"


def run_part(name: str, command: Sequence[str]) -> Ending:
    """Runs `python COMMAND` and shows what it says as it says it."""
    print(f"==> {name}", flush=True)
    start, last = time.monotonic(), "it said nothing"
    with subprocess.Popen(
        [sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            sys.stdout.buffer.write(line)
            sys.stdout.flush()
            last = line.decode(errors="replace").strip() or last
    return Ending(name, last, process.returncode, (time.monotonic() - start) / 60)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--size", type=float, default=1.0, help="the share of the full size of each script (1 is an hour)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scripts", type=Path, default=ROOT / "soak", help="a folder with other scripts")
    parser.add_argument("--without-tests", action="store_true", help="leave out the tests marked soak")
    chosen = parser.parse_args(arguments)
    parts = {} if chosen.without_tests else {"tests marked soak": MARKED}
    options = ["--size", str(chosen.size), "--seed", str(chosen.seed)]
    parts |= {f"soak/{script.name}": [str(script), *options] for script in sorted(chosen.scripts.glob("*.py"))}
    endings = [run_part(name, command) for name, command in parts.items()]
    print(f"==> the soak at size {chosen.size:g}", *endings, sep="\n", flush=True)
    return int(any(ending.code for ending in endings))


if __name__ == "__main__":
    raise SystemExit(main())
