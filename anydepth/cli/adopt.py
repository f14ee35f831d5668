"""The verb `anydepth adopt`: models of other programs as runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anydepth.cli.options import examples, say
from anydepth.errors import UsageError

if TYPE_CHECKING:
    from anydepth.adding_exits.work_folder import Trunk

EXAMPLES = examples(
    "anydepth adopt opus-mt-de-en --to runs/opus",
    "anydepth adopt opus-mt-de-en --text mono.de --minutes 60 --to runs/fast",
    "anydepth adopt opus-mt-de-en --text mono.de --minutes 60 --trunk frozen --to runs/same-and-fast",
    "anydepth adopt opus-mt-tc-big-gem-en --to runs/big --source-lang de --target-lang en",
)
TRUNKS = ("trained", "frozen")

Text = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Text in the source language, one sentence per line, plain or .gz: also learn exits from the model's own "
        "translations of it, choose words and tune.",
    ),
]
Minutes = Annotated[
    float | None, typer.Option(help="Time for everything; with --text. Default: 60. More text than fits is left out.")
]
TrunkName = Annotated[
    str | None,
    typer.Option(
        "--trunk",
        metavar="trained|frozen",
        help="With --text: train all weights, or small networks beside the model, whose full depth stays bit for bit "
        "what it was. Default: trained.",
    ),
]


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(adopt)


def adopt(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A MarianMT model as Hugging Face's transformers saves it.")
    ],
    to: Annotated[
        Path,
        typer.Option(metavar="RUN", help="Folder for the run. With --text, RUN.work beside it has what is unfinished."),
    ],
    text: Text = None,
    minutes: Minutes = None,
    trunk: TrunkName = None,
    source_lang: Annotated[
        str | None, typer.Option(metavar="NAME", help="The source language. Default: what DIR says, else source.")
    ] = None,
    target_lang: Annotated[
        str | None, typer.Option(metavar="NAME", help="The target language. Default: what DIR says, else target.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a run at --to, and start anew.")] = False,
) -> None:
    """Make a run of a model that another program has trained: OPUS-MT and whatever else is in
    MarianMT's format. With --text it also gets exits. The same command goes on after a stop."""
    if text is None:
        given = {"--minutes": minutes, "--trunk": trunk}
        if named := [option for option, value in given.items() if value is not None]:
            raise UsageError(f"{named[0]} is for learning exits, which needs text; give --text FILE, too")
        from anydepth.inference.adopt.adoption import adopt as adopt_folder

        run = adopt_folder(folder, to, source_lang=source_lang, target_lang=target_lang, overwrite=overwrite, say=say)
        print(run.folder)
        return
    from anydepth.adding_exits.whole_way import ExitsAsked, adopt_with_exits

    asked = ExitsAsked(
        text=text,
        minutes=ExitsAsked.minutes if minutes is None else minutes,
        trunk=checked_trunk(trunk),
        source_lang=source_lang,
        target_lang=target_lang,
    )
    print(adopt_with_exits(folder, to, asked, overwrite=overwrite, say=say))
    print(to)


def checked_trunk(name: str | None) -> "Trunk":
    """The trunk of that name, which must be one."""
    match name:
        case None | "trained":
            return "trained"
        case "frozen":
            return "frozen"
        case _:
            raise UsageError(f"--trunk {name} is unknown; use {' or '.join(TRUNKS)}")
