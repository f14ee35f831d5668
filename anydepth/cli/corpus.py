"""The verb `anydepth corpus`: the built-in corpus as plain text files."""

from pathlib import Path
from typing import Annotated

import typer

from anydepth.cli.options import examples, say
from anydepth.errors import UsageError
from anydepth.limits import LARGEST_SEED

EXAMPLES = examples("anydepth corpus --to corpus")


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(corpus)


def corpus(
    to: Annotated[Path, typer.Option(help="Folder for {train,valid,test}.{de,en}.")],
    seed: Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Another seed makes other sentences.")] = 1,
) -> None:
    """Write the built-in German-English corpus as plain text files."""
    from anydepth.demo.corpus import write_corpus

    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UsageError(f"{to} exists already and would be overwritten; choose another --to")
    for split, pairs in write_corpus(to, seed=seed).items():
        say(f"{split}: {pairs:,} pairs")
