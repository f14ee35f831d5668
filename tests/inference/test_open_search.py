"""The search that stays open: what each sentence finds alone, whatever else is in the batch, and an
end for every future."""

import gc
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from inference.native_searches import LOTS, needs_native, sentences
from selections import SELECTIONS
from tiny import tiny_model
from walks import THRESHOLD_POLICIES, TRAINED, model_for

from anydepth.errors import UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.parsing import parse_policy
from anydepth.exits.policies import FixedExit, ForcedExits, Policy, UniformExit
from anydepth.inference.engines.native.native_engine import NativeEngine
from anydepth.inference.engines.native.native_open_search import NativeOpenSearch
from anydepth.inference.engines.open_search import OpenSearch
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.search.beam import Hypothesis
from anydepth.search.decoding import SearchSettings

pytestmark = needs_native

SIZES: list[dict[str, int]] = [
    {"batch_tokens": LOTS},
    {"batch_tokens": LOTS, "batch_sentences": 3},
    {"batch_tokens": 60},
]
LONG = SearchSettings(beam=4, exact_length=200)
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Asked:
    """A sentence with a policy and settings of its own."""

    ids: list[int]
    policy: Policy
    settings: SearchSettings

    def alone(self, engine: NativeEngine) -> list[Hypothesis]:
        return engine.search([self.ids], self.policy, self.settings)[0]


def mixture(model: AdaptiveTransformer, halting: str, count: int) -> list[Asked]:
    """Random sentences, some of them twice, each with a policy, a beam, a limit and words of its
    own."""
    randomness, known = random.Random(count), [parse_policy(text, model) for text in known_policies(halting)]
    words = [None, *(make(model) for make in SELECTIONS.values())]
    asked = []
    for ids in sentences(count, seed=count):
        policy = randomness.choice([*known, forced_exits(model, randomness), FixedExit(randomness.randint(1, 4), 4)])
        beam = randomness.choice([1, 2, 5])
        settings = SearchSettings(
            beam=beam,
            best=randomness.randint(1, beam),
            length_penalty=randomness.choice([0.0, 0.6, 1.0]),
            length_offset=randomness.choice([1, 3, 12]),
            exact_length=randomness.choice([None, None, None, 6]),
            early_stopping=randomness.random() < 0.5,
            words=randomness.choice(words),
        )
        asked += [Asked(ids, policy, settings)] * randomness.choice([1, 1, 1, 2])
    return randomness.sample(asked, len(asked))


def known_policies(halting: str) -> Iterator[str]:
    """The texts of policies that a model with such a halting module has, those of thresholds with
    several values."""
    for text in THRESHOLD_POLICIES:
        family, _, values = text.rpartition(":")
        if family not in TRAINED or family == halting:
            yield from (text, f"{family}:{values.replace('0.6', '0.35')}", f"{family}:0,1,1", f"{family}:1,0.5,0")
    yield from ("uniform:7", "uniform:8", *([] if halting == "geometric" else [halting]))


def forced_exits(model: AdaptiveTransformer, randomness: random.Random) -> ForcedExits:
    table = torch.tensor([[randomness.randint(1, model.blocks) for _ in range(5)]])
    watched = model.halting if randomness.random() < 0.3 and "Geometric" in type(model.halting).__name__ else None
    return ForcedExits(table, watched, model.blocks)  # type: ignore[arg-type]


def opened(engine: NativeEngine, *, batch_sentences: int | None = None, batch_tokens: int = LOTS) -> OpenSearch:
    return engine.open_search(batch_tokens=batch_tokens, batch_sentences=batch_sentences)


def submitted_by_threads(search: OpenSearch, asked: list[Asked], threads: int) -> "list[Future[list[Hypothesis]]]":
    with ThreadPoolExecutor(threads) as pool:
        return list(
            pool.map(
                lambda pair: search.submit(pair[1].ids, pair[1].policy, pair[1].settings, owner=pair[0] % 7),
                enumerate(asked),
            )
        )


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("halting", TRAINED)
def test_every_sentence_finds_what_it_finds_alone_bit_for_bit(halting: str, int8: bool) -> None:
    model = model_for(halting, seed=3)
    engine, asked = NativeEngine(model, int8=int8), mixture(model, halting, 120)
    alone = [each.alone(engine) for each in asked]
    for number, (threads, sizes) in enumerate(zip((1, 3, 2), SIZES, strict=True)):
        with opened(NativeEngine(model, int8=int8, threads=threads), **sizes) as search:
            futures = submitted_by_threads(search, asked, threads=number + 2)
            assert [future.result() for future in futures] == alone, sizes
    assert {left for ranked in alone for each in ranked for left in each.exits} == {1, 2, 3, 4}
    assert {each.words is None for ranked in alone for each in ranked} == {True, False}
    assert len({type(each.policy) for each in asked}) > 3


