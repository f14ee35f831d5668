"""README.md and the pages that continue it do what they say: their shell blocks run in order, line
by line, with tiny budgets, and so do their Python blocks.

Lines stay as they are. What shrinks is the built-in corpus, the shipped settings and the budgets
that a line names.
"""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from cli.commands import done
from cli.parsing import arguments_of_anydepth
from markdown_pages import DOCS, README, ROOT, SHELLS, fences, shell_text

from anydepth.config import shipped

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
SIZES = {"train": 300, "valid": 8, "test": 12}
TINY_MODEL = {"heads": 2, "encoder": {"blocks": 1, "dim": 8, "ffn_dim": 8}, "decoder": {"dim": 8, "ffn_dim": 8}}
TINY_TRAINING = {"updates": 3, "batch_tokens": 300, "warmup": 2, "save_every": 1, "average": 1, "precision": "float32"}
TINY_DECODING = {"beam": 2, "length_ratio": 0.2, "length_offset": 2}
QUICK = {"tune": ["--candidates", "20"], "bench": ["--rounds", "1", "--sentences", "4", "--batch", "2"]}
# The verbs that `make test` runs.
SECONDS = {
    "corpus",
    "prepare",
    "train",
    "evaluate",
    "translate",
    "tune",
    "plot",
    "export",
    "configs",
    "check",
    "seal",
    "vocabulary",
}
# The pages whose commands follow each other in one folder; those about Multi30k use the same names
# for other folders.
BUILT_IN = (README, DOCS / "training.md", DOCS / "translating.md", DOCS / "study.md")
MULTI30K = (DOCS / "results.md",)


def blocks(*pages: Path) -> list[tuple[str, str]]:
    """The blocks that can be run, "sh" or "python" and the text; those that set up with make are
    the Makefile's."""
    found = [(kind.strip(), text) for page in pages for kind, text in fences(page.read_text(encoding="utf-8"))]
    runnable = [
        ("python" if kind == "python" else "sh", shell_text(kind, text))
        for kind, text in found
        if kind in (*SHELLS, "python")
    ]
    return [(kind, text) for kind, text in runnable if not text.startswith("make ")]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder where a user would have cloned to; the shipped settings are tiny."""
    (tmp_path / "shipped").mkdir()
    for name in shipped.shipped_names():
        shrunk = shrink(tomllib.loads(shipped.shipped_file(name).read_text(encoding="utf-8")))
        (tmp_path / "shipped" / f"{name}.toml").write_text(tomli_w.dumps(shrunk), encoding="utf-8")
    monkeypatch.setattr(shipped, "FOLDERS", (tmp_path / "shipped",))
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").touch()
    monkeypatch.setattr("anydepth.demo.corpus.SPLIT_SIZES", SIZES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shrink(settings: dict[str, Any]) -> dict[str, Any]:
    """The same settings with small sizes and budgets; a second stage, which has no model of its
    own, gets none."""
    shrunk = {name: dict(section) for name, section in settings.items()}
    shrunk["training"] = {**shrunk.get("training", {}), **TINY_TRAINING}
    shrunk["training"].pop("minutes", None)
    shrunk["validation"] = {"every": 3, "sentences": 0}
    if "model" in shrunk:
        shrunk["model"] |= TINY_MODEL
        shrunk["decoding"] = TINY_DECODING
    if "exits" in shrunk:
        shrunk["exits"]["halting_units"] = min(4, shrunk["exits"].get("halting_units", 0))
    return shrunk


def run_line(line: str, *, verbs: set[str] | None) -> list[str]:
    """Does what a line says, and gives the verbs that it ran; `anydepth` runs in this process,
    everything else in a shell."""
    before, is_piped, last = line.rpartition(" | ")
    arguments = arguments_of_anydepth(shlex.split(last, comments=True))
    if arguments is None:
        subprocess.run(["bash", "-ec", line], check=True)
        return []
    if verbs is not None and arguments[0] not in verbs:
        return []
    words, source, target = redirected(arguments)
    piped = subprocess.run(["bash", "-ec", before], check=True, stdout=subprocess.PIPE).stdout if is_piped else b""
    outcome = done(*affordable(words), stdin=Path(source).read_bytes() if source else piped)
    if target:
        Path(target).write_text(outcome.out, encoding="utf-8")
    return [words[0]]


def redirected(words: list[str]) -> tuple[list[str], str | None, str | None]:
    """The words without `< file` and `> file`, and the two files."""
    rest, files = [], {"<": None, ">": None}
    iterator = iter(words)
    for word in iterator:
        if word in files:
            files[word] = next(iterator)
        else:
            rest.append(word)
    return rest, files["<"], files[">"]


def affordable(words: list[str]) -> list[str]:
    """The arguments of a command with tiny budgets in the place of those that it names."""
    changed = [re.sub(r"^(training\.(?:updates|warmup|save_every))=.*", r"\1=2", word) for word in words]
    for option, value in (("--vocab-size", "400"), ("--minutes", "1")):
        if option in changed:
            changed[changed.index(option) + 1] = value
    if changed[0] == "study" and "--dry-run" not in changed:
        first_option = next(place for place, word in enumerate(changed) if word.startswith("--"))
        # two runs instead of up to 56; test_study.py and the plan's tests have the others
        changed[1:first_option] = ["figures6-9"]
    return [*changed, *QUICK.get(changed[0], [])]


def lines_of(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip() and not line.startswith("#"):
            yield line


def run_blocks(found: list[tuple[str, str]], *, verbs: set[str] | None = None) -> list[str]:
    """Runs every block, and gives the verbs that were run and "python" for a Python block."""
    ran = []
    for kind, text in found:
        if kind == "python":
            # As a user would, in a process of its own.
            said = subprocess.run(
                [sys.executable, "-W", "error", "-c", text], check=True, env=ENVIRONMENT, stdout=subprocess.PIPE
            ).stdout
            assert len(said.splitlines()) == text.count("print("), said
            ran.append("python")
        else:
            ran += [verb for line in lines_of(text) for verb in run_line(line, verbs=verbs)]
    return ran


def test_what_takes_seconds_runs_as_the_readme_says(place: Path) -> None:
    ran = run_blocks(blocks(README), verbs=SECONDS)
    assert set(ran) >= {"corpus", "prepare", "train", "evaluate", "translate", "tune", "python"}
    assert len((place / "translated.en").read_text(encoding="utf-8").splitlines()) == SIZES["test"]
    ran = run_blocks(blocks(*BUILT_IN[1:]), verbs=SECONDS - {"train"})
    assert set(ran) >= {"configs", "check", "seal", "evaluate", "translate", "plot", "export", "python"}
    assert len((place / "translated.jsonl").read_text(encoding="utf-8").splitlines()) == SIZES["test"]


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("pages", [BUILT_IN, MULTI30K], ids=["built-in corpus", "Multi30k"])
def test_every_command_runs_as_the_pages_say(place: Path, pages: tuple[Path, ...]) -> None:
    if pages is MULTI30K:
        done("corpus", "--to", place / "multi30k")
        text = [f"--{split} multi30k/{split}" for split in SIZES]
        done(
            *f"prepare --source-lang de --target-lang en {' '.join(text)} --vocab-size 400 --to runs/demo/data".split()
        )
    found = blocks(*pages)
    ran = run_blocks(found)
    written = [
        line
        for kind, text in found
        if kind == "sh"
        for line in lines_of(text)
        if re.search(r"\banydepth ", line.partition("#")[0])
    ]
    assert len([verb for verb in ran if verb != "python"]) == len(written) > 0
