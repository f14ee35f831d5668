"""Help: it comes at once, names every verb and ends with an example that works."""

import subprocess
import sys

import pytest
import typer
from cli.commands import ROOT, anydepth, done, finish, start
from cli.parsing import VERBS, anydepth_commands, check_arguments

from anydepth import __version__


def test_python_m_anydepth_is_the_command() -> None:
    outcome = finish(start("--version"))
    assert (outcome.code, outcome.out, outcome.err) == (0, f"anydepth {__version__}\n", "")


def test_help_names_every_verb() -> None:
    shown = done("--help").out
    for verb in VERBS:
        *group, name = verb.split()
        assert f"\n  {name} " in done(*group, "--help").out
        assert f"\n  {verb.split()[0]} " in shown
    assert anydepth().out == shown or anydepth().err.strip() == shown.strip(), "without arguments there is help, too"


def test_importing_the_command_line_does_not_import_torch() -> None:
    slow = ("torch", "numpy", "sentencepiece", "matplotlib", "sacrebleu")
    program = "import sys; from anydepth.cli.main import make_app; make_app(); "
    program += f"print([name for name in {slow} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert loaded.stdout == "[]\n"


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_every_verb_ends_with_examples_that_parse_and_can_be_copied(verb: str) -> None:
    shown = done(*verb.split(), "--help").out
    head, mark, examples = shown.rpartition("Example")
    assert mark and "Options:" in head
    _, _, lines = examples.partition(":\n")
    for line in lines.splitlines():
        (arguments,) = anydepth_commands(line)
        assert " ".join(arguments[: len(verb.split())]) == verb
        check_arguments(arguments)
    assert lines.strip()


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            ["--verison"],
            ["trian"],
            ["translate"],
            ["evaluate", "run", "--tset", "x"],
            ["translate", "run", "--beam", "0"],
        ),
        *(["plot", "tokns"], ["plot", "tokens", "run"], ["plot", "tradeoff", "--to", "x.png"], ["tune"]),
        *(["tune", "run", "--valid", "x", "--candidates", "0"], ["tune", "run", "--valid", "x", "--segment", "0"]),
        *(["translate", "run", "--average-exit", "two"], ["translate", "run", "--show-exit"]),
    ],
)
def test_a_wrong_command_line_is_explained_with_exit_code_2(arguments: list[str]) -> None:
    outcome = anydepth(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.splitlines()[-1].startswith("Error: ")


def test_a_misspelt_verb_gets_the_nearest_one() -> None:
    assert "Did you mean 'train'?" in anydepth("trian").err
    assert "Did you mean 'tokens'" in anydepth("plot", "tokns").err


def test_a_group_of_verbs_alone_shows_its_help() -> None:
    outcome = anydepth("plot")
    assert done("plot", "--help").out.strip() in (outcome.out.strip(), outcome.err.strip())


@pytest.mark.parametrize(
    "arguments",
    [
        ["plot", "tokns", "run", "text", "--to", "x.png"],
        ["plot", "tokens", "run", "--to", "x.png"],
        ["tune", "--clock-only"],
        ["plots"],
    ],
)
def test_a_wrong_command_in_a_text_is_found_without_running_it(arguments: list[str]) -> None:
    with pytest.raises((AssertionError, typer.BadParameter)):
        check_arguments(arguments)


@pytest.mark.parametrize(
    ("shell", "expected"),
    [
        ("echo 'a; b' | anydepth translate run --beam 2 > out.txt", [["translate", "run", "--beam", "2"]]),
        ("torchrun --nproc-per-node 2 -m anydepth train c.toml \\\n  --to r", [["train", "c.toml", "--to", "r"]]),
        (
            "anydepth demo && OMP_NUM_THREADS=1 .venv/bin/anydepth corpus --to x  # anydepth",
            [["demo"], ["corpus", "--to", "x"]],
        ),
        ("cd anydepth; pip install anydepth", []),
    ],
)
def test_commands_are_found_in_shell_text(shell: str, expected: list[list[str]]) -> None:
    assert anydepth_commands(shell) == expected
