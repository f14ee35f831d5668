"""Prices: known ones are found again from made-up timings, and what a search does is counted as a
loop counts it."""

import random
from dataclasses import astuple, fields, replace

import numpy as np
import pytest
from adapters import ADAPTER
from tiny import BLOCKS, TARGET_VOCAB, tiny_pairs
from walks import model_for

from anydepth.exits.flops import DecoderShape
from anydepth.exits.parsing import parse_policy
from anydepth.exits.thresholds import ThresholdExit
from anydepth.tuning.prices import PriceList, SearchWork, fit_prices
from anydepth.tuning.replay import record, recorded_exits, replay

PRICES = (1e-3, 0.0, 2e-5, 4e-5, 3e-6, 1e-5, 2e-11)  # seconds, one for each part of the work


def works(count: int, seed: int = 1) -> list[SearchWork]:
    """Searches that differ in everything they do, with selected words for some."""
    drawn = random.Random(seed)
    return [
        SearchWork(
            sentences=100,
            selections=0,
            tokens=drawn.randint(900, 1300),
            blocks=drawn.randint(1000, 6000),
            copies=drawn.randint(0, 3000),
            looks=drawn.randint(0, 5000),
            word_flops=drawn.randint(10**8, 10**9),
        )
        for _ in range(count)
    ]


def seconds(work: SearchWork) -> float:
    return sum(price * part for price, part in zip(PRICES, astuple(work), strict=True))


def test_known_prices_are_found_again_from_exact_timings() -> None:
    timed = works(9)
    found = fit_prices(timed, [seconds(work) for work in timed])
    assert found.prices == pytest.approx(PRICES, rel=1e-6)
    assert found.largest_error == pytest.approx(0, abs=1e-9)
    for work in works(5, seed=2):
        assert found.seconds(work) == pytest.approx(seconds(work))


def test_the_largest_error_is_that_of_the_timing_that_fits_worst() -> None:
    timed = works(40)
    told = [seconds(work) for work in timed]
    told[7] *= 1.5
    found = fit_prices(timed, told)
    errors = [abs(found.seconds(work) / own - 1) for work, own in zip(timed, told, strict=True)]
    assert found.largest_error == pytest.approx(max(errors)) == pytest.approx(errors[7])
    assert 0.2 < found.largest_error < 0.5


def test_no_price_is_negative_even_where_that_would_fit_better() -> None:
    timed = works(9)
    told = [seconds(work) - 2e-5 * work.looks for work in timed]  # a look that saves time
    found = fit_prices(timed, told)
    assert min(found.prices) >= 0
    assert found.prices[[field.name for field in fields(SearchWork)].index("looks")] == 0
    assert found.largest_error > 0


def test_what_no_search_did_has_no_price() -> None:
    timed = [replace(work, looks=0, copies=0) for work in works(9)]
    found = fit_prices(timed, [seconds(work) for work in timed])
    names = [field.name for field in fields(SearchWork)]
    assert [name for name, price in zip(names, found.prices, strict=True) if not price] == [
        "selections",
        "copies",
        "looks",
    ]


def test_the_work_of_a_search_is_counted_as_by_hand() -> None:
    policy = parse_policy("confidence:0.5,1,0", model_for("confidence:0.5"))  # looks at exit 1, leaves at 3
    shape = DecoderShape(blocks=BLOCKS, dim=12, ffn_dim=20, encoder_dim=16, vocab=50)
    work = SearchWork.of_search(shape, policy, [[1, 3, 1], [1]], [10, 30])
    a_word = 2 * shape.dim
    assert work == SearchWork(
        sentences=2,
        selections=2,
        tokens=4,
        blocks=6,
        copies=(3 - 1) + (3 - 1),
        looks=4,
        word_flops=a_word * (10 + 2 * 10 + 10 + 30),  # leaving where nothing was looked at scores the words again
    )
    assert SearchWork.of_search(shape, policy, [[1, 3, 1], [1]], None).selections == 0


@pytest.mark.parametrize("changes", [(), (ADAPTER,)], ids=["plain", "adapters"])
@pytest.mark.parametrize("text", ["confidence:0.5", "similarity:0.5", "shortlist:5:0.5"])
def test_replayed_candidates_are_priced_as_the_searches_that_they_stand_for(
    text: str, changes: tuple[str, ...]
) -> None:
    model, pairs = model_for(text, *changes), tiny_pairs(5)
    policy = parse_policy(text, model)
    assert isinstance(policy, ThresholdExit)
    recorded = record(model, pairs, policy)
    candidates = np.array([[0.3, 0.4, 0.5], [0.5, 1.0, 0.0], [1.0, 0.2, 1.0], [1.0, 1.0, 1.0]])
    shape, prices = DecoderShape.of(model.config, TARGET_VOCAB), PriceList(PRICES, 0.0)
    ends = [*recorded.starts[1:].tolist(), recorded.signals.shape[1]]
    full: float | None = None
    shares = prices.time_shares(recorded, replay(recorded, candidates))
    for thresholds, exits, share in reversed(
        list(zip(candidates.tolist(), recorded_exits(recorded, candidates).tolist(), shares.tolist(), strict=True))
    ):
        rows = [exits[start:end] for start, end in zip(recorded.starts.tolist(), ends, strict=True)]
        named = parse_policy(f"{policy.family}:{','.join(map(str, thresholds))}", model)
        took = prices.seconds(SearchWork.of_search(shape, named, rows, None))
        full = took if full is None else full  # the last candidate never looks and never stops
        assert share == pytest.approx(took / full)


def test_prices_are_told_in_microseconds_without_those_of_nothing() -> None:
    shape = DecoderShape(blocks=6, dim=100, ffn_dim=1, encoder_dim=1, vocab=1000)
    told = PriceList((1e-3, 0.0, 0.0, 4e-5, 0.0, 1e-5, 1e-10), 0.031).describe(shape)
    assert told == (
        "prices in microseconds: sentence 1000.0, block 40.0, look 10.0, scoring all words 20.0; "
        "the timed searches lie within 3% of them"
    )