def test_an_open_search_executes_the_flops_of_the_closed_one_and_tells_them_in_the_end() -> None:
    model = model_for("geometric", seed=2)
    closed, open_ = NativeEngine(model), NativeEngine(model)
    mixed = mixture(model, "geometric", 40)
    asked = list({tuple(each.ids): each for each in mixed}.values())  # a sentence and its like share their source
    for each in asked:
        each.alone(closed)
    with opened(open_, batch_sentences=5) as search:
        wait(submitted_by_threads(search, asked, threads=2))
    assert open_.executed_flops() == closed.executed_flops() > 0


def test_owners_take_turns_so_that_a_book_does_not_hold_up_a_word() -> None:
    model = tiny_model()
    policy, order = FixedExit(4, model.blocks), []
    with opened(NativeEngine(model), batch_sentences=2) as search:
        book = [search.submit(ids, policy, LONG, owner=5) for ids in sentences(150)]
        for number, future in enumerate(book):
            future.add_done_callback(lambda _, number=number: order.append(number))
        word = search.submit([5], policy, LONG, owner=3)
        word.add_done_callback(lambda _: order.append(-1))
        word.result()
        # Some were found before the word came: how many depends on the machine. In the order of arrival
        # it would be the last. test_native_queue.py has the order itself.
        assert order.index(-1) < 110
        assert not all(future.done() for future in book), "else nothing was left to hold it up"
    assert sorted(order) == list(range(-1, 150))


def test_a_sentence_that_is_alone_waits_for_nobody() -> None:
    model = tiny_model()
    engine, policy, settings = NativeEngine(model, threads=3), FixedExit(2, model.blocks), SearchSettings(beam=2)
    with opened(engine) as search:
        for ids in sentences(5):
            assert search.submit(ids, policy, settings).result(timeout=60) == engine.search([ids], policy, settings)[0]


def test_cancelled_sentences_are_dropped_whether_they_wait_or_are_half_searched() -> None:
    model = tiny_model()
    engine, policy = NativeEngine(model), FixedExit(4, model.blocks)
    texts = sentences(41)
    expected = engine.search(texts[-1:], policy, LONG)[0]
    one = engine.executed_flops()
    with opened(engine, batch_sentences=3) as search:
        futures = [search.submit(ids, policy, LONG, owner=number % 4) for number, ids in enumerate(texts)]
        cancelled = [future for future in futures[:-1] if future.cancel()]
        assert futures[-1].result() == expected
    assert wait(futures, timeout=60).not_done == set()
    assert all(future.cancelled() for future in cancelled)
    assert not futures[-1].cancel(), "what was found stays found"
    spared = 40 - (engine.executed_flops() / one - 2)
    assert len(cancelled) >= 30, "else they were too fast for this test"
    assert spared > len(cancelled) - 4, "a sentence that was half searched costs its half"


def test_nothing_comes_of_a_number_that_was_cancelled_and_one_in_use_is_refused() -> None:
    engine = NativeEngine(tiny_model())
    request = engine.request([5, 6], FixedExit(4, 4), LONG)
    native = engine.engine.open(engine.batching(LOTS, None))
    native.submit(1, 0, *request)
    with pytest.raises(ValueError, match=r"has a sentence of that number"):
        native.submit(1, 0, *request)
    assert native.cancel(1) and not native.cancel(1) and not native.cancel(2)
    native.submit(1, 0, *engine.request([5, 6], FixedExit(4, 4), SearchSettings(beam=1)))
    native.close(drain=True)
    results = native.take(60_000)
    assert results is not None and [number for number, _ in results] == [1]
    assert len(results[0][1][0].tokens) < 200, "the second one, not the first"
    assert native.take(60_000) is None and native.take(0) is None


def test_closing_finds_the_rest_and_then_refuses_what_comes() -> None:
    model = tiny_model()
    engine, policy = NativeEngine(model, threads=2), UniformExit(3, model.blocks)
    search = opened(engine, batch_sentences=2)
    futures = [search.submit(ids, policy, LONG) for ids in sentences(9)]
    search.close()
    assert all(future.done() and len(future.result()[0].tokens) == 200 for future in futures)
    for _ in range(2):
        with pytest.raises(UsageError, match=r"was closed and takes no more sentences; open another one"):
            search.submit([5], policy, LONG)
    search.close()
    search.close(drain=False)


