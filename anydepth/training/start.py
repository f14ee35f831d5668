"""From a command to a run that trains: new, continued from another run, or resumed."""

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from anydepth.bleu_oracle.table import scores_to_learn_from, training_scores
from anydepth.config.loading import load_config, save_config, with_changes
from anydepth.config.schema import Config
from anydepth.errors import AnydepthError, ConfigError, RunError
from anydepth.files.checksums import known_hash
from anydepth.files.locks import one_writer
from anydepth.files.reading import json_of
from anydepth.messages.say import Say
from anydepth.model.checkpoint import load_weights
from anydepth.runs.metrics import read_metrics
from anydepth.runs.models import lowest_blocks
from anydepth.runs.run import Run, create_run, note_data, training_data, usable_data
from anydepth.text.prepared import PreparedData
from anydepth.training.distributed import Workers, workers
from anydepth.training.loop import Training
from anydepth.training.reporting import Reporter

# A resumed run may go on for longer or report more often, but what it computes stays what it was.
# Accumulation makes up for another number of workers; what it changes beyond that is told.
CHANGEABLE = (
    "updates",
    "minutes",
    "patience",
    "log_every",
    "save_every",
    "final",
    "average",
    "left_out_in_a_row",
    "left_out",
    "accumulation",
)


def new_run(folder: Path, config_file: Path, data_folder: Path, changes: list[str], *, overwrite: bool) -> Run:
    """A fresh run directory for the settings in `config_file` with `changes`."""
    config = load_config(config_file, changes)
    if config.exits.oracle == "bleu":
        raise ConfigError(
            'exits.oracle = "bleu" learns from the scores of a trained run\'s exits; make them with `anydepth '
            "score-exits RUN` "
            "and start from that run with --from RUN"
        )
    if config.training.trunk == "frozen":
        raise ConfigError(
            'training.trunk = "frozen" keeps the weights of a trained run; start from one with --from RUN, or set '
            'training.trunk = "trained"'
        )
    return create_run(folder, config, PreparedData.open(data_folder), overwrite=overwrite)


def continued_run(
    folder: Path,
    origin: Path,
    config_file: Path | None,
    changes: list[str],
    *,
    data_folder: Path | None = None,
    overwrite: bool,
) -> Run:
    """A fresh run directory whose training starts from the weights of the run at `origin` and keeps
    its tokenizer (Eq. 7's second stage).

    What neither `config_file` nor `changes` name is as in that run, except its limit of minutes.
    A model with the last exit alone may get the others, and one without adapters may get them; or it
    may keep the lowest of its decoder blocks alone.
    Its text is used again unless `data_folder` has other text in the same vocabulary.
    """
    if os.path.realpath(folder) == os.path.realpath(origin):
        raise RunError(f"--from {origin} and --to {folder} are the same run; choose another --to")
    first = Run(Path(origin))
    config = continued_config(first, config_file, changes)
    data = usable_data(first, data_folder, use="--from")
    if not first.seal.has(first.weights_file):
        raise RunError(f"{origin} has no model.safetensors to start from; let its training end first")
    if (update := first.interrupted_at()) is not None:
        raise RunError(f"the training of {origin} was interrupted at update {update:,}; let it end first with --resume")
    tensors = lowest_blocks(load_weights(first.weights_file)[0], config.model)
    scores = scores_to_learn_from(first, data.fingerprint) if config.exits.oracle == "bleu" else None
    return create_run(folder, config, data, overwrite=overwrite, origin=first, start=tensors, oracle_scores=scores)


def continued_config(first: Run, config_file: Path | None, changes: list[str]) -> Config:
    """The settings of a run that starts from `first`: its own but for the minutes, then the file's,
    then the changes."""
    before = with_changes(first.config, ["training.minutes=none"])
    config = with_changes(before, changes) if config_file is None else load_config(config_file, changes, over=before)
    check_same_shape(first, config)
    return config


def check_same_shape(first: Run, config: Config) -> None:
    """Refuses a model of another shape than that of the run `first`. Dropout and what blocks attend
    to are no shape, but for keys and values that were shared; exits and their adapters may be added,
    and a model with the last exit alone may lose its upper blocks."""
    free = {"dropout", "attention_dropout"}
    if first.config.model.attended_states != "shared":
        free.add("attended_states")
    old, new = (each.model.model_dump(exclude=free) for each in (first.config, config))
    allowed = {key for key, without in (("exits", "last"), ("exit_adapter", 0)) if old[key] == without}
    if old["exits"] == new["exits"] == "last" and new["blocks"] < old["blocks"]:
        allowed.add("blocks")
    if different := [key for key in old if old[key] != new[key] and key not in allowed]:
        key = different[0]
        raise ConfigError(
            f"model.{key} = {new[key]!r} is not that of {first.folder} ({old[key]!r}); --from keeps the shape of "
            "the model"
        )


