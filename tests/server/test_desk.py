"""The desk: who waits for whom, and what is searched together."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
import torch
from tiny import tiny_model

from anydepth.exits.policies import FixedExit, Policy
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.search.beam import Hypothesis
from anydepth.search.decoding import SearchSettings
from anydepth.server.desk import TOGETHER, Desk

GREEDY_SEARCH = SearchSettings(beam=1)
DEEP, SHALLOW = FixedExit(4, 4), FixedExit(1, 4)


@dataclass
class Held:
    """Holds every search until it is let go, and notes what was searched together."""

    may_go: threading.Event = field(default_factory=threading.Event)
    has_begun: threading.Event = field(default_factory=threading.Event)
    searched: list[list[int]] = field(default_factory=list)


class HeldEngine(TorchEngine):
    """The plain engine, which waits before each search."""

    def __init__(self, held: Held) -> None:
        super().__init__(tiny_model())
        self.held = held

    def search(
        self, sequences: Sequence[Sequence[int]], policy: Policy, settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        self.held.has_begun.set()
        assert self.held.may_go.wait(60)
        self.held.searched.append([ids[0] for ids in sequences])
        if any(len(ids) == 3 for ids in sequences):
            raise RuntimeError("three tokens are too many")
        return super().search(sequences, policy, settings)


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
def desk(held: Held) -> Desk:
    """A desk whose first search, of one sentence of nobody, has begun and waits."""
    desk = Desk(HeldEngine(held))
    desk.submit([4], DEEP, GREEDY_SEARCH, owner="nobody")
    assert held.has_begun.wait(60)
    return desk


def test_sentences_that_wait_are_searched_together_in_turns(held: Held, desk: Desk) -> None:
    for number in range(5, 9):
        desk.submit([number], DEEP, GREEDY_SEARCH, owner="book")
    desk.submit([9], DEEP, GREEDY_SEARCH, owner="word")
    assert (desk.waiting, desk.waiting_of("book"), desk.waiting_of("word")) == (5, 4, 1)
    held.may_go.set()
    desk.close()
    assert held.searched == [[4], [5, 9, 6, 7, 8]]


def test_a_word_does_not_wait_for_a_book(held: Held, desk: Desk) -> None:
    for _ in range(5 * TOGETHER):
        desk.submit([5], DEEP, GREEDY_SEARCH, owner="book")
    desk.submit([6], DEEP, GREEDY_SEARCH, owner="word")
    held.may_go.set()
    desk.close()
    assert [6 in searched for searched in held.searched].index(True) == 1
    assert max(map(len, held.searched)) == TOGETHER


def test_other_budgets_have_searches_of_their_own(held: Held, desk: Desk) -> None:
    for number, policy in [(5, DEEP), (6, SHALLOW), (7, DEEP), (8, SHALLOW)]:
        desk.submit([number], policy, GREEDY_SEARCH, owner=f"owner {number}")
    held.may_go.set()
    desk.close()
    assert sorted(held.searched) == [[4], [5, 7], [6, 8]]


def test_a_budget_of_one_owner_comes_in_turn_though_another_waits_with_many(held: Held, desk: Desk) -> None:
    for _ in range(5 * TOGETHER):
        desk.submit([5], DEEP, GREEDY_SEARCH, owner="book")
    desk.submit([6], SHALLOW, GREEDY_SEARCH, owner="word")
    held.may_go.set()
    desk.close()
    assert [6 in searched for searched in held.searched].index(True) <= 2


def test_a_cancelled_sentence_is_not_searched(held: Held, desk: Desk) -> None:
    futures = [desk.submit([number], DEEP, GREEDY_SEARCH, owner="a") for number in (5, 6, 7)]
    assert futures[1].cancel()
    held.may_go.set()
    desk.close()
    assert held.searched == [[4], [5, 7]]


def test_a_sentence_that_fails_spoils_no_other(held: Held, desk: Desk) -> None:
    good, bad = (desk.submit(ids, DEEP, GREEDY_SEARCH, owner="a") for ids in ([5, 6], [7, 8, 9]))
    held.may_go.set()
    desk.close()
    assert isinstance(bad.exception(), RuntimeError)
    assert good.result()[0].tokens


def test_a_desk_finds_what_its_engine_finds() -> None:
    engine, told = TorchEngine(tiny_model()), list[int]()
    desk = Desk(engine, on_search=told.append)
    sentences = [torch.randint(4, 19, (length,)).tolist() for length in (1, 2, 3, 4, 5, 6)]
    policies = [FixedExit(1 + number % 4, 4) for number in range(6)]
    futures = [
        desk.submit(ids, policy, GREEDY_SEARCH, owner=str(number % 3))
        for number, (ids, policy) in enumerate(zip(sentences, policies, strict=True))
    ]
    found = [future.result(60)[0] for future in futures]
    desk.close()
    expected = [
        engine.search([ids], policy, GREEDY_SEARCH)[0][0] for ids, policy in zip(sentences, policies, strict=True)
    ]
    assert [(each.tokens, each.exits) for each in found] == [(each.tokens, each.exits) for each in expected]
    assert sum(told) == 6


def test_a_closed_desk_takes_nothing(held: Held, desk: Desk) -> None:
    held.may_go.set()
    desk.close()
    with pytest.raises(RuntimeError, match="closed"):
        desk.submit([4], DEEP, GREEDY_SEARCH, owner="a")
