"""translate: a line out for every line in, in order, whatever the line and whatever the batches."""

import gzip
import json
from pathlib import Path

import pytest
from cli.commands import anydepth, assert_refused, done

from anydepth.inference.engines.native.native_engine import has_native

LIMIT = 40  # model.max_length of the shared run
LINES = [
    "hund läuft",
    "",
    "der hund läuft und die katze schläft",
    " \t ",
    "katze",
    "und gern",
    "schläft der hund ?",
    "xyz 12",
    "der der",
]


def as_input(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.fixture(scope="module")
def one_by_one(run: Path) -> list[str]:
    """The translation of each line when it is translated alone."""
    return [done("translate", run, stdin=as_input([line])).out.removesuffix("\n") for line in LINES]


@pytest.mark.parametrize("budget", [1, 60, 1_000_000])
def test_lines_keep_their_order_whatever_is_searched_together(run: Path, one_by_one: list[str], budget: int) -> None:
    assert done("translate", run, "--batch-tokens", budget, stdin=as_input(LINES)).out.split("\n")[:-1] == one_by_one
    assert len(set(one_by_one)) > len(LINES) // 2, "translations must differ, or order means nothing"


def test_an_empty_or_blank_line_stays_an_empty_line(one_by_one: list[str]) -> None:
    assert all(translation == "" for line, translation in zip(LINES, one_by_one, strict=True) if not line.strip())


@pytest.mark.parametrize(
    ("raw", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"\n\n", ["", ""]),
        (b"hund", ["hund"]),
        (b"hund\r\n\r\nkatze\r\n", ["hund", "", "katze"]),
        (b"\xef\xbb\xbfhund\n", ["hund"]),
        ("hund\u2028katze\x0bhund\n".encode(), ["hund\u2028katze\x0bhund"]),
    ],
    ids=["nothing", "one line end", "two line ends", "no line end", "CRLF", "byte order mark", "other separators"],
)
def test_line_ends_of_every_kind_are_counted_alike(run: Path, raw: bytes, lines: list[str]) -> None:
    out = done("translate", run, stdin=raw).out
    assert out.count("\n") == len(lines)
    assert out == done("translate", run, stdin=as_input(lines)).out


