"""How OpenMP's threads wait for each other, chosen when a command starts: by looking again and
again, or asleep.

Looking is faster on a quiet machine. On a busy one it keeps the core from the very thread that is
waited for, and a training beside one other process does a third of its work, where sleeping does
half. benchmarks/busy_neighbour.py measures both.
"""

import os
import time
from pathlib import Path

from anydepth.limits import usable_cores

# How often a waiting thread looks before it sleeps. Enough to bridge the gaps of a small model's
# step; GNU OpenMP's own default of 300,000 gains nothing more on a quiet machine and loses more on
# one that becomes busy later.
LOOKS = 3_000
USERS_OWN = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
LOAD_FILE = Path("/proc/loadavg")  # its fourth field begins with the number of threads that run or want to
SAMPLES, PAUSE = 4, 0.004  # seconds: a process that is busy is there every time, one that wakes for a moment is not


def choose_waiting(load_file: Path = LOAD_FILE) -> None:
    """Sets in the environment how GNU OpenMP's threads wait; a user's own setting wins. It counts
    only before torch is imported."""
    if any(name in os.environ for name in USERS_OWN):
        return
    if busy_others(load_file) + wanted_threads() > usable_cores():
        os.environ["OMP_WAIT_POLICY"] = "passive"
    else:
        os.environ["GOMP_SPINCOUNT"] = str(LOOKS)


def busy_others(load_file: Path) -> int:
    """How many threads beside this one want a core all the time; 0 where the system does not
    tell."""
    counts = []
    for sample in range(SAMPLES):
        if sample:
            time.sleep(PAUSE)
        try:
            counts.append(int(load_file.read_text().split()[3].partition("/")[0]) - 1)
        except (OSError, ValueError, IndexError):
            return 0
    return max(0, min(counts))


def wanted_threads() -> int:
    """The threads that torch will take: all cores, unless the user says otherwise."""
    stated = os.environ.get("OMP_NUM_THREADS", "")
    return int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 6 else usable_cores()
