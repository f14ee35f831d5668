"""The verb `anydepth adopt`: models of other programs as runs."""

from pathlib import Path
from typing import Annotated

import typer

from anydepth.cli.options import examples, say

EXAMPLES = examples(
    "anydepth adopt opus-mt-de-en --to runs/opus",
    "anydepth adopt opus-mt-tc-big-gem-en --to runs/big --source-lang de --target-lang en",
)


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(adopt)


def adopt(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A MarianMT model as Hugging Face's transformers saves it.")
    ],
    to: Annotated[Path, typer.Option(metavar="RUN", help="Folder for the run.")],
    source_lang: Annotated[
        str | None, typer.Option(metavar="NAME", help="The source language. Default: what DIR says, else source.")
    ] = None,
    target_lang: Annotated[
        str | None, typer.Option(metavar="NAME", help="The target language. Default: what DIR says, else target.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run at --to.")] = False,
) -> None:
    """Make a run of a model that another program has trained: OPUS-MT and whatever else is in
    MarianMT's format."""
    from anydepth.inference.adopt.adoption import adopt as adopt_folder

    run = adopt_folder(folder, to, source_lang=source_lang, target_lang=target_lang, overwrite=overwrite, say=say)
    print(run.folder)
