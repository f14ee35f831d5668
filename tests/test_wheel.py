"""The wheel alone, without a clone and in an empty folder: the demo and every example of --help,
with and without a compiler."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.commands import done
from cli.parsing import VERBS
from text.recipes.packing import iwslt_files, pack, text, wmt_archives

from anydepth.config.shipped import shipped_files

ROOT = Path(__file__).parents[1]
pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

# The shipped settings of the installed copy are made this small, so that the commands as printed
# end soon.
SMALL = """
[model]
blocks = 6
heads = 2
classifiers = "tied"
dropout = 0.0
[model.encoder]
blocks = 1
dim = 8
ffn_dim = 8
[model.decoder]
dim = 8
ffn_dim = 8
[training]
updates = 4
batch_tokens = 1000
[validation]
sentences = 0
[decoding]
beam = 1
length_ratio = 0.1
length_offset = 4
"""
SMALL_EXITS = '[exits]\nhalting = "geometric"\n[training]\nupdates = 4\n'
# What these add to an example whose work takes hours whatever the settings are.
SHORTER = {
    "anydepth study all --data runs/demo/data --to studies/demo": " --dry-run",
    "anydepth study figure3": " --dry-run",
    "anydepth study race": " --dry-run",
    "anydepth adopt": " --help",  # of a folder that another program has made
    "anydepth export runs/opus": " --help",
    "anydepth bench runs/fast": " --help",
    "anydepth serve": " --help",  # which never ends, and needs an extra that the wheel alone does not bring
}
# What an example finds in place because a longer one that was made shorter did not leave it.
BEFORE = {"anydepth study-step": "anydepth study table1 --data runs/demo/data --to studies/demo"}
# The order in which a newcomer would go; what others made is there when it is needed.
ORDER = ["demo", "corpus", "prepare", "train", "study", "study-step", "report", *VERBS]


def help_examples(verb: str) -> list[str]:
    """The commands at the end of a verb's help."""
    shown = done(*verb.split(), "--help").out
    return [line.strip() for line in shown.rpartition("Example")[2].splitlines()[1:]]


def all_examples() -> list[str]:
    """The examples of every verb, in an order in which each finds what it needs."""
    return [command for verb in dict.fromkeys(ORDER) for command in help_examples(verb)]


def build(folder: Path, environment: dict[str, str]) -> Path:
    """The wheel of a copy of the sources, built with what the present environment has."""
    sources = folder / "sources"
    shutil.copytree(ROOT / "anydepth", sources / "anydepth", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources / name)
    shutil.copytree(ROOT / "tests" / "cli", sources / "tests" / "cli")  # which must not come into the wheel
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, sources],
        check=True,
        env=environment,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> dict[str, str]:
    """The environment in which the command is the wheel's, and everything that it imports the
    present one's; no clone is in reach."""
    options = ["--quiet", "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(wheel)], check=True)
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    return os.environ | {"PYTHONPATH": str(folder), "PATH": path, "OMP_NUM_THREADS": "1"}


def shell(command: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What a command as printed does in `folder`."""
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"), dict(os.environ))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """An empty folder, and the environment with the wheel and small settings in it."""
    environment = install(wheel, tmp_path_factory.mktemp("installed"))
    shrink(Path(environment["PYTHONPATH"]))
    yield tmp_path_factory.mktemp("empty"), environment


def shrink(site: Path) -> None:
    for shipped in shipped_files().values():
        file = site / shipped.relative_to(ROOT)
        file.write_text(SMALL_EXITS if "exits" in file.stem else SMALL, encoding="utf-8")


def test_the_wheel_has_the_package_and_its_settings_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {str(file.relative_to(ROOT)) for file in shipped_files().values()} <= set(names)
    pages = [*(ROOT / "anydepth/report").glob("templates/*"), *(ROOT / "anydepth/report").glob("assets/*")]
    assert len(pages) >= 4 and {str(file.relative_to(ROOT)) for file in pages} <= set(names)
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"anydepth"}
    assert any("/_native." in name and not name.endswith(".pyi") for name in names)


def test_the_demo_and_every_example_of_every_help_run_as_printed_in_an_empty_folder(
    installed: tuple[Path, dict[str, str]],
) -> None:
    folder, environment = installed
    where = shell("python -c 'import anydepth; print(anydepth.__file__)'", folder, environment).stdout
    assert where.startswith(environment["PYTHONPATH"]), "the wheel's package, not the clone's"
    make_archives(folder)
    ran, failed = [], {}
    for command in all_examples():
        ran += [setup for start, setup in BEFORE.items() if command.startswith(start)]
        ran.append(command + next((words for start, words in SHORTER.items() if command.startswith(start)), ""))
    for command in ran:
        outcome = shell(command, folder, environment)
        if outcome.returncode != 0 or "Traceback" in outcome.stderr:
            failed[command] = outcome.stderr[-2000:]
    assert failed == {}
    assert len(ran) > len(VERBS)


def make_archives(folder: Path) -> None:
    """Small archives under the names that the examples of `anydepth data` have."""
    pairs = [(f"Das ist Satz {number} .", f"This is sentence {number} .") for number in range(300)]
    pack(folder / "de-en.tgz", iwslt_files(pairs))
    wmt_archives(folder / "downloads", [pairs] * 5, pairs[:2])
    shutil.copytree(folder / "downloads", folder / "others")
    (folder / "others" / "training-giga-fren.tar").rename(folder / "training-giga-fren.tar")
    raw = folder / "dataset" / "data" / "task1" / "raw"
    raw.mkdir(parents=True)
    archives = {"train": "training", "val": "validation", "test2016": "mmt16_task1_test"}
    for stem, archive in archives.items():
        files = {
            f"{stem}.{language}": text([pair[side] for pair in pairs]) for side, language in enumerate(("de", "en"))
        }
        pack(folder / f"{archive}.tar.gz", files)
        for name, contents in files.items():
            (raw / name.replace("test2016", "test_2016_flickr")).write_bytes(contents)


def test_without_a_compiler_the_wheel_is_built_all_the_same_and_runs_the_demo_on_the_torch_engine(
    tmp_path: Path,
) -> None:
    nothing = str(tmp_path / "no-such-compiler")
    (tmp_path / "wheel").mkdir()
    wheel = build(tmp_path / "wheel", os.environ | {"CC": nothing, "CXX": nothing})
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith((".so", ".pyd"))]
    environment = install(wheel, tmp_path / "installed")
    shrink(tmp_path / "installed")
    (tmp_path / "empty").mkdir()
    outcome = shell("anydepth demo --to runs/demo", tmp_path / "empty", environment)
    assert outcome.returncode == 0, outcome.stderr[-2000:]
    assert "torch tokens/s" in outcome.stdout and "native" not in outcome.stdout
    translated = shell(
        "echo 'Anna kommt an.' | anydepth translate runs/demo/exits --average-exit 2", tmp_path / "empty", environment
    )
    assert translated.returncode == 0 and len(translated.stdout.splitlines()) == 1
