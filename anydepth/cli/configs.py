"""The verb `anydepth configs`: the settings that come with the package, to look at, to copy and to
change."""

from pathlib import Path
from typing import Annotated

import typer

from anydepth.cli.options import examples, say
from anydepth.errors import UsageError

EXAMPLES = examples(
    "anydepth configs",
    "anydepth configs demo",
    "anydepth configs --to configs",
    "anydepth configs demo demo_exits --to my-configs",
    "anydepth configs --reference",
)


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(configs)


def configs(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Print these, or copy them with --to.")
    ] = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Copy NAME.toml of each, or of all without a name, to this folder."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files at --to.")] = False,
    reference: Annotated[
        bool, typer.Option("--reference", help="Print a page of all settings: values, default, meaning.")
    ] = False,
) -> None:
    """List the settings that come with anydepth; print or copy them to begin with."""
    from anydepth.config.shipped import shipped_file, shipped_names, shipped_purpose

    if reference:
        print_reference(is_alone=not names and to is None and not overwrite)
        return
    chosen = names or shipped_names()
    files = [shipped_file(name) for name in chosen]
    if to is not None:
        copy_settings(files, to, overwrite=overwrite)
    elif overwrite:
        raise UsageError("--overwrite replaces copies, which needs a folder; add --to DIR")
    elif names:
        print("\n".join(file.read_text(encoding="utf-8") for file in files), end="")
    else:
        width = max(len(name) for name in chosen)
        print("\n".join(f"{name:{width}}  {shipped_purpose(name)}" for name in chosen))


def print_reference(*, is_alone: bool) -> None:
    """Prints the page of all settings."""
    from anydepth.config.reference import settings_reference

    if not is_alone:
        raise UsageError("--reference is about all settings there are; leave out names, --to and --overwrite")
    print(settings_reference(), end="")


def copy_settings(files: list[Path], to: Path, *, overwrite: bool) -> None:
    """Copies all files to the folder `to`, or none of them where one is there already that must not
    be replaced."""
    from anydepth.files.atomic import write_text

    if to.exists() and not to.is_dir():
        raise UsageError(f"--to {to} is a file; name a folder for the copies")
    if (there := [to / file.name for file in files if (to / file.name).exists()]) and not overwrite:
        raise UsageError(f"{there[0]} exists already; choose another --to, or replace it with --overwrite")
    to.mkdir(parents=True, exist_ok=True)
    for file in files:
        write_text(to / file.name, file.read_text(encoding="utf-8"))
        say(f"{to / file.name}")
