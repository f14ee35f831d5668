"""The verb `anydepth train`: a new run, one that starts from another run's weights, or one that
goes on."""

import math
from pathlib import Path
from typing import Annotated

import typer

from anydepth.cli.options import ConfigHelp, Settings, examples, settings_file
from anydepth.errors import UsageError

EXAMPLES = examples(
    "anydepth train demo --data data --to runs/first --minutes 3",
    "anydepth train --resume --to runs/first",
    "anydepth train --from runs/first --to runs/exits --set exits.halting=geometric --set "
    "exits.oracle=correctness --minutes 2",
    "torchrun --nproc-per-node 2 -m anydepth train demo --data data --to runs/two",
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
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run at --to.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run at --to.")] = False,
) -> None:
    """Train a model whose decoder can stop after any block, and with exits.halting teach it
    where."""
    from anydepth.training.start import continued_run, new_run, resumed_run, train_run

    if minutes is not None and not 0 < minutes < math.inf:
        raise UsageError(f"--minutes {minutes:g} is no time to train for; give a number above 0")
    wishes = [*(changes or []), *([f"training.minutes={minutes}"] if minutes is not None else [])]
    if resume:
        if config or overwrite or origin:
            raise UsageError("--resume goes on with the settings of the run; leave out CONFIG, --from and --overwrite")
        train_run(to, lambda: resumed_run(to, wishes, data_folder=data))
    elif origin is not None:
        train_run(
            to,
            lambda: continued_run(
                to, origin, config and settings_file(config), wishes, data_folder=data, overwrite=overwrite
            ),
        )
    elif config is None or data is None:
        raise UsageError("a new run needs CONFIG and --data, as in: anydepth train demo --data data --to runs/first")
    else:
        train_run(to, lambda: new_run(to, settings_file(config), data, wishes, overwrite=overwrite))
