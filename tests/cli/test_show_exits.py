"""translate --show-exits: words with their exits on standard output, the legend on standard error,
colours for terminals alone."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli.commands import anydepth, assert_refused, done

from anydepth.inference.translator import word_exits

LINES = "hund läuft\n\nder hund läuft und die katze schläft\nxyz 12\n".encode()
POLICY = ["--policy", "uniform:3", "--beam", 1]
SMALL_FIGURES = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(autouse=True)
def no_wishes_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR", "COLORTERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def as_shown(row: dict[str, Any]) -> str:
    """The line of a translation: each word with the exits of its pieces, once where they agree."""
    words = []
    for word, exits in word_exits(row["tokens"], row["exits"]):
        figures = ",".join(str(left) for left in (exits if len(set(exits)) > 1 else exits[:1]))
        words.append(word + figures.translate(SMALL_FIGURES))
    return " ".join(words)


def test_every_line_has_its_words_with_their_exits_and_the_end(run: Path) -> None:
    outcome = done("translate", run, "--show-exits", *POLICY, stdin=LINES)
    rows = [json.loads(line) for line in done("translate", run, "--json", *POLICY, stdin=LINES).out.splitlines()]
    assert outcome.out.split("\n")[:-1] == [as_shown(row) for row in rows]
    assert outcome.out.split("\n")[1] == ""
    assert "," in outcome.out, "some word has pieces that disagree"


def test_the_legend_has_the_share_of_every_exit_and_the_average(run: Path) -> None:
    outcome = done("translate", run, "--show-exits", *POLICY, stdin=LINES)
    rows = [json.loads(line) for line in done("translate", run, "--json", *POLICY, stdin=LINES).out.splitlines()]
    exits = [left for row in rows for left in row["exits"]]
    (legend,) = outcome.err.splitlines()
    shares = [f"{100 * exits.count(n) / len(exits):.0f}" for n in (1, 2, 3)]
    assert re.findall(r"(\d)  +(\d+)%", legend) == list(zip("123", shares, strict=True))
    assert legend.endswith(f"average {sum(exits) / len(exits):.2f} of 3")
    assert len(set(shares)) > 1


def test_colours_are_for_terminals_and_change_no_character(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = done("translate", run, "--show-exits", *POLICY, stdin=LINES)
    assert "\x1b" not in plain.out + plain.err, "a pipe gets none"
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = done("translate", run, "--show-exits", *POLICY, stdin=LINES)
    assert COLOUR.search(coloured.out) and COLOUR.search(coloured.err)
    assert COLOUR.sub("", coloured.out) == plain.out
    assert COLOUR.sub("", coloured.err) == plain.err
    backgrounds = set(re.findall(r"48;5;\d+", coloured.out))
    assert len(backgrounds) == 3, "one for each exit"


def test_a_narrow_terminal_wraps_no_line(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    assert done("translate", run, "--show-exits", *POLICY, stdin=LINES).out.count("\n") == 4


def test_people_and_machines_are_not_served_at_once(run: Path) -> None:
    assert_refused(
        anydepth("translate", run, "--show-exits", "--json", stdin=LINES), "--show-exits", "--json", "choose one"
    )


def test_a_line_beyond_the_limit_is_named_here_too(run: Path) -> None:
    warning, legend = done("translate", run, "--show-exits", "--beam", 1, stdin=b"hund " * 60).err.splitlines()
    assert warning.startswith("warning: line 1 is longer than 40 tokens")
    assert legend.startswith("exits ")


def test_no_lines_have_a_legend_of_nothing(run: Path) -> None:
    outcome = done("translate", run, "--show-exits", stdin=b"")
    assert outcome.out == ""
    assert outcome.err.endswith("average 0.00 of 3\n")