def test_closing_without_draining_cancels_what_is_not_found() -> None:
    model = tiny_model()
    search = opened(NativeEngine(model, threads=2), batch_sentences=2)
    futures = [search.submit(ids, FixedExit(4, model.blocks), LONG) for ids in sentences(300)]
    search.close(drain=False)
    assert wait(futures, timeout=60).not_done == set()
    assert sum(future.cancelled() for future in futures) > 200
    with pytest.raises(CancelledError):
        futures[-1].result()


def test_an_error_inside_the_block_drops_what_is_under_way() -> None:
    model = tiny_model()
    futures = []
    with pytest.raises(ZeroDivisionError), opened(NativeEngine(model), batch_sentences=1) as search:
        futures += [search.submit(ids, FixedExit(4, model.blocks), LONG) for ids in sentences(200)]
        raise ZeroDivisionError
    assert futures[-1].cancelled()


def test_what_cannot_be_searched_is_refused_and_the_search_goes_on() -> None:
    model = model_for("none")
    engine, other = NativeEngine(model), model_for("geometric:0.5")
    settings = SearchSettings(beam=1)
    with opened(engine) as search:
        with pytest.raises(UsageError, match=r"open search of the native engine cannot: .* of another model; use Eng"):
            search.submit([5], parse_policy("geometric:0.6,0.4,0.5", other), settings)
        with pytest.raises(UsageError, match=r"source tokens are numbers from 0"):
            search.submit([700], FixedExit(1, 4), settings)
        with pytest.raises(UsageError, match=r"forced exits for 2 sentences met a batch of 1"):
            search.submit([5], ForcedExits(torch.tensor([[1], [2]])), settings)
        assert (
            search.submit([5], FixedExit(1, 4), settings).result() == engine.search([[5]], FixedExit(1, 4), settings)[0]
        )
    with pytest.raises(ValueError, match=r"a batch needs a sentence and a thread"):
        NativeEngine(model, threads=0).open_search(batch_tokens=1)


def test_other_engines_say_that_they_have_none() -> None:
    assert TorchEngine(tiny_model()).open_search(batch_tokens=LOTS) is None


def test_a_search_that_nobody_closes_ends_when_it_is_collected() -> None:
    search = opened(NativeEngine(tiny_model()))
    assert isinstance(search, NativeOpenSearch)
    thread, future = search.thread, search.submit([5, 6], FixedExit(4, 4), LONG)
    del search
    gc.collect()
    thread.join(timeout=60)
    assert not thread.is_alive() and future.done()
    assert thread not in threading.enumerate()


FAILURE = f"""
import resource, sys
sys.path.insert(0, {str(ROOT / "tests")!r})
from tiny import tiny_model
from anydepth.errors import AnydepthError
from anydepth.exits.policies import FixedExit
from anydepth.inference.engines.native.native_engine import NativeEngine
from anydepth.search.decoding import SearchSettings

engine = NativeEngine(tiny_model("model.decoder.dim=1200"), threads=2)  # what is asked for fails in large pieces
forgotten = engine.open_search(batch_tokens=10**9)
forgotten.submit([5], FixedExit(4, 4), SearchSettings(beam=5, exact_length=256))
search = engine.open_search(batch_tokens=10**9)
assert search.submit([5], FixedExit(4, 4), SearchSettings(beam=1)).result()
used = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, resource.RLIM_INFINITY))
hungry = [search.submit([5], FixedExit(4, 4), SearchSettings(beam=100, exact_length=256)) for _ in range(20)]
errors = {{str(future.exception(timeout=60)) for future in hungry}}
print(*errors, sep="\\n")
try:
    search.submit([5], FixedExit(4, 4), SearchSettings(beam=1))
except AnydepthError as error:
    print("refused:", error)
search.close()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory are known to work on Linux")
def test_a_worker_that_fails_tells_everyone_and_a_forgotten_search_does_not_keep_the_program() -> None:
    ended = subprocess.run([sys.executable, "-c", FAILURE], cwd=ROOT, capture_output=True, text=True, timeout=200)
    told = "the open search ended with MemoryError: std::bad_alloc; open another one"
    assert ended.stdout.splitlines() == [told, f"refused: {told}"], ended.stderr
    assert (ended.returncode, ended.stderr) == (0, "")
