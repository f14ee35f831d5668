"""The training that gives an adopted model its exits: which settings, on which machine, and whether
a frozen trunk stayed as it was."""

from anydepth.adding_exits.work_folder import Trunk, WorkFolder
from anydepth.clock.machine import has_bfloat16
from anydepth.config.shipped import shipped_file
from anydepth.errors import TrainingError
from anydepth.messages.say import Say
from anydepth.model.checkpoint import load_weights
from anydepth.runs.models import CLASSIFIERS
from anydepth.runs.run import Run
from anydepth.training.start import continued_run, train_to_the_end

SETTINGS: dict[Trunk, str] = {"trained": "adopt_trained", "frozen": "adopt_frozen"}


def train_exits(work: WorkFolder, trunk: Trunk, *, seconds: float, say: Say) -> None:
    """Trains the run with exits from the adopted one for so many seconds; what was begun goes on."""
    changes = [f"training.minutes={seconds / 60:.6f}"]
    if not has_bfloat16():
        changes += ["training.precision=float32", "training.block_precision=float32"]
    run, settings = work.run, shipped_file(SETTINGS[trunk])
    train_to_the_end(
        run,
        lambda: continued_run(
            run.folder, work.original.folder, settings, changes, data_folder=work.data, overwrite=False
        ),
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
