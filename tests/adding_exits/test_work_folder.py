"""The folder beside a run: begun, gone on with, refused or begun anew, and never a stranger's."""

from dataclasses import replace
from pathlib import Path

import pytest

from anydepth.adding_exits.work_folder import AdoptionRequest, WorkFolder
from anydepth.errors import AdoptionError
from anydepth.messages.say import say_nothing

REQUEST = AdoptionRequest("a model", "a text", 60.0, "trained", None, "en")


def begun(place: Path) -> WorkFolder:
    work = WorkFolder.beside(place / "run")
    work.begin(REQUEST, overwrite=False, inside={}, say=say_nothing)
    (work.folder / "something").write_text("finished", encoding="utf-8")
    return work


def test_the_same_request_goes_on_and_says_where(tmp_path: Path) -> None:
    work, said = begun(tmp_path), list[str]()
    assert work.folder == tmp_path / "run.work"
    work.begin(REQUEST, overwrite=False, inside={}, say=said.append)
    assert (work.folder / "something").exists() and work.request() == REQUEST
    assert said == [f"going on from what is finished in {work.folder}"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"source_lang": "de", "trunk": "frozen"}, "--trunk trained, no --source-lang"),
        ({"model": "other", "text": "other"}, "another DIR, another --text"),
        ({"target_lang": None}, "--target-lang en"),
    ],
)
def test_another_request_is_refused_with_what_was_begun_or_starts_anew(
    tmp_path: Path, change: dict[str, object], told: str
) -> None:
    work, other = begun(tmp_path), replace(REQUEST, **change)  # type: ignore[arg-type]
    with pytest.raises(AdoptionError, match=rf"run.work was begun with {told}; give the same arguments to go on, or"):
        work.begin(other, overwrite=False, inside={}, say=say_nothing)
    work.begin(other, overwrite=True, inside={}, say=say_nothing)
    assert [file.name for file in work.folder.iterdir()] == ["request.json"]
    assert work.request() == replace(other, replaces=True)
    assert [each.name for each in tmp_path.iterdir()] == ["run.work"]


def test_other_minutes_are_taken_until_training_has_begun(tmp_path: Path) -> None:
    work, longer = begun(tmp_path), replace(REQUEST, minutes=90.0)
    work.begin(longer, overwrite=False, inside={}, say=say_nothing)
    assert work.request() == longer and (work.folder / "something").exists()
    work.run.folder.mkdir()
    work.run.config_file.write_text("", encoding="utf-8")
    with pytest.raises(AdoptionError, match=r"run.work was begun with --minutes 90.0; give the same arguments"):
        work.begin(REQUEST, overwrite=False, inside={}, say=say_nothing)


def test_what_was_begun_to_replace_a_run_goes_on_without_being_told_again(tmp_path: Path) -> None:
    work = begun(tmp_path)
    assert not work.replaces(REQUEST)
    work.begin(REQUEST, overwrite=True, inside={}, say=say_nothing)
    assert work.replaces(REQUEST) and not work.replaces(replace(REQUEST, trunk="frozen"))
    work.begin(REQUEST, overwrite=False, inside={}, say=say_nothing)
    assert work.replaces(REQUEST)
    work.finish()
    assert not work.replaces(REQUEST) and work.request() == REQUEST


def test_a_folder_that_is_no_such_work_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run.work").mkdir()
    (tmp_path / "run.work" / "thesis.txt").write_text("mine", encoding="utf-8")
    for overwrite in (False, True):
        with pytest.raises(AdoptionError, match=r"is no work of `anydepth adopt`, so it is left alone; choose another"):
            WorkFolder.beside(tmp_path / "run").begin(REQUEST, overwrite=overwrite, inside={}, say=say_nothing)
    assert (tmp_path / "run.work" / "thesis.txt").exists()


def test_what_is_read_does_not_lie_where_the_run_is_made(tmp_path: Path) -> None:
    work = begun(tmp_path)
    with pytest.raises(AdoptionError, match=r"--text .*mono.de lies inside .*run.work, where the run is made; choose"):
        work.begin(REQUEST, overwrite=True, inside={"--text": work.folder / "mono.de"}, say=say_nothing)
    assert (work.folder / "something").exists()
