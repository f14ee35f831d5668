"""Training the runs of a study: the command that does the same, the text, and where a run that was
stopped goes on."""

import shlex
from pathlib import Path

from anydepth.errors import UsageError
from anydepth.experiments.definition import Study
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.variants import Variant, seeded, variant_config
from anydepth.files.checksums import known_hash
from anydepth.files.reading import Unreadable, json_of
from anydepth.runs.metrics import read_metrics
from anydepth.runs.run import Run
from anydepth.text.prepared import PreparedData
from anydepth.training.start import continued_run, new_run, resumed_run, train_run


def distilled_text(folder: StudyFolder, seed: int) -> Path:
    """The prepared text that distilled runs of a seed learn from."""
    return folder.distilled / seeded("text", seed)


def joined_text(folder: StudyFolder, seed: int) -> Path:
    """The prepared text of a seed that has the text as it is, and then its translations."""
    return folder.distilled / seeded("both", seed)


def training_text(study: Study, folder: StudyFolder, variant: Variant) -> Path:
    """The prepared text that a run learns from."""
    match variant.targets:
        case "references":
            return Path(study.data.folder)
        case "translations":
            return distilled_text(folder, variant.taught_by)
        case "both":
            return joined_text(folder, variant.taught_by)


def train_command(study: Study, folder: StudyFolder, variant: Variant) -> str:
    """What a user would type to train the same run."""
    data = str(training_text(study, folder, variant))
    origin = [] if variant.origin is None else ["--from", str(folder.run(variant.origin))]
    config = [str(folder.config_file)] if variant.origin is None else []
    changes = [word for change in study.changes(variant) for word in ("--set", change)]
    return shlex.join(
        ["anydepth", "train", *config, *origin, "--data", data, *changes, "--to", str(folder.run(variant.run))]
    )


def train_variant(study: Study, folder: StudyFolder, variant: Variant) -> None:
    """Trains a run to its end, from where it was left."""
    run, changes = Run(folder.run(variant.run)), list(study.changes(variant))
    data = training_text(study, folder, variant)
    origin = None if variant.origin is None else Run(folder.run(variant.origin))
    if run.config_file.exists() and run.config != variant_config(variant, study.config, study.second_stage):
        raise UsageError(f"{run.folder} was made with other settings than the study's; remove it")

    def make_run() -> Run:
        if run.config_file.exists() and is_of(run, PreparedData.open(data), origin):
            return resumed_run(run.folder, [], data_folder=data)
        if origin is None:
            return new_run(run.folder, folder.config_file, data, changes, overwrite=True)
        return continued_run(run.folder, origin.folder, None, changes, data_folder=data, overwrite=True)

    train_run(run.folder, make_run)


def is_of(run: Run, data: PreparedData, origin: Run | None) -> bool:
    """Whether a run was begun with this text and, where it is a second stage, from these
    weights."""
    if run.data_note()["fingerprint"] != data.fingerprint:
        return False
    if origin is None:
        return True
    try:
        note = json_of(run.seal.read(run.origin_file))
    except Unreadable as error:
        raise UsageError(
            f"{run.origin_file} cannot be read ({error}); restore it from a copy, or remove {run.folder}"
        ) from error
    return isinstance(note, dict) and note.get("weights") == known_hash(origin.weights_file)


def trained(run: Run) -> tuple[int, float]:
    """How many updates a run was trained for, and the seconds that took."""
    lines = [values for _, values in read_metrics(run)]
    told = [(values["update"], values["seconds"]) for values in lines if isinstance(values.get("seconds"), int | float)]
    return max(told, default=(0, 0.0))


def remove_checkpoints(run: Run) -> None:
    """Removes the checkpoints of a run whose weights are made: those of dozens of runs would fill
    the disk."""
    run.seal.remove(file for _, file in run.checkpoints())
