"""The command and its modules: each registers its own verbs, in the order of the help, and
importing them does nothing else."""

import ast
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
from cli.commands import done
from cli.parsing import ANYDEPTH

import anydepth.cli
from anydepth.bench.field import BenchSettings
from anydepth.bleu_oracle.scoring import ScoreSettings
from anydepth.cli.app import VERB_MODULES, VerbModule, make_app
from anydepth.cli.bench import BenchOutput, BenchSubject, TimedShape
from anydepth.cli.options import wish_of
from anydepth.experiments.study import StudyWishes
from anydepth.runs.operating_points import Wish
from anydepth.text.prepare import PrepareSettings
from anydepth.tuning.tune import TuneSettings

FILES = sorted(Path(anydepth.cli.__file__).parent.glob("*.py"))
NOT_VERBS = {"__init__", "app", "main", "options", "streams", "waiting"}


def name_of(module: Any) -> str:
    return str(module.__name__.rpartition(".")[2])


def registered(module: VerbModule) -> list[tuple[str, Any]]:
    """The words that a module adds to the command, each with what it calls; None for a group."""
    app = typer.Typer()
    module.register(app)
    verbs = [(each.name or each.callback.__name__, each.callback) for each in app.registered_commands if each.callback]
    return [*verbs, *((str(group.name), None) for group in app.registered_groups)]


def test_every_module_of_a_verb_is_named_once() -> None:
    assert sorted(map(name_of, VERB_MODULES)) == sorted({file.stem for file in FILES} - NOT_VERBS)


@pytest.mark.parametrize("module", VERB_MODULES, ids=name_of)
def test_a_module_registers_its_own_functions_one_of_which_has_its_name(module: Any) -> None:
    found = registered(module)
    assert name_of(module).replace("_", "-") in [word for word, _ in found]
    for _, function in found:
        assert function is None or function.__module__ == module.__name__


def test_help_has_the_order_of_the_modules() -> None:
    words = [word for module in VERB_MODULES for word, _ in registered(module)]
    assert list(ANYDEPTH.commands) == words
    shown = done("--help").out
    places = [shown.index(f"\n  {word} ") for word in words]
    assert places == sorted(places)


def test_a_command_that_is_made_again_is_another_one_with_the_same_verbs() -> None:
    one, two = make_app(), make_app()
    one.command("other")(lambda: None)
    assert "other" in typer.main.get_command(one).commands  # type: ignore[attr-defined]
    assert list(typer.main.get_command(two).commands) == list(ANYDEPTH.commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_module_makes_a_command_or_adds_to_one_while_it_is_imported(file: Path) -> None:
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        done_now = node.decorator_list if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else [node]
        for part in map(ast.unparse, done_now):
            assert not re.search(r"Typer\(|\.command\b|\.callback\b|add_typer", part), part


@pytest.mark.parametrize(
    "settings",
    [
        *(PrepareSettings, TuneSettings, BenchSettings, StudyWishes, ScoreSettings),
        *(BenchSubject, BenchOutput, TimedShape),
    ],
)
def test_settings_of_many_fields_are_given_by_name(settings: Any) -> None:
    assert all(field.kw_only for field in fields(settings))


def test_the_options_of_a_wish_become_that_wish() -> None:
    assert wish_of(2.5, 0.4, 0.0) == Wish(average_exit=2.5, flops=0.4, bleu_drop=0.0)
    assert wish_of(None, None, None).is_empty
