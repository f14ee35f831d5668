"""`anydepth vocabulary`: it learns, measures and stores what later commands use; the wrong text is
refused before any work."""

import json
import shutil
from pathlib import Path

import pytest
from cli.commands import Outcome, anydepth, assert_refused, contents, done

TABLE = ["--size", 3, "--size", 40, "--rounds", 2, "--frequent", 5, "--beam", 1]


@pytest.fixture(scope="module")
def checked(run: Path, held_out: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """A run with a checked table, and what the command said."""
    folder = shutil.copytree(run, tmp_path_factory.mktemp("runs") / "checked")
    return folder, done("vocabulary", folder, "--valid", held_out, *TABLE, "--tolerance", 100)


def test_the_table_shows_every_size_and_the_chosen_one(checked: tuple[Path, Outcome]) -> None:
    head, full, *selected, default, recipe = checked[1].out.splitlines()
    assert head.split()[:3] == ["vocabulary", "BLEU", "words"]
    assert full.split()[0] == "full" and full.endswith("100.0     100.00          9 of 9")
    assert [row.split()[0] for row in selected] == ["table:3", "table:40"]
    words = [int(row.split()[2]) for row in (full, *selected)]
    assert words[1] <= words[2] < words[0]
    assert default == "default  table:3, the fewest words within 100 BLEU of all words"
    assert recipe.startswith("recipe   full depth | valid ")


def test_later_commands_use_what_was_chosen(checked: tuple[Path, Outcome], text: Path) -> None:
    folder, _ = checked
    assert json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))["chosen"] == "table:3"
    line = "der hund läuft\n".encode()
    translate = ["translate", folder, "--json", "--beam", 1]
    chosen, full, named = (
        json.loads(done(*translate, *more, stdin=line).out)
        for more in ([], ["--vocabulary", "full"], ["--vocabulary", "table:40"])
    )
    assert chosen["words"] <= named["words"] < full["words"] == 310
    test = ["evaluate", folder, "--test", text / "test", "--beam", 1]
    assert " | vocabulary table:3 (" in done(*test).out
    assert " | vocabulary full |" in done(*test, "--vocabulary", "full").out
    (result,) = json.loads(done(*test, "--json").out)["results"]
    assert result["vocabulary"] == "table:3" and 0 < result["words"] < 310
    assert done("check", folder).code == 0


def test_no_selection_is_chosen_where_all_cost_too_much(own_run: Path, held_out: Path) -> None:
    outcome = done("vocabulary", own_run, "--valid", held_out, "--size", 1, "--frequent", 2, "--beam", 1)
    stored = json.loads((own_run / "vocabulary.json").read_text(encoding="utf-8"))
    full, selected = stored["measured"]
    assert selected["words"] < full["words"] and selected["selection"] and not full["selection"]
    is_chosen = selected["bleu"] >= full["bleu"] - 0.1
    assert stored["chosen"] == ("table:1" if is_chosen else None)
    assert ("default  full: no selection is within 0.1 BLEU of all words" in outcome.out) == (not is_chosen)


def test_a_learned_selection_is_trained_and_checked(own_run: Path, held_out: Path) -> None:
    options = ["--learned", "--updates", 30, "--size", 0.5, "--frequent", 5, "--beam", 1, "--json"]
    outcome = done("vocabulary", own_run, "--valid", held_out, *options)
    found = json.loads(outcome.out)
    full, learned = found["measured"]
    assert learned["vocabulary"] == "learned:0.5" and learned["words"] < full["words"]
    assert learned["coverage"] > 0.9, "all words of this language were seen"
    assert "training a word selection on 60 of 60 pairs, at most 30 updates or 10 minutes" in outcome.err
    line = json.loads(done("translate", own_run, "--vocabulary", "learned:0.9", "--json", stdin=b"hund\n").out)
    assert line["words"] < 310


def test_a_second_kind_competes_with_the_first_where_both_were_measured_alike(
    checked: tuple[Path, Outcome], held_out: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(checked[0], tmp_path / "both")
    training = ["--learned", "--updates", 1, "--size", 0.5, "--frequent", 100]
    found = json.loads(
        done("vocabulary", folder, "--valid", held_out, *training, "--beam", 1, "--tolerance", 100, "--json").out
    )
    assert [each["vocabulary"] for each in found["measured"]] == ["full", "learned:0.5", "table:3", "table:40"]
    assert found["chosen"] == min(found["measured"], key=lambda each: each["words"])["vocabulary"]
    other = json.loads(done("vocabulary", folder, "--valid", held_out, *training, "--beam", 2, "--json").out)
    assert [each["vocabulary"] for each in other["measured"]] == ["full", "learned:0.5"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--size", 0], ["--vocabulary table:0: the number of words"]),
        (["--size", 0.5], ["--vocabulary table:0.5: the number of words"]),
        (["--learned", "--size", 50], ["--vocabulary learned:50: the probability"]),
    ],
)
def test_sizes_that_cannot_be_are_refused_before_any_work(
    own_run: Path, held_out: Path, options: list[object], words: list[str]
) -> None:
    before = contents(own_run)
    assert_refused(anydepth("vocabulary", own_run, "--valid", held_out, *options), *words)
    assert contents(own_run) == before


def test_text_that_is_empty_or_was_trained_on_is_refused_before_any_work(
    own_run: Path, text: Path, tmp_path: Path
) -> None:
    before = contents(own_run)
    assert_refused(
        anydepth("vocabulary", own_run, "--valid", text / "train"),
        "60 of the 60 pairs of",
        "whose words a selection knows already; give held-out text",
    )
    for language in ("de", "en"):
        (tmp_path / f"empty.{language}").write_text("\n", encoding="utf-8")
    assert_refused(anydepth("vocabulary", own_run, "--valid", tmp_path / "empty"), "has no sentences")
    assert contents(own_run) == before


def test_what_a_run_lacks_and_what_is_misspelt_is_refused_in_one_sentence(run: Path) -> None:
    assert_refused(anydepth("translate", run, "--vocabulary", "table", stdin=b"hund\n"), "has no lexical table")
    assert_refused(anydepth("translate", run, "--vocabulary", "lerned", stdin=b"hund\n"), "did you mean learned?")
