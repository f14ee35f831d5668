"""plot: pictures of tokens, trade-offs, positions and scores; what cannot be drawn is refused and
leaves nothing."""

from pathlib import Path

import pytest
from cli.commands import anydepth, assert_refused, contents, done
from cli.conftest import Tuned

BEGINNINGS = {".png": b"\x89PNG\r\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}
SENTENCE = "der hund läuft und katze schläft gern"


@pytest.fixture(scope="module")
def evaluation(exits_run: Path, text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `evaluate --json` printed, in a file."""
    file = tmp_path_factory.mktemp("evaluation") / "evaluation.json"
    out = done(
        "evaluate", exits_run, "--test", text / "test", "--each-exit", "--policy", "geometric", "--beam", 1, "--json"
    ).out
    file.write_text(out, encoding="utf-8")
    return file


def assert_drawn(picture: Path) -> None:
    """There is a picture of the kind that its name says, and nothing else beside it."""
    assert picture.read_bytes().startswith(BEGINNINGS[picture.suffix])
    assert picture.stat().st_size > 3000
    assert list(picture.parent.iterdir()) == [picture]


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_tokens_are_drawn_and_the_translation_is_printed(exits_run: Path, tmp_path: Path, suffix: str) -> None:
    outcome = done(
        "plot", "tokens", exits_run, SENTENCE, "--to", tmp_path / f"tokens{suffix}", "--policy", "uniform", "--beam", 1
    )
    assert outcome.out == done("translate", exits_run, "--policy", "uniform", "--beam", 1, stdin=SENTENCE.encode()).out
    assert outcome.err == ""
    assert_drawn(tmp_path / f"tokens{suffix}")


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_a_trade_off_is_drawn_from_evaluations_and_operating_points(
    evaluation: Path, tuned: Tuned, tmp_path: Path, suffix: str
) -> None:
    outcome = done(
        "plot", "tradeoff", evaluation, tuned.run / "operating_points.json", "--to", tmp_path / f"tradeoff{suffix}"
    )
    assert (outcome.out, outcome.err) == ("", "")
    assert_drawn(tmp_path / f"tradeoff{suffix}")


def test_either_file_alone_is_enough_and_the_pictures_differ(evaluation: Path, tuned: Tuned, tmp_path: Path) -> None:
    done("plot", "tradeoff", evaluation, "--to", tmp_path / "one.svg")
    done("plot", "tradeoff", tuned.run / "operating_points.json", "--to", tmp_path / "two.svg")
    done("plot", "tradeoff", evaluation, "--to", tmp_path / "again.svg")
    one, two, again = ((tmp_path / f"{name}.svg").read_bytes() for name in ("one", "two", "again"))
    assert one != two
    assert one == again, "the same figures make the same bytes"


@pytest.mark.parametrize("verb", ["positions", "scores"])
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_positions_and_scores_are_drawn_from_a_test_set(
    exits_run: Path, text: Path, tmp_path: Path, verb: str, suffix: str
) -> None:
    picture = tmp_path / f"{verb}{suffix}"
    outcome = done(
        "plot", verb, exits_run, "--test", text / "test", "--to", picture, "--policy", "uniform:4", "--beam", 1
    )
    assert (outcome.out, outcome.err) == ("", "translating 8 sentences with uniform:seed=4\n")
    assert_drawn(picture)


def test_a_wish_chooses_what_is_drawn(tuned: Tuned, text: Path, tmp_path: Path) -> None:
    shallow = min(tuned.points, key=lambda point: point.average_exit)
    wish = ["--average-exit", round(shallow.average_exit + 0.001, 3), "--beam", 1]
    said = f"--average-exit {wish[1]:g}: {shallow.policy} "
    outcomes = [
        done("plot", "tokens", tuned.run, SENTENCE, "--to", tmp_path / "x.svg", *wish),
        done("plot", "positions", tuned.run, "--test", text / "test", "--to", tmp_path / "x.svg", *wish),
        done("plot", "scores", tuned.run, "--test", text / "test", "--to", tmp_path / "x.svg", *wish),
    ]
    assert [outcome.err.startswith(said) for outcome in outcomes] == [True, True, True]


@pytest.mark.parametrize("name", ["x.gif", "x", "x.png.gz", "no/folder/x.png"])
@pytest.mark.parametrize("verb", ["tokens", "tradeoff", "positions", "scores"])
def test_a_picture_that_cannot_be_written_is_refused_before_the_work(
    exits_run: Path, evaluation: Path, text: Path, tmp_path: Path, verb: str, name: str
) -> None:
    what = {"tokens": [exits_run, SENTENCE], "tradeoff": [evaluation]}.get(verb, [exits_run, "--test", text / "test"])
    outcome = anydepth("plot", verb, *what, "--to", tmp_path / name)
    assert_refused(outcome, str(tmp_path / name), "there is no folder" if "/" in name else ".png, .svg or .pdf")
    assert outcome.err.count("\n") == 1, "nothing was translated"
    assert contents(tmp_path) == {}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", ["is not JSON"]),
        ("[1]", ["has neither results nor sets of points"]),
        ('{"sets": []}', ["has no points"]),
        ('{"recipe": {"run": "r", "test": "t"}, "results": [{"policy": "fixed:1"}]}', ["results.0.scores", "required"]),
        (None, ["cannot read", "No such file"]),
    ],
)
def test_a_file_of_measurements_that_cannot_be_used_is_named_and_nothing_is_drawn(
    evaluation: Path, tmp_path: Path, content: str | None, words: list[str]
) -> None:
    file = tmp_path / "measured.json"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    before = contents(tmp_path)
    assert_refused(anydepth("plot", "tradeoff", evaluation, file, "--to", tmp_path / "x.png"), str(file), *words)
    assert contents(tmp_path) == before


def test_a_sentence_of_nothing_has_no_picture(exits_run: Path, tmp_path: Path) -> None:
    assert_refused(anydepth("plot", "tokens", exits_run, " ", "--to", tmp_path / "x.png"), "at least one token")
    assert contents(tmp_path) == {}


def test_a_policy_that_the_run_does_not_have_is_refused(run: Path, tmp_path: Path) -> None:
    outcome = anydepth("plot", "tokens", run, SENTENCE, "--to", tmp_path / "x.png", "--policy", "geometric")
    assert_refused(outcome, "not trained with the geometric halting module (it has none)")
    assert contents(tmp_path) == {}


def test_a_test_set_that_is_missing_is_named(exits_run: Path, tmp_path: Path) -> None:
    outcome = anydepth("plot", "scores", exits_run, "--test", tmp_path / "none", "--to", tmp_path / "x.png")
    assert_refused(outcome, f"there is neither {tmp_path / 'none.de'} nor")
    assert contents(tmp_path) == {}
