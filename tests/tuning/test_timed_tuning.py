"""Tuning for time, with a clock that goes by what the engine does: no test reads a real one."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from evaluation.translators import quiet
from tiny import BLOCKS

from anydepth.errors import CorpusError
from anydepth.exits.policies import Policy
from anydepth.exits.thresholds import ThresholdExit
from anydepth.inference.engines.engine import Engine
from anydepth.inference.translator import Translator
from anydepth.runs.operating_points import OperatingPoint, PointSet, Wish, choose_point, load_points, save_points
from anydepth.runs.run import Run
from anydepth.search.beam import Hypothesis
from anydepth.search.decoding import GREEDY, SearchSettings
from anydepth.tuning.clock_only import time_run
from anydepth.tuning.decoded_points import DecodedPoints, TunedSearch
from anydepth.tuning.prices import SearchWork
from anydepth.tuning.timed_points import PointTimer, probing_searches, spread_out
from anydepth.tuning.tune import Tuner, TuneSettings, tune_run, tune_sets
from anydepth.tuning.valid_text import validation_text

TIMED = TuneSettings(objective="time", candidates=60, segment=0.1, decoded=2, decoding=GREEDY, rounds=3)


class WorkClock:
    """A clock that stands still but while an engine searches: a sentence takes 3, a block 2 and a
    look 1."""

    def __init__(self) -> None:
        self.now, self.look = 0.0, 1.0

    def __call__(self) -> float:
        return self.now

    def taken(self, policy: Policy, found: Sequence[Sequence[Hypothesis]]) -> float:
        """The time of a search that found this."""
        exits = [left for hypotheses in found for left in hypotheses[0].exits]
        thresholds = policy.thresholds if isinstance(policy, ThresholdExit) else ()
        looks = [n for n, each in enumerate(thresholds, 1) if 0 < each < 1]
        return 3 * len(found) + sum(2 * left + self.look * sum(n <= left for n in looks) for left in exits)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> WorkClock:
    """The clock, which every search of any engine moves on."""
    made, search = WorkClock(), Engine.search

    def timed_search(
        engine: Engine, sentences: Sequence[Sequence[int]], policy: Policy, settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        found = search(engine, sentences, policy, settings)
        made.now += made.taken(policy, found)
        return found

    monkeypatch.setattr(Engine, "search", timed_search)
    return made


def share(run: Run, held: str, policy: str, clock: WorkClock) -> float:
    """The time of a policy on all sentences over that of full depth, by the clock's own rule."""
    translator = Translator.load(run.folder)
    lines = Path(f"{held}.de").read_text(encoding="utf-8").splitlines()
    ids = translator.source_tokenizer.encode_lines(lines)
    settings = GREEDY.resolved(translator.config)

    def taken(name: str | None) -> float:
        chosen = translator.policy(name)
        return clock.taken(chosen, translator.engine.own_search(ids, chosen, settings))

    return taken(policy) / taken(None)


@pytest.mark.parametrize("batch", [None, 1, 3])
def test_every_stored_time_is_what_the_clock_told(run: Run, held: str, clock: WorkClock, batch: int | None) -> None:
    found = tune_run(run.folder, held, "confidence", replace(TIMED, batch=batch), say=quiet, clock=clock)
    assert load_points(run) == [found]
    *others, full = found.points
    assert (full.policy, full.time_share) == (f"fixed:{BLOCKS}", 1.0)
    assert len(others) > 1
    for point in others:
        assert point.time_share == pytest.approx(share(run, held, point.policy, clock))
    assert found.objective == "time" and found.clock is not None
    assert (found.clock.sentences, found.clock.rounds, found.clock.place.batch_sentences) == (7, 3, batch)
    assert found.clock.place.engine == found.engine


def test_every_point_is_worth_more_than_those_that_cost_less(run: Run, held: str, clock: WorkClock) -> None:
    for objective in ("time", "flops"):
        settings = replace(TIMED, objective=objective)  # type: ignore[arg-type]
        found = tune_run(run.folder, held, "confidence", settings, say=quiet, clock=clock)
        *kept, _ = found.points
        costs = [point.time_share if objective == "time" else point.flops_share for point in kept]
        assert all(costs) and costs == sorted(costs, key=lambda cost: cost or 0)
        bleus = [point.bleu for point in kept]
        assert bleus == sorted(set(bleus))


def test_a_fixed_exit_is_a_point_where_deciding_is_too_dear(run: Run, held: str, clock: WorkClock) -> None:
    clock.look = 1000.0
    found = tune_run(run.folder, held, "confidence", TIMED, say=quiet, clock=clock)
    assert found.points and all(point.policy.startswith("fixed:") for point in found.points)


def test_prices_are_those_of_the_clock(run: Run, held: str, clock: WorkClock) -> None:
    told: list[str] = []
    tune_run(run.folder, held, "confidence", TIMED, say=told.append, clock=clock)
    (prices,) = (line for line in told if line.startswith("prices in microseconds: "))
    assert prices.endswith("the timed searches lie within 0% of them")


