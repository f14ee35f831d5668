"""prepare refuses text that it cannot use in one sentence, and leaves nothing behind."""

import gzip
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.commands import Outcome, anydepth, assert_refused, contents, done, finish, start
from cli.conftest import options_for_prepare

from anydepth.text.prepared import PreparedData


def prepare(text: Path, *options: object) -> Outcome:
    return anydepth("prepare", *options_for_prepare(text, text / "data"), *options)


def one_line_more(text: Path) -> None:
    with open(text / "train.de", "a", encoding="utf-8") as file:
        file.write("hund\n")


def third_line_in_latin_1(text: Path) -> None:
    lines = (text / "train.en").read_bytes().split(b"\n")
    lines[2] = "caf\u00e9 today".encode("latin-1")
    (text / "train.en").write_bytes(b"\n".join(lines))


def no_lines(text: Path) -> None:
    for language in ("de", "en"):
        (text / f"train.{language}").write_bytes(b"")


def blank_targets(text: Path) -> None:
    (text / "train.en").write_text(" \n" * 60, encoding="utf-8")


def no_target_file(text: Path) -> None:
    (text / "train.en").unlink()


def half_a_gzip_file(text: Path) -> None:
    packed = gzip.compress((text / "train.en").read_bytes())
    (text / "train.en.gz").write_bytes(packed[: len(packed) // 2])
    (text / "train.en").unlink()


def short_validation_set(text: Path) -> None:
    (text / "valid.en").write_text("the\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (one_line_more, ["train.de has 61 lines but train.en has 60"]),
        (third_line_in_latin_1, ["train.en line 3 is not valid UTF-8", "0xE9 at byte 4"]),
        (no_lines, ["train.de and ", "train.en are empty"]),
        (blank_targets, ["all 60 pairs", "empty 60", "raise --max-tokens and --max-ratio"]),
        (no_target_file, ["there is neither ", "train.en.gz"]),
        (half_a_gzip_file, ["train.en.gz is truncated or not gzip"]),
        (short_validation_set, ["valid.de has 6 lines but valid.en has 1"]),
    ],
)
def test_text_that_cannot_be_used_is_refused_by_name(
    own_text: Path, spoil: Callable[[Path], None], words: list[str]
) -> None:
    spoil(own_text)
    before = contents(own_text)
    assert_refused(prepare(own_text), *words)
    assert contents(own_text) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--vocab-size", 5000], ["5,000 pieces", "the largest possible is ", "; set --vocab-size to "]),
        (["--vocab-size", 20], ["20 pieces", "the smallest possible is ", "; set --vocab-size to "]),
        (["--target-lang", "de"], ["error: --source-lang and --target-lang are both 'de'"]),
        (["--max-tokens", 0], ["error: --max-tokens 0 would drop"]),
        (["--sample", 0], ["error: --sample 0 leaves"]),
        (["--max-ratio", 0.5], ["error: --max-ratio 0.5 would drop"]),
        (["--source-lang", "../de"], ["error: --source-lang '../de': a language is"]),
    ],
)
def test_options_that_cannot_be_met_are_refused_with_their_bound(
    own_text: Path, options: list[object], words: list[str]
) -> None:
    before = contents(own_text)
    assert_refused(prepare(own_text, *options), *words)
    assert contents(own_text) == before


def test_prepared_data_is_replaced_only_on_demand(own_text: Path) -> None:
    assert prepare(own_text).code == 0
    before = contents(own_text / "data")
    assert_refused(
        prepare(own_text, "--vocab-size", 300),
        "already holds prepared data",
        "choose another --to, or replace it with --overwrite",
    )
    assert contents(own_text / "data") == before
    assert prepare(own_text, "--vocab-size", 300, "--overwrite").code == 0
    assert PreparedData.open(own_text / "data").source_tokenizer.size == 300


def test_a_folder_of_something_else_is_never_replaced(own_text: Path) -> None:
    (own_text / "data").mkdir()
    (own_text / "data" / "diary.txt").write_text("dear diary", encoding="utf-8")
    assert_refused(prepare(own_text, "--overwrite"), "is not prepared data")
    assert contents(own_text / "data") == {"diary.txt": b"dear diary"}


def test_a_failure_on_the_way_keeps_the_old_data(own_text: Path) -> None:
    done("prepare", *options_for_prepare(own_text, own_text / "data"))
    before = contents(own_text / "data")
    one_line_more(own_text)
    assert_refused(prepare(own_text, "--overwrite"), "train.de has 61 lines")
    assert contents(own_text / "data") == before
    assert not [path for path in own_text.iterdir() if path.name.startswith(".")]


def test_ctrl_c_ends_the_learning_of_a_vocabulary_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    randomness = random.Random(1)
    words = [
        "".join(randomness.choices("abcdefghijklmnopqrstuvwxyz", k=randomness.randint(4, 14))) for _ in range(200_000)
    ]
    for split, lines in (
        ("train", 20_000),
        ("valid", 2),
    ):  # so many different words that their pieces take a minute and more to learn
        for language in ("de", "en"):
            text = "".join(" ".join(randomness.choices(words, k=30)) + "\n" for _ in range(lines))
            (tmp_path / f"{split}.{language}").write_text(text, encoding="utf-8")
    before = contents(tmp_path)
    process = start(
        "prepare", *options_for_prepare(tmp_path, tmp_path / "data")[:-3], 30_000, "--to", tmp_path / "data"
    )
    assert process.stderr is not None
    assert b"learning 30,000 pieces" in process.stderr.readline()
    time.sleep(1.5)
    assert process.poll() is None, "still at it"
    process.send_signal(signal.SIGINT)
    asked = time.monotonic()
    outcome = finish(process)
    assert time.monotonic() - asked < 15
    assert (outcome.code, outcome.err) == (130, "stopped; finished files stay and nothing half-written is left\n")
    assert contents(tmp_path) == before
