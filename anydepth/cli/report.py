"""The verb `anydepth report`: a page of what a study measured."""

from pathlib import Path
from typing import Annotated

import typer

from anydepth.cli.options import examples, say

EXAMPLES = examples("anydepth report studies/demo")


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(report)


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="STUDY", help="Folder of a study, or of its study.json and records.")
    ],
    to: Annotated[
        Path | None, typer.Option(help="Folder for report.html, report.md and pictures. Default: that of the study.")
    ] = None,
) -> None:
    """Make a page of a study: every table and figure beside the paper's, from its records alone."""
    from anydepth.report.report import write_report

    write_report(folder, to=to, say=say)
