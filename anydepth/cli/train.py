"""The verb `anydepth train`: a new run, one that starts from another run's weights, or one that
goes on."""

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anydepth.cli.options import ConfigHelp, Settings, examples, settings_file
from anydepth.errors import UsageError

if TYPE_CHECKING:
    from anydepth.config.schema import Config
    from anydepth.runs.run import Run

EXAMPLES = examples(
    "anydepth train demo --data data --to runs/first --minutes 3",
    "anydepth train --resume --to runs/first",
    "anydepth train --from runs/first --to runs/exits --set exits.halting=geometric --set "
    "exits.oracle=correctness --minutes 2",
    "torchrun --nproc-per-node 2 --max-restarts 3 -m anydepth train demo --data data --to runs/two --resume",
)


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(train)


def train(
    to: Annotated[Path, typer.Option(metavar="RUN", help="Folder for the run.")],
    config: Annotated[Path | None, typer.Argument(metavar="CONFIG", help=f"{ConfigHelp}.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder that `anydepth prepare` made; with --resume where it has moved to.")
    ] = None,
    origin: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Start from this run's weights, tokenizer and settings but minutes; CONFIG has what changes.",
        ),
    ] = None,
    changes: Settings = None,
    minutes: Annotated[float | None, typer.Option(help="Stop after this time even if updates are left.")] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the run at --to; with CONFIG or --from, make it if it is not there."),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run at --to.")] = False,
) -> None:
    """Train a model whose decoder can stop after any block, and with exits.halting teach it
    where."""
    from anydepth.config.loading import load_config
    from anydepth.runs.run import Run
    from anydepth.training.start import begun_run, continued_config, continued_run, new_run, resumed_run, train_run

    if minutes is not None and not 0 < minutes < math.inf:
        raise UsageError(f"--minutes {minutes:g} is no time to train for; give a number above 0")
    check_resume(resume=resume, overwrite=overwrite)
    wishes = [*(changes or []), *([f"training.minutes={minutes}"] if minutes is not None else [])]
    if resume and config is None and origin is None:
        train_run(to, lambda: resumed_run(to, wishes, data_folder=data))
        return
    if origin is None and (config is None or data is None):
        raise UsageError("a new run needs CONFIG and --data, as in: anydepth train demo --data data --to runs/first")
    file = config and settings_file(config)

    def wanted() -> "Config":
        if origin is not None:
            return continued_config(Run(origin), file, wishes)
        assert file is not None
        return load_config(file, wishes)

    def make_run() -> "Run":
        if origin is not None:
            return continued_run(to, origin, file, wishes, data_folder=data, overwrite=overwrite)
        assert file is not None and data is not None
        return new_run(to, file, data, wishes, overwrite=overwrite)

    train_run(to, (lambda: begun_run(to, wanted, make_run, origin=origin, data_folder=data)) if resume else make_run)


def check_resume(*, resume: bool, overwrite: bool) -> None:
    """Refuses --resume with --overwrite, and a command that torchrun may start again and that would
    then refuse the run which it has made."""
    if resume and overwrite:
        raise UsageError("--resume goes on with the run at --to and --overwrite replaces it; leave out one of them")
    restarts = os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")
    if not resume and restarts != "0":
        raise UsageError(
            f"torchrun --max-restarts {restarts} starts this command again when a worker dies, and without --resume it "
            "would not go on with the run that it finds; give --resume, too"
        )
