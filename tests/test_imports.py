"""Imports point one way: config <- text <- model <- exits <- search <- {training | evaluation | inference} <- server <- cli."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import anydepth

PACKAGE = Path(anydepth.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))

EVERYWHERE = {"errors", "limits", "reading", "atomic", "locks", "checksums", "seal"}
BELOW_SEARCH = EVERYWHERE | {"config", "text", "model", "exits", "search"}
MAY_IMPORT = {
    "__init__": {"inference"},  # the public surface, loaded when it is asked for
    "errors": set(),
    "limits": set(),
    "reading": set(),
    "atomic": {"errors"},
    "waiting": set(),
    "streams": set(),
    "locks": {"errors", "atomic"},
    "checksums": {"reading"},
    "seal": {"errors", "reading", "atomic", "checksums"},
    "config": EVERYWHERE,
    "shipped": {"errors"},
    "reference": {"config"},
    "text": EVERYWHERE | {"config"},
    "model": EVERYWHERE | {"config", "text"},
    "exits": EVERYWHERE | {"config", "text", "model"},
    "search": EVERYWHERE | {"config", "text", "model", "exits"},
    "training": BELOW_SEARCH,
    "evaluation": BELOW_SEARCH | {"inference"},
    "inference": BELOW_SEARCH,
    "server": BELOW_SEARCH | {"inference"},
    "options": BELOW_SEARCH | {"inference", "shipped"},
    "settings": EVERYWHERE | {"shipped", "reference", "options"},
    "pictures": BELOW_SEARCH | {"inference", "evaluation", "options"},
    "speed": BELOW_SEARCH | {"inference", "evaluation", "options"},
    "teaching": BELOW_SEARCH | {"inference", "evaluation", "options"},
    "recipes": EVERYWHERE | {"text", "options"},
    "demo": BELOW_SEARCH | {"shipped", "training", "evaluation", "inference"},
    "study": BELOW_SEARCH | {"shipped", "training", "evaluation", "inference", "demo"},
    "research": {"limits", "study", "evaluation", "options"},
    "cli": BELOW_SEARCH
    | {"training", "evaluation", "inference", "demo", "server"}
    | {"options", "pictures", "speed", "teaching", "recipes", "research", "settings", "streams", "waiting"},
    "__main__": {"cli"},
}


def part_of(module: Path) -> str:
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(module: Path) -> Iterator[str]:
    """The parts of the package that a module imports, at its top or inside functions."""
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
                yield rest.partition(".")[0]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.relative_to(PACKAGE)))
def test_a_module_imports_from_its_own_folder_and_those_to_its_left(module: Path) -> None:
    here = part_of(module)
    assert here in MAY_IMPORT, f"the order of imports says nothing of {here}"
    assert set(imported_parts(module)) - MAY_IMPORT[here] - {here} == set()


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


@pytest.mark.parametrize("module", ["anydepth", "anydepth.cli", "anydepth.config"])
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
    """The names of what a module calls while it is imported: outside of functions, decorators and defaults included."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            waiting += [*node.decorator_list, *node.args.defaults, *(default for default in node.args.kw_defaults if default)]
        else:
            waiting += ast.iter_child_nodes(node)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.relative_to(PACKAGE)))
def test_no_module_looks_at_the_machine_while_it_is_imported(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and "__name__" in ast.unparse(node.test))]
    looks = (
        r"\bcuda\b|torch\.device|environ|getenv|cpu_count|num_threads|subprocess|\bopen$|read_text|read_bytes|\bprint$|basicConfig|time\."
    )
    assert [name for name in calls_at_import(tree) if re.search(looks, name)] == []
