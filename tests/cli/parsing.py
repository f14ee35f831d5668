"""Shell text as the commands in it, and a check of their verbs and options that runs nothing."""

import re
import shlex
from pathlib import Path

import typer

from anydepth.cli import app

ENDS = {";", "|", "||", "&", "&&"}
REDIRECTIONS = {"<", ">", ">>", "2>", "&>"}
ANYDEPTH = typer.main.get_command(app)
VERBS = sorted(ANYDEPTH.commands)  # type: ignore[attr-defined]


def anydepth_commands(shell: str) -> list[list[str]]:
    """The arguments of every `anydepth` in `shell`, also behind pipes, `python -m` and `torchrun ... -m`."""
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
    """What follows `anydepth` where it is the program or the module that runs; None where it is not."""
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    if words and Path(words[0]).name == "anydepth":
        return words[1:]
    for place in range(1, len(words)):
        if words[place - 1 : place + 1] == ["-m", "anydepth"]:
            return words[place + 1 :]
    return None


def check_arguments(arguments: list[str]) -> None:
    """Raises a usage error if the verb or an option does not exist, or a required one is missing."""
    verb, *rest = arguments or ["--help"]
    try:
        if verb.startswith("-"):
            ANYDEPTH.make_context("anydepth", arguments)
        else:
            assert verb in VERBS, f"there is no verb {verb!r}, only {', '.join(VERBS)}"
            ANYDEPTH.commands[verb].make_context(verb, rest)  # type: ignore[attr-defined]
    except typer.Exit:  # --help
        pass
