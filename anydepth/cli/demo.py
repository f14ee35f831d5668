"""The verb `anydepth demo`: everything on the built-in corpus."""

from pathlib import Path
from typing import Annotated

import typer

from anydepth.cli.options import examples, say, settings_file

EXAMPLES = examples("anydepth demo --to runs/demo")


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(demo)


def demo(
    to: Annotated[Path, typer.Option(help="Folder for the corpus, the data and the runs.")] = Path("runs/demo"),
    config: Annotated[Path | None, typer.Option(help="Settings of the model, a file or a name. Default: demo.")] = None,
    exits_config: Annotated[
        Path | None, typer.Option(help="Settings of the second stage. Default: demo_exits.")
    ] = None,
) -> None:
    """Do everything on the built-in corpus: generate, prepare, train, teach where to stop, tune,
    measure, show."""
    from anydepth.demo.walkthrough import run_demo

    run_demo(to, config and settings_file(config), exits_config and settings_file(exits_config), say=say)
