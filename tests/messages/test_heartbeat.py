"""Waiting: long work is reported, short work is not, and what comes of it is what the work gave."""

import io
import threading
import time
from collections.abc import Sequence

import pytest
from rich.console import Console

from anydepth.messages import heartbeat
from anydepth.messages.heartbeat import is_at_work, with_heartbeat
from anydepth.text import tokenizer
from anydepth.text.tokenizer import train_tokenizer


def test_long_work_is_reported_now_and_then_and_its_result_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "SECONDS_BEFORE_A_LINE", 0.02)
    said: list[str] = []
    enough = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        if len(said) == 3:
            enough.set()

    assert with_heartbeat(lambda: enough.wait(60), "learning 7 pieces", say)
    assert said[:3] == ["learning 7 pieces: at work for 0 seconds"] * 3


def test_short_work_is_quiet_and_its_error_is_raised_where_it_was_asked_for() -> None:
    said: list[str] = []
    assert with_heartbeat(lambda: 3, "nothing", said.append) == 3
    with pytest.raises(RuntimeError, match=r"^no luck$"):
        with_heartbeat(lambda: (_ for _ in ()).throw(RuntimeError("no luck")), "nothing", said.append)
    train_tokenizer(["ein kleiner Text"] * 9, vocab_size=280, say=said.append)
    assert said == []


def test_on_a_terminal_the_time_stands_in_place_and_no_line_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, said = io.StringIO(), []
    monkeypatch.setattr(heartbeat, "Console", lambda **options: Console(file=screen, force_terminal=True, width=80))
    monkeypatch.setattr(heartbeat, "SECONDS_ON_A_TERMINAL", 0.05)
    with_heartbeat(lambda: time.sleep(0.4), "learning 7 pieces", said.append)
    assert said == []
    assert "learning 7 pieces: at work for 0 seconds" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K"), "the line is cleared at the end"


def test_the_reports_of_a_training_tell_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "SECONDS_BEFORE_A_LINE", 0.0)
    said: list[str] = []
    learn, has_spoken = tokenizer._train, threading.Event()

    def learn_after_a_line(lines: Sequence[str], vocab_size: int) -> bytes:
        assert has_spoken.wait(60), "else it could be over before a line is due"
        return learn(lines, vocab_size)

    def say(text: str) -> None:
        said.append(text)
        has_spoken.set()

    monkeypatch.setattr(tokenizer, "_train", learn_after_a_line)
    train_tokenizer(["ein kleiner Text", "", "noch einer"] * 9, vocab_size=280, say=say)
    assert said and all(line.startswith("learning 280 pieces from 18 lines: at work for 0 seconds") for line in said)


def test_work_that_nobody_waits_for_any_more_is_known_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "SECONDS_BEFORE_A_LINE", 0.01)
    going = threading.Event()

    def stop(text: str) -> None:
        raise KeyboardInterrupt

    assert not is_at_work()
    with pytest.raises(KeyboardInterrupt):
        with_heartbeat(lambda: going.wait(60), "learning", stop)
    assert is_at_work()
    going.set()
    while is_at_work():
        time.sleep(0.01)
