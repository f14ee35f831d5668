"""The command `anydepth`: all its verbs, in the order of `anydepth --help`.

A verb is a module of this folder with its function, its examples and `register`, and a line in
VERB_MODULES. Data goes to stdout, talk to stderr; torch is imported inside the functions.
"""

from typing import Annotated, Protocol

import typer

from anydepth import __version__
from anydepth.cli import (
    adopt,
    bench,
    bulk,
    check,
    configs,
    corpus,
    data,
    demo,
    evaluate,
    export,
    keys,
    plot,
    prepare,
    report,
    score_exits,
    serve,
    study,
    train,
    translate,
    tune,
    vocabulary,
)


class VerbModule(Protocol):
    """A module of one verb, of a few that belong together, or of a group."""

    def register(self, app: typer.Typer) -> None:
        """Adds the verbs to the command."""


VERB_MODULES: tuple[VerbModule, ...] = (
    corpus,
    prepare,
    train,
    adopt,
    translate,
    bulk,
    evaluate,
    tune,
    vocabulary,
    check,
    configs,
    export,
    serve,
    bench,
    score_exits,
    study,
    report,
    demo,
    data,  # groups come last in the help, wherever they stand here
    plot,
    keys,
)


def make_app() -> typer.Typer:
    """The command with all its verbs."""
    app = typer.Typer(
        help="Translation models that think only as deep as each word needs.",
        epilog="Start with: anydepth demo --to runs/demo",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback(invoke_without_command=True)(anydepth)
    for module in VERB_MODULES:
        module.register(app)
    return app


def anydepth(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if version:
        print(f"anydepth {__version__}")
        raise typer.Exit
