"""The verbs `anydepth keys add`, `list` and `remove`: who may use a server."""

from pathlib import Path
from typing import Annotated

import typer

from anydepth.cli.options import examples, say
from anydepth.limits import MOST_UPDATES

ADD_EXAMPLES = examples(
    "anydepth keys add keys.json weblate", "anydepth keys add keys.json anna --requests-per-minute 60"
)
LIST_EXAMPLES = examples("anydepth keys list keys.json")
REMOVE_EXAMPLES = examples("anydepth keys remove keys.json weblate")

KeyFile = Annotated[Path, typer.Argument(metavar="FILE", help="The file of keys that `anydepth serve --keys` takes.")]
KeyName = Annotated[str, typer.Argument(metavar="NAME", help="Who the key is for; it stands in the log.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="API keys of a server.", no_args_is_help=True, rich_markup_mode=None)
    group.command(epilog=ADD_EXAMPLES)(add)
    group.command("list", epilog=LIST_EXAMPLES)(list_keys)
    group.command(epilog=REMOVE_EXAMPLES)(remove)
    app.add_typer(group, name="keys")


def add(
    file: KeyFile,
    name: KeyName,
    requests_per_minute: Annotated[
        int | None,
        typer.Option(min=0, max=MOST_UPDATES, help="Most requests a minute; 0: no limit. Default: the server's."),
    ] = None,
) -> None:
    """Make a key and print it; the file holds its hash alone, so it is never shown again."""
    from anydepth.server.key_file import add_key

    print(add_key(file, name, requests_per_minute=requests_per_minute))
    say(f"{file} has the hash of the key {name}; the key itself is stored nowhere")


def list_keys(file: KeyFile) -> None:
    """List the keys: name, when it was made, requests a minute."""
    from anydepth.server.key_file import load_keys

    for key in load_keys(file):
        rate = "" if key.requests_per_minute is None else str(key.requests_per_minute)
        print(f"{key.name}\t{key.created}\t{rate}".rstrip())


def remove(file: KeyFile, name: KeyName) -> None:
    """Take a key out of the file; a running server refuses it at once."""
    from anydepth.server.key_file import remove_key

    remove_key(file, name)
    say(f"{file} has the key {name} no more")
