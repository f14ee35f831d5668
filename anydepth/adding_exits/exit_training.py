"""The training that gives an adopted model its exits: which settings, on which machine, and whether
a frozen trunk stayed as it was."""

import math
from dataclasses import dataclass

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


@dataclass(frozen=True)
class TrainingStage:
    """Shipped settings, and their share of the time for training."""

    settings: str
    share: float


STAGES: dict[Trunk, tuple[TrainingStage, ...]] = {
    "trained": (TrainingStage("adopt_trained", 0.55), TrainingStage("adopt_confident", 0.45)),
    "frozen": (TrainingStage("adopt_frozen", 1.0),),
}


def train_exits(work: WorkFolder, trunk: Trunk, *, seconds: float, say: Say) -> None:
    """Trains the run with exits from the adopted one for so many seconds, in one stage or two; what was
    begun goes on."""
    *earlier, last = STAGES[trunk]
    runs = [*(work.stage(stage.settings) for stage in earlier), work.run]
    for stage, origin, run in zip((*earlier, last), (work.original, *runs), runs, strict=False):
        train_stage(stage, origin, run, work, seconds=stage.share * seconds, say=say)


def train_stage(stage: TrainingStage, origin: Run, run: Run, work: WorkFolder, *, seconds: float, say: Say) -> None:
    """Trains `run` from the weights of `origin`. A narrower model than the settings are for has a higher
    rate, by the square root of the ratio."""
    file = shipped_file(stage.settings)
    rate = load_config(file, []).training.learning_rate * math.sqrt(RATE_DIM / origin.config.model.decoder.dim)
    changes = [f"training.minutes={seconds / 60:.6f}", f"training.learning_rate={rate:.3g}"]
    if not has_bfloat16():
        changes += ["training.precision=float32", "training.block_precision=float32"]
    train_to_the_end(
        run,
        lambda: continued_run(run.folder, origin.folder, file, changes, data_folder=work.data, overwrite=False),
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
