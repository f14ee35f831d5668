"""The training that gives an adopted model its exits: which settings, on which machine, and whether
a frozen trunk stayed as it was."""

import math

from anydepth.adding_exits.work_folder import Trunk, WorkFolder
from anydepth.clock.machine import has_bfloat16
from anydepth.config.loading import load_config
from anydepth.config.shipped import shipped_file
from anydepth.errors import TrainingError
from anydepth.messages.say import Say
from anydepth.model.checkpoint import load_weights
from anydepth.runs.models import CLASSIFIERS
from anydepth.runs.run import Run
from anydepth.training.start import continued_run, train_to_the_end

RATE_DIM = 512  # the width of the models that the learning rates of the settings are for


SETTINGS: dict[Trunk, str] = {"trained": "adopt_trained", "frozen": "adopt_frozen"}


def train_exits(work: WorkFolder, trunk: Trunk, *, seconds: float, say: Say) -> None:
    """Trains the run with exits from the adopted one for so many seconds; what was begun goes on.

    A narrower model than the settings are for has a higher rate, by the square root of the ratio.
    """
    run, original, settings = work.run, work.original, shipped_file(SETTINGS[trunk])
    rate = load_config(settings, []).training.learning_rate * math.sqrt(RATE_DIM / original.config.model.decoder.dim)
    changes = [f"training.minutes={seconds / 60:.6f}", f"training.learning_rate={rate:.3g}"]
    if not has_bfloat16():
        changes += ["training.precision=float32", "training.block_precision=float32"]
    train_to_the_end(
        run,
        lambda: continued_run(run.folder, original.folder, settings, changes, data_folder=work.data, overwrite=False),
        say,
    )


def check_trunk(original: Run, run: Run) -> int:
    """How many weights the trunk has, all of which must be those of the original, bit for bit."""
    before, after = load_weights(original.weights_file)[0], load_weights(run.weights_file)[0]
    changed = [name for name, tensor in before.items() if not after[name].equal(tensor)]
    added = [name for name in after if name.startswith(CLASSIFIERS) and name not in before]
    changed += [name for name in added if not after[name].equal(before[f"{CLASSIFIERS}0"])]
    if changed:
        raise TrainingError(
            f"{changed[0]} of {run.folder} is not that of {original.folder}, although the trunk was frozen; remove the "
            "folder and start anew with --overwrite"
        )
    return sum(tensor.numel() for tensor in before.values())