def test_probing_searches_differ_in_what_they_do(run: Run, held: str) -> None:
    translator = Translator.load(run.folder)
    decoded = DecodedPoints(translator, run, validation_text(run, held, quiet), GREEDY, quiet)
    tuner = Tuner(decoded, "confidence", None, TIMED)
    own = tuner.record(decoded.text.references)
    searches = probing_searches(own, translator.engine, None)
    assert [search.policy.name for search in searches[:2]] == ["fixed:1", "fixed:2"]
    works = set()
    for search in searches:
        found = translator.engine.search(decoded.sentences, search.policy, decoded.search)
        exits = [best.exits for best, *_ in found]
        works.add(SearchWork.of_search(decoded.shape, search.policy, exits, None))
    assert len(works) == len(searches) == 6


def test_decodings_are_remembered_and_times_are_not(run: Run, held: str, clock: WorkClock) -> None:
    first = tune_run(run.folder, held, "confidence", TIMED, say=quiet, clock=clock)
    memory = (run.folder / "tuning.jsonl").read_bytes()
    assert b'"time_share": null' in memory and b'"time_share": 0' not in memory
    assert tune_run(run.folder, held, "confidence", TIMED, say=quiet, clock=clock) == first
    assert (run.folder / "tuning.jsonl").read_bytes() == memory


def test_several_policies_are_tuned_together_and_compared(run: Run, held: str, clock: WorkClock) -> None:
    sets = tune_sets(
        run.folder, held, ["confidence", "geometric", "confidence"], ["full"], TIMED, say=quiet, clock=clock
    )
    assert [found.policy for found in sets] == ["confidence", "geometric"]
    assert load_points(run) == sets
    every = [point for found in sets for point in found.points if (point.time_share or 9) <= 0.8]
    chosen, _ = choose_point(sets, Wish(time=0.8))
    assert chosen.bleu == max(point.bleu for point in every)


def test_without_an_objective_it_is_time_where_the_native_engine_is_and_else_flops(
    run: Run, held: str, clock: WorkClock
) -> None:
    found = tune_run(run.folder, held, None, replace(TIMED, objective=None), say=quiet, clock=clock)
    is_native = Translator.load(run.folder).engine.name.startswith("native")
    assert found.objective == ("time" if is_native else "flops")
    assert (found.clock is not None) == is_native


@pytest.fixture
def stored(run: Run, held: str, clock: WorkClock) -> PointSet:
    return tune_run(run.folder, held, "confidence", TIMED, say=quiet, clock=clock)


def test_times_alone_are_measured_again(run: Run, stored: PointSet, clock: WorkClock) -> None:
    clock.look = 5.0
    (again,) = time_run(run.folder, None, replace(TIMED, batch=2, rounds=2), say=quiet, clock=clock)
    assert load_points(run) == [again]

    def without_time(point: OperatingPoint) -> OperatingPoint:
        return replace(point, time_share=None)

    assert list(map(without_time, again.points)) == list(map(without_time, stored.points))
    assert again.points[-1].time_share == 1.0
    for new, old in zip(again.points, stored.points, strict=True):
        assert new.time_share is not None and old.time_share is not None
        assert (new.time_share > old.time_share) == (not new.policy.startswith("fixed:"))
    assert again.clock is not None and again.clock.rounds == 2 and again.clock.place.batch_sentences == 2


def test_points_that_never_had_times_get_them(run: Run, stored: PointSet, clock: WorkClock) -> None:
    bare = replace(stored, clock=None, points=tuple(replace(point, time_share=None) for point in stored.points))
    save_points(run, bare)
    (timed,) = time_run(run.folder, None, TIMED, say=quiet, clock=clock)
    assert timed.points == stored.points and timed.clock == stored.clock


def test_without_the_text_that_was_tuned_on_another_is_named(
    run: Run, held: str, stored: PointSet, clock: WorkClock
) -> None:
    save_points(run, replace(stored, valid="gone"))
    with pytest.raises(CorpusError, match=r"gone\.de.*; name the text to time with --valid PREFIX"):
        time_run(run.folder, None, TIMED, say=quiet, clock=clock)
    (timed,) = time_run(run.folder, held, TIMED, say=quiet, clock=clock)
    assert timed.points == stored.points


@pytest.mark.parametrize(("count", "numbers"), [(1, [0]), (3, [0, 3, 6]), (10, list(range(10))), (99, list(range(10)))])
def test_the_sentences_that_are_timed_are_spread_over_the_text(count: int, numbers: list[int]) -> None:
    assert spread_out([[1]] * 10, count) == numbers


def test_a_share_is_the_median_of_the_shares_of_the_rounds(trained: Run) -> None:
    translator = Translator.load(trained.folder)
    ticks = iter([0, 10, 10, 12, 12, 16, 16, 36, 36, 46, 46, 56])  # rounds: 2/10, 4/20 in turn, 10/10

    timer = PointTimer(
        translator.engine, [[5]], GREEDY.resolved(translator.config), None, 3, lambda: float(next(ticks)), quiet
    )
    assert timer.time_shares([TunedSearch(translator.policy("fixed:1"))]) == [pytest.approx(0.2)]
