"""The verbs `anydepth check` and `anydepth seal`: whether files are as they were written, and
vouching for them."""

from pathlib import Path
from typing import Annotated

import typer

from anydepth.cli.options import RunFolder, examples, say

CHECK_EXAMPLES = examples("anydepth check runs/first", "anydepth check data")
SEAL_EXAMPLES = examples("anydepth seal runs/first")


def register(app: typer.Typer) -> None:
    app.command(epilog=CHECK_EXAMPLES)(check)
    app.command(epilog=SEAL_EXAMPLES)(seal)


def check(folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run, prepared data, or an export.")]) -> None:
    """Check that every file of a run, of prepared data or of an export is as it was written."""
    from anydepth.inference.checking import check_folder

    say(f"{folder}: {check_folder(folder):,} files, all of them as they were written")


def seal(run: RunFolder) -> None:
    """Check the files of a run and vouch for them as they are now: for runs of older versions, and
    for files changed on purpose."""
    from anydepth.runs.vouching import seal_run

    files, lost = seal_run(run)
    if lost:
        say(f"warning: {lost:,} damaged lines of {run / 'metrics.jsonl'} are gone")
    say(f"{run} is sealed: {len(files)} files were checked as far as they can be and are vouched for as they are now")
