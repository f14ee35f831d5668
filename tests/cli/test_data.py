"""data: from archives to text that prepare takes, in commands as a user gives them."""

import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli.commands import ROOT, anydepth, assert_refused, done, finish, start
from cli.parsing import anydepth_commands, check_arguments
from text.recipes.packing import iwslt_files, pack, text, wmt_archives

from anydepth.text.prepared import PreparedData

PAIRS = [(f"Der Hund läuft {number} Meter.", f"The dog runs {number} metres.") for number in range(1, 60)]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A small de-en.tgz."""
    return pack(tmp_path / "de-en.tgz", iwslt_files(PAIRS))


def prepared(command: str) -> PreparedData:
    """The data that the printed command makes, with a vocabulary as small as the text."""
    program, *words = shlex.split(command)
    assert program == "anydepth"
    words[words.index("--vocab-size") + 1] = "300"
    done(*words)
    return PreparedData.open(Path(words[words.index("--to") + 1]))


def test_iwslt14_ends_with_the_command_that_prepares_it(archive: Path, tmp_path: Path) -> None:
    outcome = done("data", "iwslt14", "--archive", archive, "--to", tmp_path / "out")
    (command,) = outcome.out.splitlines()
    assert "--vocab-size 10000" in command
    talk = outcome.err.splitlines()
    assert talk[0] == "looking through de-en.tgz"
    assert talk[-3].startswith("warning: train: 57 pairs, but 160,239 were expected")
    ready = prepared(command)
    assert {split: counts.pairs for split, counts in ready.manifest.splits.items()} == {
        "train": 57,
        "valid": 2,
        "test": 5,
    }
    assert ready.references("valid")[1] == ["the dog runs 23 metres .", "the dog runs 46 metres ."]


def test_iwslt14_keeps_case_and_uses_several_processes_where_asked(archive: Path, tmp_path: Path) -> None:
    done("data", "iwslt14", "--archive", archive, "--to", tmp_path / "out", "--keep-case", "--jobs", 2)
    assert (tmp_path / "out" / "train.de").read_text(encoding="utf-8").startswith("Der Hund läuft 1 Meter .\n")


def test_wmt14_takes_a_folder_of_archives_and_a_limit(tmp_path: Path) -> None:
    pairs = [(f"It runs {number} metres.", f"Il court {number} mètres.") for number in range(270)]
    downloads = wmt_archives(tmp_path / "downloads", [pairs] * 5, [("It’s it.", "C’est ça.")])  # noqa: RUF001
    outcome = done("data", "wmt14-en-fr", "--archive", downloads, "--to", tmp_path / "out", "--max-words", 5)
    assert "--source-lang en --target-lang fr" in outcome.out
    assert "--vocab-size 44000" in outcome.out
    assert prepared(outcome.out).manifest.splits["train"].pairs == 1349


def test_multi30k_takes_several_archives(tmp_path: Path) -> None:
    options: list[object] = []
    for name, stem in (("training", "train"), ("validation", "val"), ("mmt16_task1_test", "test2016")):
        sides = {
            f"{stem}.{language}": text([pair[side] for pair in PAIRS]) for side, language in enumerate(("en", "fr"))
        }
        options += ["--archive", pack(tmp_path / f"{name}.tar.gz", sides)]
    outcome = done("data", "multi30k", *options, "--to", tmp_path / "out", "--source-lang", "fr", "--target-lang", "en")
    assert prepared(outcome.out).references("test") == ([pair[1] for pair in PAIRS], [pair[0] for pair in PAIRS])


def test_a_damaged_archive_ends_in_one_sentence_with_code_1(archive: Path, tmp_path: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-400])
    outcome = anydepth("data", "iwslt14", "--archive", archive, "--to", tmp_path / "out")
    assert_refused(outcome, "de-en.tgz is cut short, damaged or no tar archive; download it again", code=1)
    assert list(tmp_path.iterdir()) == [archive]


def test_missing_files_and_an_occupied_folder_end_with_code_2(archive: Path, tmp_path: Path) -> None:
    outcome = anydepth("data", "wmt14-en-fr", "--archive", archive, "--to", tmp_path / "out")
    assert_refused(outcome, "lacks europarl-v7.fr-en.en (training-parallel-europarl-v7.tgz)", "(test-full.tgz)")
    assert_refused(
        anydepth("data", "iwslt14", "--archive", archive, "--to", tmp_path), "exists already and would be overwritten"
    )


def test_without_sacremoses_the_cure_is_named_and_multi30k_still_works(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    for recipe in ("iwslt14", "wmt14-en-fr"):
        refused = anydepth("data", recipe, "--archive", archive, "--to", tmp_path / "out")
        assert_refused(refused, "needs the package sacremoses; get it with `pip install 'anydepth[recipes]'`")
    raw = tmp_path / "raw"
    raw.mkdir()
    for name in ("train", "val", "test_2016_flickr"):
        for language in ("de", "en"):
            (raw / f"{name}.{language}").write_bytes(b"x\n")
    done("data", "multi30k", "--archive", raw, "--to", tmp_path / "out")


def test_the_commands_of_the_documentation_parse() -> None:
    blocks = (ROOT / "docs" / "data.md").read_text(encoding="utf-8").split("```")[1::2]
    commands = [arguments for block in blocks for arguments in anydepth_commands(block.removeprefix("bash\n"))]
    assert {tuple(arguments[:2]) for arguments in commands} >= {
        ("data", name) for name in ("iwslt14", "wmt14-en-fr", "multi30k")
    }
    for arguments in commands:
        check_arguments(arguments)


def test_help_does_not_load_sacremoses() -> None:
    program = (
        "import sys, anydepth.cli.data; print([name for name in ('sacremoses', 'numpy', 'torch') if name in "
        "sys.modules])"
    )
    loaded = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert loaded.stdout == "[]\n"


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_leaves_nothing(tmp_path: Path, jobs: int) -> None:
    archive = pack(tmp_path / "de-en.tgz", iwslt_files(PAIRS * 2000))
    process = start(
        *("data", "iwslt14", "--archive", archive, "--to", tmp_path / "out", "--jobs", jobs),
        before=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while process.poll() is None and not (tmp_path / ".out.tmp").exists():
        time.sleep(0.02)
    time.sleep(0.2 * jobs)
    process.send_signal(signal.SIGINT)
    outcome = finish(process)
    assert (outcome.code, outcome.out) == (130, "")
    assert outcome.err.splitlines()[-1].startswith("stopped;")
    assert "Traceback" not in outcome.err
    assert list(tmp_path.iterdir()) == [archive]
