"""Kills `anydepth score-exits` while it works: drivers, workers and nodes of a Ray cluster, at random.

A kill is SIGKILL to one process, or the loss of one node. That of a worker or a node counts only if
the driver tells that the part which it had is tried again, that of a driver only if parts are missing
and one was finished since the last kill. After a driver is killed the same command is given again. In
the end the scores must be those of a call that nobody disturbed, to the last bit. `--size 1` is 20
kills on this machine, and 20 on a Ray cluster of 3 nodes.
"""

import random
import subprocess
import sys
from pathlib import Path

from killing.crew_trials import NodesToKill, TrialMaker, environment, soak
from killing.score_jobs import ScoreTrial, prepared_text, run_without_scores, scoring_command

KILLS = 20
PARTS_PER_KILL = 12


def prepare(place: Path, chance: random.Random) -> TrialMaker:
    made: list[Path] = []  # the text, once it is known how much
    undisturbed = run_without_scores(place / "undisturbed")

    def make(name: str, where: list[str], nodes: NodesToKill | None, kills: int) -> ScoreTrial:
        if not made:
            made.append(prepared_text(place, max(24, kills * PARTS_PER_KILL), chance))
            command = scoring_command(undisturbed, made[0], "--workers", 1)
            subprocess.run(command, env=environment(), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        run, log = run_without_scores(place / name), place / f"{name}.log"
        return ScoreTrial(run=run, undisturbed=undisturbed, data=made[0], where=where, log=log, nodes=nodes)

    return make


if __name__ == "__main__":
    sys.exit(soak("score kills", __doc__, KILLS, prepare))
