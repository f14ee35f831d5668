"""The most that a setting or an option may ask for, so that a slip of the finger or a damaged file
is refused before memory is taken.

Each lies far above what anyone has trained or timed with models of this kind, and low enough that a
table of that size, or a loop of that length, ends: no model has 65,536 dimensions, no beam of 1,000
found more than one of 50.
"""

import os

MOST_DIM = 65_536
MOST_BLOCKS = 256
MOST_HEADS = 1024
MOST_LENGTH = 65_536  # tokens of a sentence
MOST_PIECES = 1_000_000  # of a vocabulary
MOST_BEAM = 1000
MOST_BATCH_TOKENS = 2**24
MOST_UPDATES = 10**9  # and whatever else is counted in updates, sentences or lines
MOST_MINUTES = 1e9
MOST_CHECKPOINTS = 1000
MOST_PATHS = 1000
MOST_ACCUMULATION = 10_000
MOST_CANDIDATES = 1_000_000
MOST_SEEDS = 1000
MOST_THREADS = 1024
MOST_JOBS = 256  # processes at a time
MOST_ROUNDS = 10_000
LARGEST_SEED = 2**63 - 1
LARGEST_FACTOR = 1e12  # single precision holds its product with whatever it multiplies


def usable_cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
