"""All sentences of a case in one search that stays open, while several threads submit and cancel."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sanitizing.given import hypotheses, make_policy, make_selection

SUBMITTING = 3
WAIT_MS = 1_000


def search_openly(native: Any, engine: Any, calls: Sequence[Sequence[Any]], expected: Sequence[Any]) -> str:
    """What is wrong with what the open search finds, if anything is: `expected` is what each call
    finds alone."""
    search = engine.open(native.Batching(**calls[0][4]))
    sentences = [sentence for call in calls for sentence in made_sentences(native, engine, call)]
    wanted = dict(enumerate(ranked for found in expected for ranked in found))
    numbered = list(enumerate(sentences))
    with ThreadPoolExecutor(SUBMITTING + 1) as pool:
        taking = pool.submit(take_all, search)
        parts = [numbered[start::SUBMITTING] for start in range(SUBMITTING)]
        list(pool.map(submit, [search] * SUBMITTING, parts, [len(sentences)] * SUBMITTING))
        search.close(True)
        results = taking.result()
    search.join()
    if {number: ranked for number, ranked in results.items() if number in wanted} != wanted:
        return "a sentence has other hypotheses in an open search than alone"
    return leave_open(native, engine, calls, sentences)


def made_sentences(native: Any, engine: Any, call: Sequence[Any]) -> list[tuple[Any, ...]]:
    """What an open search is given of each sentence of a call: one of several plans is its own."""
    sources, limits, policy, settings, _, words = call
    selection, many = make_selection(engine, words), native.Settings(**settings)
    plans = policy.get("plans") or [[]] * len(sources)
    own = [make_policy(native, {**policy, "plans": [plan]}) for plan in plans]
    return [(*each, many, selection) for each in zip(sources, limits, own, strict=True)]


def submit(search: Any, part: Sequence[tuple[int, tuple[Any, ...]]], count: int) -> None:
    """Submits a part of `count` sentences; every second one once more, to be cancelled."""
    for number, sentence in part:
        search.submit(number, number % 4, *sentence)
        if number % 2:
            search.submit(count + number, 9, *sentence)
            search.cancel(count + number)


def take_all(search: Any) -> dict[int, Any]:
    """The hypotheses of every number until the search has ended."""
    found = {}
    while (results := search.take(WAIT_MS)) is not None:
        found |= {number: hypotheses([ranked])[0] for number, ranked in results}
    return found


def leave_open(native: Any, engine: Any, calls: Sequence[Sequence[Any]], sentences: Sequence[tuple[Any, ...]]) -> str:
    """What is wrong with a search that is dropped in the middle of its work, by closing it or by
    forgetting it."""
    for is_closed in (True, False):
        search = engine.open(native.Batching(**calls[-1][4]))
        for number, sentence in enumerate(sentences):
            search.submit(number, number % 2, *sentence)
        if is_closed:
            search.close(False)
            if set(take_all(search)) - set(range(len(sentences))) or search.take(0) is not None:
                return "a search that was closed found something more"
        del search
    return ""
