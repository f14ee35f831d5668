"""What several processes encode is what one encodes, and none of them stays behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anydepth.errors import AnydepthError, CorpusError
from anydepth.text import encoding_workers
from anydepth.text.corpus import PairFilter, read_blocks
from anydepth.text.encoding_process import EncodingRecipe
from anydepth.text.encoding_workers import EncodingWorkers, encode_blocks
from anydepth.text.tokenizer import train_tokenizer

RECIPE_PAIRS = [("der hund läuft", "the dog runs"), ("", "empty"), (" ", "spaces"), ("katze " * 30, "cat"), ("a", "b")]


@pytest.fixture(scope="module")
def recipe() -> EncodingRecipe:
    tokenizer = train_tokenizer(["der hund läuft", "the dog runs", "katze cat"] * 9, vocab_size=285)
    return EncodingRecipe(tokenizer, tokenizer, PairFilter(50), True, ("train.de", "train.en"))


def write_lines(folder: Path, pairs: list[tuple[str, str]]) -> Path:
    for side, language in enumerate(("de", "en")):
        (folder / f"train.{language}").write_bytes("".join(f"{pair[side]}\r\n" for pair in pairs).encode())
    return folder / "train"


def test_the_number_of_processes_does_not_show(recipe: EncodingRecipe, tmp_path: Path) -> None:
    prefix = write_lines(tmp_path, [(f"{source} {number}", target) for number in range(40) for source, target in
                                    RECIPE_PAIRS])  # fmt: skip
    found = []
    for jobs in (1, 3):
        blocks = read_blocks(prefix, "de", "en", pairs_at_once=7)
        encoded = list(encode_blocks(blocks, recipe, jobs=jobs))
        assert (
            sum(block.read for block in encoded) == 200
            and sum(block.dropped.get("too long", 0) for block in encoded) > 9
        )
        sides = [(block.source, block.target) for block in encoded]
        found.append([[(side.tokens, side.lengths.tolist()) for side in pair] for pair in sides])
    assert found[0] == found[1] and len(found[0]) == 29


def test_modules_in_the_folder_of_the_user_are_not_taken_for_those_of_python(
    recipe: EncodingRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "struct.py").write_text("raise SystemExit(7)")
    blocks = read_blocks(write_lines(tmp_path, RECIPE_PAIRS), "de", "en", pairs_at_once=1)
    monkeypatch.chdir(tmp_path)
    with EncodingWorkers(recipe, 1) as workers:
        assert len(list(workers.encode(blocks))) == 5


def test_few_blocks_are_encoded_without_processes(
    recipe: EncodingRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoding_workers, "EncodingWorkers", None)
    blocks = read_blocks(write_lines(tmp_path, RECIPE_PAIRS), "de", "en", pairs_at_once=2)
    (first, *_) = encoded = list(encode_blocks(blocks, recipe, jobs=2))
    assert len(encoded) == 3 and first.dropped == {"empty": 1}


def test_the_first_fault_of_the_text_is_told_with_its_line_whoever_found_it(
    recipe: EncodingRecipe, tmp_path: Path
) -> None:
    prefix = write_lines(tmp_path, RECIPE_PAIRS * 8)
    lines = (tmp_path / "train.en").read_bytes().split(b"\n")
    (tmp_path / "train.en").write_bytes(b"\n".join([*lines[:30], b"b\xe4d", *lines[31:35]]))
    with pytest.raises(CorpusError, match=r"train\.en line 31 is not valid UTF-8 \(byte 0xE4 at byte 2 of the line\)"):
        list(encode_blocks(read_blocks(prefix, "de", "en", pairs_at_once=3), recipe, jobs=2))
    (tmp_path / "train.en").write_bytes(b"\n".join(lines[:35]))
    with pytest.raises(CorpusError, match=r"train\.de has 40 lines but train\.en has 35"):
        list(encode_blocks(read_blocks(prefix, "de", "en", pairs_at_once=3), recipe, jobs=2))


def test_a_process_that_is_killed_is_told_and_the_others_are_ended(recipe: EncodingRecipe, tmp_path: Path) -> None:
    blocks = read_blocks(write_lines(tmp_path, RECIPE_PAIRS * 8), "de", "en", pairs_at_once=1)
    with EncodingWorkers(recipe, 2) as workers:
        encoded = workers.encode(blocks)
        next(encoded)
        workers._processes[0].kill()
        with pytest.raises(
            AnydepthError,
            match=r"^a process that encodes text was ended by signal 9; free some memory, or encode with --jobs 1$",
        ):
            list(encoded)
    assert all(process.returncode == -signal.SIGKILL for process in workers._processes)


KILLED = """
import os, sys
from pathlib import Path
from anydepth.text.encoding_process import EncodingRecipe
from anydepth.text.encoding_workers import EncodingWorkers
from anydepth.text.tokenizer import Tokenizer
tokenizer = Tokenizer.load(Path(sys.argv[1]))
with EncodingWorkers(EncodingRecipe(tokenizer, tokenizer, None, True, ("a", "b")), 2) as workers:
    print(*(process.pid for process in workers._processes), flush=True)
    os.kill(os.getpid(), 9)
"""


def test_processes_end_when_the_one_that_started_them_is_killed(recipe: EncodingRecipe, tmp_path: Path) -> None:
    recipe.source.save(tmp_path / "model")
    command = [sys.executable, "-c", KILLED, str(tmp_path / "model")]
    killed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    running = [int(number) for number in killed.stdout.split()]
    assert len(running) == 2
    deadline = time.monotonic() + 120
    while any(is_running(number) for number in running) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_running(number) for number in running)


def is_running(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{number}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"  # nobody may wait for it here
