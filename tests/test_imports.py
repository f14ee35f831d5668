"""Imports point one way: a room of the package imports from itself and from the rooms before it,
and no two modules need each other."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import anydepth

PACKAGE = Path(anydepth.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

# What stands on what, lowest first; docs/architecture.md draws it.
ORDER = (
    "errors",
    "limits",
    "messages",
    "files",
    "config",
    "text",
    "model",
    "vocabulary",
    "exits",
    "search",
    "runs",
    "inference",
    "bulk",
    "clock",
    "evaluation",
    "bleu_oracle",
    "training",
    "tuning",
    "adding_exits",
    "bench",
    "figures",
    "experiments",
    "report",
    "demo",
    "server",
    "cli",
    "__main__",
)
MOST_ROOT_MODULES = 6


def part_of(module: Path) -> str:
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_names(module: Path) -> Iterator[str]:
    """What a module imports from the package, at its top or inside functions, as in
    "text.corpus.read_pairs"."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            package, _, rest = name.partition(".")
            if package == "anydepth" and rest not in {"", "__version__"}:
                yield rest


def test_a_module_imports_from_its_own_room_and_those_before_it() -> None:
    against = {}
    for module in MODULES:
        here, imported = part_of(module), {name.partition(".")[0] for name in imported_names(module)}
        # The package itself is the public surface, which is loaded when it is asked for.
        allowed = {"inference"} if here == "__init__" else set(ORDER[: ORDER.index(here) + 1])
        against[str(module.relative_to(PACKAGE))] = imported - allowed
    assert {module: names for module, names in against.items() if names} == {}


def test_the_order_names_every_room_and_nothing_else() -> None:
    assert set(ORDER) == {part_of(module) for module in MODULES} - {"__init__"}


def test_no_two_modules_need_each_other() -> None:
    names = {".".join(module.relative_to(PACKAGE).with_suffix("").parts): module for module in MODULES}
    needs = {
        name: {
            found
            for imported in imported_names(module)
            for found in (imported, imported.rpartition(".")[0])
            if found in names
        }
        - {name}
        for name, module in names.items()
    }
    assert len(list(TopologicalSorter(needs).static_order())) == len(names)  # a ring would be an error


def test_the_root_holds_few_modules() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_ROOT_MODULES


def test_no_file_is_a_drawer_for_odds_and_ends() -> None:
    drawers = {"utils", "helpers", "common", "misc", "base", "constants"}
    assert [module for module in MODULES if module.stem in drawers] == []


def modules_after(statement: str) -> set[str]:
    finished = subprocess.run(
        [sys.executable, "-c", f"import sys; {statement}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        cwd=PACKAGE.parent,
    )
    return set(finished.stdout.split())


@pytest.mark.parametrize("module", ["anydepth", "anydepth.cli.main", "anydepth.config.schema"])
def test_the_command_answers_without_loading_torch(module: str) -> None:
    assert (PACKAGE.parent / Path(*module.split("."))).with_suffix(".py").exists() or module == "anydepth"
    assert "torch" not in modules_after(f"import {module}")


def test_importing_the_package_prints_nothing() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", "import anydepth.training.start, anydepth.inference.translator"],
        capture_output=True,
        text=True,
        check=True,
        cwd=PACKAGE.parent,
    )
    assert (finished.stdout, finished.stderr) == ("", "")


def calls_at_import(tree: ast.Module) -> Iterator[str]:
    """The names of what a module calls while it is imported: outside of functions, decorators and
    defaults included."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            waiting += [
                *node.decorator_list,
                *node.args.defaults,
                *(default for default in node.args.kw_defaults if default),
            ]
        else:
            waiting += ast.iter_child_nodes(node)


def test_no_module_looks_at_the_machine_while_it_is_imported() -> None:
    looks = r"\bcuda\b|torch\.device|environ|getenv|cpu_count|num_threads|subprocess|\bopen$|read_text|read_bytes"
    looks += r"|\bprint$|basicConfig|time\."
    found = {}
    for module in MODULES:
        tree = ast.parse(module.read_text(encoding="utf-8"))
        tree.body = [
            node for node in tree.body if not (isinstance(node, ast.If) and "__name__" in ast.unparse(node.test))
        ]
        found[str(module.relative_to(PACKAGE))] = [name for name in calls_at_import(tree) if re.search(looks, name)]
    assert {module: names for module, names in found.items() if names} == {}
