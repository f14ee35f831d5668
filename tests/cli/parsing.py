"""Shell text as the commands in it, and a check of their verbs and options that runs nothing."""

import re
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from anydepth.cli.app import make_app

ENDS = {";", "|", "||", "&", "&&"}
REDIRECTIONS = {"<", ">", ">>", "2>", "&>"}
ANYDEPTH: Any = typer.main.get_command(make_app())


def verbs_of(command: Any, name: str = "") -> list[str]:
    """The verbs of a command with those of its groups, as in "plot tokens"."""
    inner = getattr(command, "commands", None)
    return (
        [name]
        if inner is None
        else sorted(verb for word in inner for verb in verbs_of(inner[word], f"{name} {word}".strip()))
    )


VERBS = verbs_of(ANYDEPTH)


def verbs_taking(argument: str) -> list[str]:
    """The verbs with an argument of that name in their help, such as "RUN"."""
    return [
        verb
        for verb in VERBS
        if any(each.param_type_name == "argument" and each.metavar == argument for each in command_of(verb).params)
    ]


def command_of(verb: str) -> Any:
    """The command that a verb, as in "plot tokens", runs."""
    command = ANYDEPTH
    for word in verb.split():
        command = command.commands[word]
    return command


def anydepth_commands(shell: str) -> list[list[str]]:
    """The arguments of every `anydepth` in `shell`, also behind pipes, `python -m` and `torchrun
    ... -m`."""
    found = []
    for line in shell.replace("\\\n", " ").splitlines():
        for words in simple_commands(line):
            arguments = arguments_of_anydepth(words)
            if arguments is not None:
                found.append(arguments)
    return found


def simple_commands(line: str) -> list[list[str]]:
    """The words of each command of one line; redirections are left out."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&<>")
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    words = iter(lexer)
    for word in words:
        if word in ENDS:
            commands.append([])
        elif word in REDIRECTIONS:
            next(words)
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


def arguments_of_anydepth(words: list[str]) -> list[str] | None:
    """What follows `anydepth` where it is the program or the module that runs; None where it is
    not."""
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    if words and Path(words[0]).name == "anydepth":
        return words[1:]
    for place in range(1, len(words)):
        if words[place - 1 : place + 1] == ["-m", "anydepth"]:
            return words[place + 1 :]
    return None


def check_arguments(arguments: list[str]) -> None:
    """Raises a usage error if the verb or an option does not exist, or a required one is
    missing."""
    command, rest = ANYDEPTH, arguments or ["--help"]
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        assert rest[0] in command.commands, f"there is no verb {rest[0]!r}, only {', '.join(VERBS)}"
        command, rest = command.commands[rest[0]], rest[1:]
    with suppress(typer.Exit):  # --help
        command.make_context(command.name, list(rest))
