import shlex
from pathlib import Path

import pytest
from text.recipes.packing import pack

from anydepth.errors import AnydepthError, Interrupted, UsageError
from anydepth.messages.say import say_nothing
from anydepth.text.recipes.archives import TextFile, WantedFile
from anydepth.text.recipes.writing import (
    CorpusRecipe,
    CorpusRecord,
    Expected,
    SplitWriter,
    prepare_command,
    write_recipe,
)

RECIPE = CorpusRecipe(
    name="toy",
    languages=("de", "en"),
    wanted=[WantedFile(("a",), ("x.tgz",))],
    expected={"train": Expected(100, tolerance=0.01), "valid": Expected(1), "test": Expected(1)},
    settings={},
    packages=("no-such-package",),
)


def fill(writer: SplitWriter, files: list[TextFile], *, train: int = 1) -> None:
    for split, pairs in (("train", train), ("valid", 1), ("test", 1)):
        for number in range(pairs):
            writer.write(split, f"satz {number}", f"sentence {number}")


def write(folder: Path, **options: object) -> CorpusRecord:
    pack(folder / "x.tgz", {"a": b"a\n"})
    arguments = {"fill": fill, "say": say_nothing, "to": folder / "out"} | options
    return write_recipe(RECIPE, [folder / "x.tgz"], **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("pairs, is_met", [(98, False), (99, True), (100, True), (101, True), (102, False)])
def test_an_expectation_with_a_tolerance_is_met_up_to_it(pairs: int, is_met: bool) -> None:
    assert Expected(100, tolerance=0.01).is_met_by(pairs) == is_met


@pytest.mark.parametrize("pairs, is_met", [(99, False), (100, True), (101, False)])
def test_an_expectation_without_a_tolerance_is_exact(pairs: int, is_met: bool) -> None:
    assert Expected(100).is_met_by(pairs) == is_met


def test_a_count_within_the_tolerance_is_reported_with_what_was_expected(tmp_path: Path) -> None:
    reports: list[str] = []
    record = write(tmp_path, fill=lambda writer, files: fill(writer, files, train=99), say=reports.append)
    assert record.as_expected
    assert reports[-3:] == [
        "train: 99 pairs, as expected (about 100)",
        "valid: 1 pairs, as expected",
        "test: 1 pairs, as expected",
    ]


@pytest.mark.parametrize("kind", ["folder with a file", "file"])
def test_what_exists_is_never_overwritten(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / "mine").write_text("mine")
    with pytest.raises(UsageError, match="out exists already and would be overwritten; choose another --to"):
        write(tmp_path)
    assert (out if kind == "file" else out / "mine").read_text() == "mine"


def test_an_empty_folder_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write(tmp_path)
    assert (tmp_path / "out" / "train.de").read_text() == "satz 0\n"


@pytest.mark.parametrize("error", [Interrupted("stopped"), AnydepthError("damaged"), KeyboardInterrupt()])
def test_whatever_stops_a_recipe_leaves_nothing(tmp_path: Path, error: BaseException) -> None:
    def fail(writer: SplitWriter, files: list[TextFile]) -> None:
        fill(writer, files)
        raise error

    with pytest.raises(type(error)):
        write(tmp_path, fill=fail)
    assert [path.name for path in tmp_path.iterdir()] == ["x.tgz"]


def test_a_package_that_tells_no_version_is_recorded_so(tmp_path: Path) -> None:
    assert write(tmp_path).versions["no-such-package"] == "unknown"


def test_the_next_command_survives_a_shell(tmp_path: Path) -> None:
    words = shlex.split(prepare_command(RECIPE, Path("my texts/it's")))
    assert words == [
        *("anydepth", "prepare", "--source-lang", "de", "--target-lang", "en"),
        *("--train", "my texts/it's/train", "--valid", "my texts/it's/valid", "--test", "my texts/it's/test"),
        *("--to", "my texts/it's-prepared"),
    ]
