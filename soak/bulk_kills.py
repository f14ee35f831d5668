"""Kills bulk jobs while they work: drivers, workers and nodes of a Ray cluster, at random.

A kill is SIGKILL to one process, or the loss of one node, and counts only if a shard was begun and
not finished. After a driver is killed the same command is given again. In the end the joined shards
must be the bytes of `anydepth translate`, and no more shards may have been begun again than there
were kills. `--size 1` is 100 kills of one job on this machine, and 100 of one on a Ray cluster of 3
nodes.
"""

import random
import sys
from pathlib import Path

from killing.bulk_jobs import BulkTrial, translated
from killing.crew_trials import NodesToKill, TrialMaker, soak, write_lines

KILLS = 100
SHARDS_PER_KILL = 3
CALIBRATION = 2000  # lines
SHARD_SECONDS = 1.0


def lines_of_a_shard(place: Path, chance: random.Random) -> int:
    """How many lines take about SHARD_SECONDS here."""
    seconds = []
    for count in (CALIBRATION // 10, CALIBRATION):
        write_lines(place / "calibration.de", count, chance)
        seconds.append(translated(place / "calibration.de")[1])
    return max(20, int(SHARD_SECONDS * 0.9 * CALIBRATION / max(seconds[1] - seconds[0], 0.1)))


def prepare(place: Path, chance: random.Random) -> TrialMaker:
    shard_lines = lines_of_a_shard(place, chance)

    def make(name: str, where: list[str], nodes: NodesToKill | None, kills: int) -> BulkTrial:
        source, log = place / f"{name}.de", place / f"{name}.log"
        write_lines(source, shard_lines * max(12, kills * SHARDS_PER_KILL), chance)
        return BulkTrial(source=source, to=place / name, shard_lines=shard_lines, where=where, log=log, nodes=nodes)

    return make


if __name__ == "__main__":
    sys.exit(soak("bulk kills", __doc__, KILLS, prepare))