def resumed_run(folder: Path, changes: list[str], *, data_folder: Path | None = None) -> Run:
    """The run at `folder`, with `changes` to its budget, and the place that its data has moved to,
    written down."""
    run = Run(Path(folder))
    config = run.config
    for change in changes:
        if change.partition("=")[0].strip() not in {f"training.{key}" for key in CHANGEABLE}:
            raise ConfigError(
                f"--set {change}: a resumed run keeps its settings, except {', '.join(CHANGEABLE)} of training; "
                "start a new run for other changes"
            )
    return going_on(run, with_changes(config, changes), data_folder=data_folder)


def begun_run(
    folder: Path,
    wanted: Callable[[], Config],
    make_run: Callable[[], Run],
    *,
    origin: Path | None,
    data_folder: Path | None,
) -> Run:
    """The run at `folder` where there is one, which must have the `wanted` settings but for those
    of its budget, and have started from `origin`; else the one that `make_run` makes.

    So the same command begins a training and goes on with it, however often it is started.
    """
    run = Run(Path(folder))
    if not run.config_file.exists():
        return make_run()
    config, changed = run.config, wanted()
    check_origin(run, None if origin is None else Run(origin))
    fixed = with_budget_of(changed, config)
    if fixed != config:
        key, asked, there = first_difference(fixed.model_dump(), config.model_dump())
        raise ConfigError(
            f"{key} = {asked!r} is not that of {folder} ({there!r}), and a resumed run keeps its settings, except "
            f"{', '.join(CHANGEABLE)} of training; choose another --to for other settings"
        )
    return going_on(run, changed, data_folder=data_folder)


def check_origin(run: Run, origin: Run | None) -> None:
    """Refuses to go on with a run that started from other weights than those of `origin`, or from
    none where it is None."""
    there = json_of(run.seal.read(run.origin_file)) if run.seal.has(run.origin_file) else {}
    started = there.get("weights") if isinstance(there, dict) else None
    if started != (None if origin is None else known_hash(origin.weights_file)):
        asked = "without --from" if origin is None else f"from {origin.folder} as it is now"
        raise ConfigError(
            f"{run.folder} did not start {asked}, so it is not what this command would have made; choose another --to, "
            "or go on with --resume and --to alone"
        )


def with_budget_of(config: Config, other: Config) -> Config:
    """`config` with what a resumed run may change as it is in `other`."""
    training = config.training.model_copy(update={key: getattr(other.training, key) for key in CHANGEABLE})
    return config.model_copy(update={"training": training})


def first_difference(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[str, Any, Any]:
    """The name of the first setting that differs, and both its values."""
    key = next(key for key in mine if mine[key] != theirs[key])
    if not isinstance(mine[key], Mapping):
        return key, mine[key], theirs[key]
    inner, *values = first_difference(mine[key], theirs[key])
    return f"{key}.{inner}", values[0], values[1]


def going_on(run: Run, changed: Config, *, data_folder: Path | None) -> Run:
    """The run with its settings `changed`, once all that it needs was found to be there."""
    config = run.config
    data = training_data(run, data_folder)
    training_scores(run, config)  # what the oracle needs must be there
    data.verify_for_use()
    check_saved_files(run, changed)
    if data_folder is not None and run.data_note()["folder"] != str(data.folder.resolve()):
        note_data(run, data)
    if changed != config:
        with run.seal.replacing(run.config_file) as temporary:
            save_config(changed, temporary)
    return run


def check_saved_files(run: Run, config: Config) -> None:
    """Refuses a run whose metrics are damaged, or whose saved weights that the final ones will be
    made from: now, not after hours."""
    read_metrics(run)
    if not run.seal.has(run.state_file):
        return
    if config.training.final == "average":
        for _, file in run.checkpoints():
            run.seal.check(file)
    elif config.training.final == "best":
        for file in run.best_files():
            run.seal.check(file)


def train_run(folder: Path, make_run: Callable[[], Run]) -> None:
    """Trains the run that `make_run` leaves at `folder`, from its last saved state where it has
    one; every worker calls this.

    From before the run is made until training ends the main worker is the one that may write to it.
    """
    with workers() as group, ExitStack() as held:

        def make_guarded_run() -> Run:
            held.enter_context(one_writer(folder))
            return make_run()

        start_together(group, make_guarded_run)
        run = Run(Path(folder))
        data = training_data(run)
        with Reporter(run, is_main=group.is_main) as reporter:
            training = Training(run, data, group, reporter)
            if run.seal.has(run.state_file):
                training.resume()
            else:
                reporter.drop_metrics_after(0)
            training.go()


def train_to_the_end(run: Run, make_run: Callable[[], Run], say: Say) -> None:
    """Trains the run that `make_run` makes; training that was interrupted goes on, and what was
    trained to its end is not trained again."""
    if run.weights_file.exists() and run.interrupted_at() is None:
        say(f"trained already; to train again remove {run.folder}")
    elif run.config_file.exists():
        train_run(run.folder, lambda: resumed_run(run.folder, []))
    else:
        train_run(run.folder, make_run)


def start_together(group: Workers, make_run: Callable[[], Run]) -> None:
    """Makes the run in the main worker; an error there ends every worker, and the main one reports
    it."""
    refusal: AnydepthError | OSError | None = None
    if group.is_main:
        try:
            make_run()
        except (AnydepthError, OSError) as error:
            refusal = error
    group.stop_together(refusal)
