"""Kills bulk jobs while they work: drivers, workers and nodes of a Ray cluster, at random.

A kill is SIGKILL to one process, or the loss of one node, and counts only if a shard was begun and
not finished. After a driver is killed the same command is given again. In the end the joined shards
must be the bytes of `anydepth translate`, and no more shards may have been begun again than there
were kills. `--size 1` is 100 kills of one job on this machine, and 100 of one on a Ray cluster of 3
nodes.
"""

import argparse
import random
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from killing.bulk_jobs import BulkTrial, NodesToKill, translated, write_lines

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


def trial_of(
    place: Path, name: str, where: list[str], kills: int, shard_lines: int, chance: random.Random
) -> BulkTrial:
    source = place / f"{name}.de"
    write_lines(source, shard_lines * max(12, kills * SHARDS_PER_KILL), chance)
    trial = BulkTrial(source, place / name, shard_lines, where, place / f"{name}.log")
    trial.start()
    return trial


def verdict(trial: BulkTrial, name: str, wanted: int) -> bool:
    """Whether all is well; one line says what came of it."""
    trial.finish()
    is_same = trial.output() == translated(trial.source)[0]
    kills, repeats = trial.kills.total(), trial.repeats()
    hits = ", ".join(f"{kind} {count}" for kind, count in sorted(trial.kills.items()))
    state = "the bytes of translate" if is_same else "WRONG: other bytes than translate"
    print(
        f"bulk kills: {name}: {kills} of {wanted} kills hit ({hits}), {repeats} shards begun again: {state}", flush=True
    )
    return is_same and repeats <= kills and kills == wanted


def local_job(place: Path, kills: int, shard_lines: int, chance: random.Random) -> bool:
    trial = trial_of(place, "local", ["--workers", "2"], kills, shard_lines, chance)
    acts = [trial.kill_driver, trial.kill_worker]
    for number in range(kills):
        if not (acts[number] if number < len(acts) else chance.choice(acts))(chance):
            break
    return verdict(trial, "local", kills)


def ray_job(place: Path, kills: int, shard_lines: int, chance: random.Random) -> bool:
    nodes = NodesToKill.start()
    try:
        where = ["--on", "ray", "--address", nodes.cluster.address]
        trial = trial_of(place, "ray", where, kills, shard_lines, chance)
        acts = [lambda each: nodes.kill_node(trial, each), trial.kill_worker, trial.kill_driver]
        for number in range(kills):
            if not (acts[number] if number < len(acts) else chance.choice(acts))(chance):
                break
        return verdict(trial, "ray", kills)
    finally:
        nodes.cluster.shutdown()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=float, default=1.0, help=f"share of {KILLS} kills of each job")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--on", choices=["local", "ray", "both"], default="both")
    options = parser.parse_args()
    chance, kills, fine, skipped = random.Random(options.seed), max(3, round(KILLS * options.size)), True, ""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        place = Path(name)
        shard_lines = lines_of_a_shard(place, chance)
        if options.on in ("local", "both"):
            fine &= local_job(place, kills, shard_lines, chance)
        if options.on in ("ray", "both"):
            if find_spec("ray") is None:
                skipped = "; THE RAY HALF WAS SKIPPED, Ray is not installed: pip install 'anydepth[ray]'"
            else:
                fine &= ray_job(place, kills, shard_lines, chance)
    state = "FAILED" if not fine else "what was tried is well" if skipped else "all is well"
    print(f"bulk kills: {state} at seed {options.seed}, shards of {shard_lines} lines{skipped}")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
