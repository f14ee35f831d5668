"""The desk: every engine's sentences, counted while they wait."""

from concurrent.futures import Future
from pathlib import Path

import pytest
from server.held import Held, HeldEngine
from server.serving import SOURCES
from tiny import tiny_model

from anydepth.errors import AnydepthError
from anydepth.exits.policies import FixedExit
from anydepth.inference.engines.choice import make_engine
from anydepth.inference.engines.native.native_engine import has_native
from anydepth.inference.translator import Translator
from anydepth.search.beam import Hypothesis
from anydepth.search.decoding import SearchSettings
from anydepth.server.desk import Desk

GREEDY_SEARCH = SearchSettings(beam=1)
DEEP = FixedExit(4, 4)
ENGINES = ["torch", pytest.param("native", marks=pytest.mark.skipif(not has_native(), reason="not built"))]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("policy", ["fixed:1", "fixed:3", "confidence:0.5,0.5"])
def test_what_is_found_is_what_the_engine_finds(runs: list[Path], engine: str, policy: str) -> None:
    translator = Translator.load(runs[0], engine=engine, threads=1)
    encoded, told = translator.source_tokenizer.encode_lines(SOURCES), list[int]()
    chosen, settings = translator.policy(policy), translator.search_settings()
    desk = Desk(translator.engine, batch_tokens=4096, on_search=told.append)
    futures = [desk.submit(ids, chosen, settings, owner=str(place % 3)) for place, ids in enumerate(encoded)]
    found = [future.result(60)[0] for future in futures]
    desk.close()
    expected = [hypotheses[0] for hypotheses in translator.engine.search(encoded, chosen, settings)]
    assert [(each.tokens, each.exits) for each in found] == [(each.tokens, each.exits) for each in expected]
    assert told and (desk.waiting, desk.unfinished) == (0, {})


def test_sentences_that_wait_are_counted_for_their_owners() -> None:
    held = Held()
    desk = Desk(HeldEngine(held), batch_tokens=4096)
    desk.submit([4, 5], DEEP, GREEDY_SEARCH, owner="anna")
    assert held.has_begun.wait(60)
    asked = [("ben", 6), ("carl", 7), ("ben", 8), ("carl", 9)]
    futures = [desk.submit([4, number], DEEP, GREEDY_SEARCH, owner=owner) for owner, number in asked]
    assert (desk.waiting, desk.waiting_of("ben"), desk.waiting_of("carl"), desk.waiting_of("dora")) == (5, 2, 2, 0)
    assert futures[-1].cancel()
    assert (desk.waiting, desk.waiting_of("carl")) == (4, 1)
    held.may_go.set()
    desk.close()
    assert (desk.waiting, desk.unfinished) == (0, {})


@pytest.mark.skipif(not has_native(), reason="not built")
def test_an_open_search_that_failed_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(make_engine("native", tiny_model(), threads=1), batch_tokens=4096)
    broken = desk.open
    assert broken is not None

    def fail(*arguments: object, **options: object) -> "Future[list[Hypothesis]]":
        raise AnydepthError("the open search ended; open another one")

    monkeypatch.setattr(broken, "submit", fail)
    assert desk.submit([4, 5], DEEP, GREEDY_SEARCH, owner="anna").result(60)[0].tokens
    assert desk.open is not broken
    broken.close()
    desk.close()
