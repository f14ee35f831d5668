"""A shared search: who waits for whom, and what is searched together."""

import threading

import pytest
import torch
from server.held import Held, HeldEngine
from tiny import tiny_model

from anydepth.exits.policies import FixedExit
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.search.decoding import SearchSettings
from anydepth.server.shared_search import TOGETHER, SharedSearch

GREEDY_SEARCH = SearchSettings(beam=1)
DEEP, SHALLOW = FixedExit(4, 4), FixedExit(1, 4)


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
def shared(held: Held) -> SharedSearch:
    """A search whose first search, of one sentence of nobody, has begun and waits."""
    shared = SharedSearch(HeldEngine(held))
    shared.submit([4], DEEP, GREEDY_SEARCH, owner=0)
    assert held.has_begun.wait(60)
    return shared


def test_sentences_that_wait_are_searched_together_in_turns(held: Held, shared: SharedSearch) -> None:
    for number in range(5, 9):
        shared.submit([number], DEEP, GREEDY_SEARCH, owner=1)
    shared.submit([9], DEEP, GREEDY_SEARCH, owner=2)
    held.may_go.set()
    shared.close()
    assert held.searched == [[4], [5, 9, 6, 7, 8]]


def test_a_word_does_not_wait_for_a_book(held: Held, shared: SharedSearch) -> None:
    for _ in range(5 * TOGETHER):
        shared.submit([5], DEEP, GREEDY_SEARCH, owner=1)
    shared.submit([6], DEEP, GREEDY_SEARCH, owner=2)
    held.may_go.set()
    shared.close()
    assert [6 in searched for searched in held.searched].index(True) == 1
    assert max(map(len, held.searched)) == TOGETHER


def test_other_budgets_have_searches_of_their_own(held: Held, shared: SharedSearch) -> None:
    for number, policy in [(5, DEEP), (6, SHALLOW), (7, DEEP), (8, SHALLOW)]:
        shared.submit([number], policy, GREEDY_SEARCH, owner=number)
    held.may_go.set()
    shared.close()
    assert sorted(held.searched) == [[4], [5, 7], [6, 8]]


def test_a_budget_of_one_owner_comes_in_turn_though_another_waits_with_many(held: Held, shared: SharedSearch) -> None:
    for _ in range(5 * TOGETHER):
        shared.submit([5], DEEP, GREEDY_SEARCH, owner=1)
    shared.submit([6], SHALLOW, GREEDY_SEARCH, owner=2)
    held.may_go.set()
    shared.close()
    assert [6 in searched for searched in held.searched].index(True) <= 2


def test_a_cancelled_sentence_is_not_searched(held: Held, shared: SharedSearch) -> None:
    futures = [shared.submit([number], DEEP, GREEDY_SEARCH, owner=1) for number in (5, 6, 7)]
    assert futures[1].cancel()
    held.may_go.set()
    shared.close()
    assert held.searched == [[4], [5, 7]]


def test_a_sentence_that_fails_spoils_no_other(held: Held, shared: SharedSearch) -> None:
    good, bad = (shared.submit(ids, DEEP, GREEDY_SEARCH, owner=1) for ids in ([5, 6], [7, 8, 9]))
    held.may_go.set()
    shared.close()
    assert isinstance(bad.exception(), RuntimeError)
    assert good.result()[0].tokens


def test_a_shared_search_finds_what_its_engine_finds() -> None:
    engine, told = TorchEngine(tiny_model()), list[int]()
    shared = SharedSearch(engine, on_search=told.append)
    sentences = [torch.randint(4, 19, (length,)).tolist() for length in (1, 2, 3, 4, 5, 6)]
    policies = [FixedExit(1 + number % 4, 4) for number in range(6)]
    futures = [
        shared.submit(ids, policy, GREEDY_SEARCH, owner=number % 3)
        for number, (ids, policy) in enumerate(zip(sentences, policies, strict=True))
    ]
    found = [future.result(60)[0] for future in futures]
    shared.close()
    expected = [
        engine.search([ids], policy, GREEDY_SEARCH)[0][0] for ids, policy in zip(sentences, policies, strict=True)
    ]
    assert [(each.tokens, each.exits) for each in found] == [(each.tokens, each.exits) for each in expected]
    assert sum(told) == 6


def test_a_closed_search_takes_nothing(held: Held, shared: SharedSearch) -> None:
    held.may_go.set()
    shared.close()
    with pytest.raises(RuntimeError, match="closed"):
        shared.submit([4], DEEP, GREEDY_SEARCH, owner=1)


def test_a_search_that_is_closed_at_once_cancels_what_waits(held: Held, shared: SharedSearch) -> None:
    waiting = shared.submit([5], DEEP, GREEDY_SEARCH, owner=1)
    threading.Timer(0.1, held.may_go.set).start()
    shared.close(drain=False)
    assert waiting.cancelled()
    assert held.searched == [[4]]
