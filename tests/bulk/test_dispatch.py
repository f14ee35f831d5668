"""Giving out pieces of any kind: all are kept once, what fails comes again, and progress counts it."""

from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from bulk.crews import InlineCrew

from anydepth.bulk.crew import WorkOutcome
from anydepth.bulk.dispatch import RETRIES, Dispatch


@dataclass(frozen=True)
class Sum:
    """Numbers to add."""

    numbers: tuple[int, ...]

    @property
    def place(self) -> str:
        return f"sum {self.numbers[0]}"

    @property
    def records(self) -> int:
        return len(self.numbers)


SUMS = [Sum((1, 2)), Sum((3,)), Sum((4, 5, 6))]


def test_every_piece_is_kept_once_and_one_that_fails_is_tried_again_before_it_is_given_up() -> None:
    tries: Counter[str] = Counter()

    def add(piece: Sum) -> int:
        tries[piece.place] += 1
        if piece.place == "sum 3" or (piece.place == "sum 1" and tries["sum 1"] == 1):
            raise ValueError("not now")
        return sum(piece.numbers)

    kept, said = dict[str, int](), list[str]()
    crew = InlineCrew(add, lambda piece: None)
    dispatch = Dispatch(
        iter(SUMS), crew, lambda piece, made: kept.update({piece.place: made}), total=6, say=said.append
    )
    dispatch.go()
    assert kept == {"sum 1": 3, "sum 4": 15}
    assert tries == {"sum 1": 2, "sum 3": RETRIES, "sum 4": 1}
    assert dispatch.failed == {"sum 3": "not now"} and dispatch.failures == 1
    assert "sum 3 FAILED: not now; the others continue" in said
    assert said.count("sum 1: not now; trying again") == 1
    assert said[-1].startswith("5 of 6 sentences  "), "what failed is not done"
    assert said[-1].endswith("  1 workers  1 failures")


class LateCrew(InlineCrew[Sum, int]):
    """A worker that is there after some calls of `wait`, each of which takes half a minute of `clock`."""

    late: int = 5
    clock: float = 0.0

    @property
    def idle(self) -> int:
        return super().idle if self.workers else 0

    def wait(self, seconds: float) -> list[WorkOutcome[Sum, int]]:
        self.clock, self.late = self.clock + 30.0, self.late - 1
        self.workers = int(self.late <= 0)
        return super().wait(seconds)


def test_while_no_worker_is_there_it_is_said_every_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    said = list[str]()
    crew = LateCrew(lambda piece: sum(piece.numbers), lambda piece: None, workers=0)
    monkeypatch.setattr("anydepth.bulk.dispatch.time", SimpleNamespace(monotonic=lambda: crew.clock))
    Dispatch(iter(SUMS), crew, lambda piece, made: None, total=6, say=said.append).go()
    assert said[:2] == ["no worker is ready; waiting for one to start, or for room where it can"] * 2
    assert said[2].startswith("2 of 6 sentences") and len(said) == 2 + len(SUMS)


def test_without_pieces_nobody_is_asked() -> None:
    crew = InlineCrew(lambda piece: 0, lambda piece: None)
    Dispatch(iter(list[Sum]()), crew, lambda piece, made: None, total=1, say=lambda text: None).go()
    assert crew.done == []