def test_a_file_a_packed_file_and_standard_input_give_the_same(run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.de").write_bytes(as_input(LINES))
    (tmp_path / "in.de.gz").write_bytes(gzip.compress(as_input(LINES)))
    piped = done("translate", run, stdin=as_input(LINES))
    assert piped.err == ""
    assert done("translate", run, "-", stdin=as_input(LINES)).out == piped.out
    assert done("translate", run, tmp_path / "in.de").out == piped.out
    assert done("translate", run, tmp_path / "in.de.gz").out == piped.out


@pytest.mark.parametrize("policy", ["fixed:1", "fixed:2", "uniform"])
def test_json_has_a_piece_an_exit_and_a_score_for_every_token(run: Path, policy: str) -> None:
    rows = [
        json.loads(line)
        for line in done("translate", run, "--json", "--policy", policy, stdin=as_input(LINES)).out.splitlines()
    ]
    assert [row["text"] for row in rows] == done("translate", run, "--policy", policy, stdin=as_input(LINES)).out.split(
        "\n"
    )[:-1]
    assert all(len(row["tokens"]) == len(row["exits"]) == len(row["scores"]) for row in rows)
    assert all(score <= 0 for row in rows for score in row["scores"])
    left = {exit for row in rows for exit in row["exits"]}
    assert left == ({1, 2, 3} if policy == "uniform" else {int(policy[-1])})
    assert [len(row["tokens"]) > 0 for row in rows] == [bool(line.strip()) for line in LINES]


def test_another_seed_draws_other_exits_and_the_same_seed_the_same(run: Path) -> None:
    def exits(policy: str) -> list[list[int]]:
        out = done("translate", run, "--json", "--policy", policy, stdin=as_input(LINES)).out
        return [json.loads(line)["exits"] for line in out.splitlines()]

    assert exits("uniform") == exits("uniform:1") == exits("uniform:seed=1")
    assert exits("uniform:2") != exits("uniform:1")


def test_best_gives_alternatives_from_the_highest_score_down(run: Path) -> None:
    row = json.loads(done("translate", run, "--json", "--best", 3, "--beam", 3, stdin=b"hund katze\n").out)
    scores = [alternative["score"] for alternative in row["alternatives"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert row["alternatives"][0]["text"] == row["text"]


def test_several_translations_a_line_need_json(run: Path) -> None:
    assert_refused(anydepth("translate", run, "--best", 2, stdin=b"hund\n"), "--best 2", "--json")


def test_a_line_beyond_the_limit_is_translated_and_named(run: Path) -> None:
    lines = ["hund", "der hund " * LIMIT, "katze"]
    outcome = done("translate", run, stdin=as_input(lines))
    assert outcome.out.count("\n") == 3
    assert outcome.out.split("\n")[1]
    (warning,) = outcome.err.splitlines()
    assert warning.startswith("warning: line 2 ")
    assert f"{LIMIT} tokens" in warning


def test_lines_before_an_invalid_one_are_answered(run: Path) -> None:
    outcome = anydepth("translate", run, stdin=b"hund\nkatze\nha\xffllo\nhund\n")
    before = done("translate", run, stdin=b"hund\nkatze\n").out
    assert_refused(outcome, "standard input line 3", "0xFF", "UTF-8", out=before)


def test_a_missing_file_is_named(run: Path, tmp_path: Path) -> None:
    assert_refused(anydepth("translate", run, tmp_path / "none.de"), f"there is no file {tmp_path / 'none.de'}")


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("fixed:9", ["fixed:9", "exits 1 to 3"]),
        ("fixed:0", ["fixed:0", "exits 1 to 3"]),
        ("fixed:two", ["fixed:two", "block number"]),
        ("unifrom", ["unifrom", "did you mean uniform?"]),
        ("oracle", ["'oracle'", "fixed:N"]),
        ("uniform:x", ["uniform:x", "seed"]),
        (
            "sequence",
            [
                "sequence: this run was not trained with the sequence halting module (it has none)",
                "exits.halting=sequence`",
            ],
        ),
        (
            "multinomial",
            [
                "not trained with the multinomial",
                "`anydepth train --from RUN --to NEW --set exits.halting=multinomial`",
            ],
        ),
        ("geometric:0.5", ["geometric:0.5: this run was not trained with the geometric halting module (it has none)"]),
        ("confidence", ["confidence needs thresholds, as in confidence:0.9", "`anydepth tune` finds them"]),
        ("confidence:1.5", ["confidence:1.5: the threshold 1.5 is not between 0 (always stop) and 1 (never stop)"]),
        ("margin:-0.1", ["the threshold -0.1 is not between 0"]),
        ("similarity:nan", ["the threshold nan is not between 0"]),
        (
            "confidence:0.5,0.5,0.5",
            ["3 thresholds for a model of 3 blocks; give 1 for all blocks, or 2, one for each but the last"],
        ),
        ("confidence:high", ["confidence:high: thresholds are numbers from 0 to 1 with commas between"]),
        ("shortlist:0:0.5", ["the shortlist is a number of words"]),
    ],
)
@pytest.mark.parametrize("verb", ["translate", "evaluate"])
def test_a_policy_that_the_model_does_not_have_is_refused(
    run: Path, text: Path, verb: str, policy: str, words: list[str]
) -> None:
    rest = ["--test", text / "test"] if verb == "evaluate" else []
    assert_refused(anydepth(verb, run, *rest, "--policy", policy), *words)


@pytest.mark.parametrize("policy", ["sequence", "multinomial"])
def test_a_run_names_the_halting_module_that_it_has_instead(exits_run: Path, policy: str) -> None:
    outcome = anydepth("translate", exits_run, "--policy", policy, stdin=b"hund\n")
    assert_refused(
        outcome,
        f"not trained with the {policy} halting module (it has the geometric module)",
        f"exits.halting={policy}`",
    )


def exits_of(run: Path, policy: str) -> list[list[int]]:
    out = done("translate", run, "--json", "--beam", 1, "--policy", policy, stdin=as_input(LINES)).out
    return [json.loads(line)["exits"] for line in out.splitlines()]


@pytest.mark.parametrize("family", ["geometric", "confidence", "margin", "similarity", "shortlist:9"])
def test_thresholds_of_0_and_1_are_the_first_and_the_last_exit(exits_run: Path, family: str) -> None:
    assert {left for exits in exits_of(exits_run, f"{family}:0") for left in exits} == {1}
    assert {left for exits in exits_of(exits_run, f"{family}:1") for left in exits} == {3}
    assert {left for exits in exits_of(exits_run, f"{family}:1,0") for left in exits} == {2}


def test_the_learned_policy_has_a_threshold_of_one_half_unless_it_is_given_others(exits_run: Path) -> None:
    assert (
        exits_of(exits_run, "geometric")
        == exits_of(exits_run, "geometric:0.5")
        == exits_of(exits_run, "geometric:0.5,0.5")
    )
    lowest, highest = (sum(map(sum, exits_of(exits_run, f"geometric:{threshold}"))) for threshold in (0.01, 0.99))
    assert lowest < highest


@pytest.mark.skipif(not has_native(), reason="there was no C++ compiler when anydepth was installed")
def test_every_engine_gives_the_same_lines(run: Path) -> None:
    lines = [
        [
            (row["text"], row["exits"])
            for row in map(
                json.loads,
                done(
                    "translate", run, "--json", "--policy", "uniform", *engine, stdin=as_input(LINES)
                ).out.splitlines(),
            )
        ]
        for engine in ([], ["--engine", "torch"], ["--engine", "native"])
    ]
    assert lines[0] == lines[1] == lines[2]
    assert done("translate", run, "--int8", stdin=as_input(LINES)).out.count("\n") == len(LINES)


@pytest.mark.parametrize("verb", ["translate", "evaluate"])
def test_an_engine_that_cannot_be_had_is_refused(run: Path, text: Path, verb: str) -> None:
    rest = ["--test", text / "test"] if verb == "evaluate" else []
    assert_refused(anydepth(verb, run, *rest, "--engine", "nativ"), "no engine 'nativ'; did you mean native?")
    assert_refused(anydepth(verb, run, *rest, "--engine", "torch", "--int8"), "torch engine has no 8-bit products")
    assert_refused(anydepth(verb, run, *rest, "--engine", "onnx"), "`anydepth export", "--format onnx`")
