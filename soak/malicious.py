"""Malicious configs, points, manifests, records, policies and options through the command line: one
sentence each, never a traceback.

    python soak/malicious.py --size 1.0 --seed 1      # 1,000 cases
    python soak/malicious.py --case N                 # that case alone, and what it said

Each case is valid input of which one thing was made hostile, run by `anydepth.cli.main` in a
process of its own that is forked from one that has everything loaded, with little memory and little
time. It must end with exit code 0, or with 1 or 2 and exactly one error line; a traceback, a
signal, a hang, an endless message or a file that is left half-written is a failure.
"""

import argparse
import faulthandler
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hostile.cases import Case, drawn_cases, named_cases
from hostile.world import make_world, vouch

FULL_SIZE = 1000
PATIENCE = 60  # seconds a case; beside other work a case of a second may take twenty
MEMORY = 2**30  # beyond what loading everything took
LARGEST_FILE = 2**26
LONGEST_MESSAGE = 2500


@dataclass
class Outcome:
    """What a case left."""

    code: int
    out: str
    err: str
    left: list[str] = field(default_factory=list)


def outcome_of(case: Case, world: Path, folder: Path) -> Outcome:
    """What the case's command does in a copy of the world, in a process forked for it."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(world, folder)
    (folder / "loop").symlink_to("loop")
    case.spoil(folder)
    vouch(folder)
    out, err, given = (folder.with_suffix(f".{name}") for name in ("out", "err", "in"))
    given.write_bytes(b"der hund\n")
    child = os.fork()
    if child == 0:
        be_the_command(case, folder, out, err, given)
    _, status = os.waitpid(child, 0)
    left = [str(path.relative_to(folder)) for path in folder.rglob(".*") if path.name.endswith((".tmp", ".old"))]
    code = os.waitstatus_to_exitcode(status)
    said, told = (beginning(path) for path in (out, err))
    return Outcome(code, said, told, left)


def be_the_command(case: Case, folder: Path, out: Path, err: Path, given: Path) -> None:
    """The life of a forked process: the command with little memory and little time, and nothing
    after it."""
    code = 70
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(PATIENCE)
        os.chdir(folder)
        for path, flags, number in (
            (given, os.O_RDONLY, 0),
            (out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 1),
            (err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 2),
        ):
            os.dup2(os.open(path, flags, 0o600), number)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, mode, encoding="utf-8") for number, mode in ((0, "r"), (1, "w"), (2, "w"))
        )
        limit = memory_now() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
        faulthandler.dump_traceback_later(PATIENCE - 5)  # a hang shows where it hangs
        sys.argv = ["anydepth", *case.arguments]
        from anydepth.cli import main as cli

        cli.main()
        code = 0
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                code = code or 1
        os._exit(code)


def beginning(path: Path) -> str:
    """What a command wrote, as far as anyone would read."""
    with path.open("rb") as file:
        return file.read(LARGEST_FILE).decode("utf-8", "replace")


def memory_now() -> int:
    """The addresses that this process has taken."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def fault(case: Case, outcome: Outcome) -> str | None:
    """What is wrong with the outcome of a case, if anything."""
    errors = [line for line in outcome.err.splitlines() if line.startswith(("error:", "Error:"))]
    if outcome.code == -signal.SIGALRM:
        return "a hang"
    if outcome.code < 0:
        return f"signal {-outcome.code}"
    if "Traceback" in outcome.err or outcome.code == 70:
        return "a traceback"
    if outcome.code not in (0, 1, 2):
        return f"exit code {outcome.code}"
    if outcome.code and len(errors) != 1:
        return f"{len(errors)} error lines"
    if outcome.code and outcome.err.rstrip("\n").splitlines()[-1] != errors[0]:
        return "more lines after the error"
    if errors and len(errors[0]) > LONGEST_MESSAGE:
        return f"a message of {len(errors[0]):,} characters"
    if outcome.left:
        return f"{outcome.left[0]} is left"
    if outcome.code == 0 and case.arguments[:3] == ["translate", "exits", "--engine"] and outcome.out.count("\n") != 1:
        return f"{outcome.out.count(chr(10))} lines of output for one of input"
    return None


def all_cases(world: Path, seed: int, count: int) -> list[Case]:
    """The cases of a seed: those found by hand first, spread over small sizes, then drawn ones."""
    named = list(named_cases(world))
    if count < 2 * len(named):
        named = random.Random(seed).sample(named, count // 2)
    drawn = drawn_cases(world, random.Random(seed))
    return [*named, *(next(drawn) for _ in range(count - len(named)))]


def load_everything() -> None:
    """Imports what the commands import, so that a fork has it."""
    import matplotlib.pyplot  # noqa: F401
    import onnxruntime  # noqa: F401
    import torch

    import anydepth.cli.main
    import anydepth.demo.walkthrough
    import anydepth.experiments.study
    import anydepth.figures.tradeoff
    import anydepth.inference.engines.onnx.onnx_model
    import anydepth.inference.export.onnx_graphs
    import anydepth.report.report
    import anydepth.training.start  # noqa: F401

    torch.set_num_threads(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=float, default=1.0, help=f"share of {FULL_SIZE:,} cases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="begin with the case of this number")
    parser.add_argument("--case", type=int, help="do the case of this number alone, and show what it said")
    options = parser.parse_args()
    count = max(20, round(FULL_SIZE * options.size))
    load_everything()
    with tempfile.TemporaryDirectory() as place:
        world = Path(place) / "world"
        child = os.fork()  # training starts threads that no later fork could use
        if child == 0:
            try:
                os.dup2(os.open(Path(place) / "world.log", os.O_WRONLY | os.O_CREAT, 0o600), 1)
                os.dup2(1, 2)
                make_world(world)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
        if os.waitpid(child, 0)[1]:
            sys.exit(f"the valid world could not be made:\n{(Path(place) / 'world.log').read_text()}")
        cases = all_cases(world, options.seed, count)
        numbers = range(options.first, count) if options.case is None else [options.case]
        sys.exit(
            run_cases(cases, numbers, world, Path(place) / "case", is_shown=options.case is not None, seed=options.seed)
        )


def run_cases(
    cases: list[Case], numbers: Sequence[int], world: Path, folder: Path, *, is_shown: bool, seed: int
) -> int:
    """Runs the cases, tells of those that went wrong, and counts."""
    kinds: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    started = time.monotonic()
    for number in numbers:
        case = cases[number]
        outcome = outcome_of(case, world, folder)
        wrong = fault(case, outcome)
        kinds[case.kind] += 1
        ends["wrong" if wrong else "without effect" if outcome.code == 0 else "refused in one line"] += 1
        if wrong or is_shown:
            said = outcome.err.splitlines()
            shown = (
                outcome.err
                if is_shown
                else "\n    ".join(line[:200] for line in (said[-20:] if wrong == "a hang" else said[-3:]))
            )
            command = " ".join(word if len(word) < 60 else f"{word[:57]}..." for word in case.arguments)
            about = f"{case.told[:150]}: anydepth {command!r}"
            print(
                f"case {number} of seed {seed}: {wrong or 'fine'} (exit {outcome.code}): {about}\n    {shown}",
                flush=True,
            )
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    refused, harmless, wrong_ones = (ends[name] for name in ("refused in one line", "without effect", "wrong"))
    print(
        f"malicious: {sum(kinds.values()):,} cases ({told}) in {time.monotonic() - started:.0f} s: "
        f"{refused:,} refused in one line, "
        f"{harmless:,} without effect, {wrong_ones:,} tracebacks, hangs or other faults"
    )
    return int(wrong_ones > 0)


if __name__ == "__main__":
    main()
