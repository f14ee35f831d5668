"""Tuning: thresholds for every budget of time, FLOPs or average exit, found by replay or, as in the
paper, by decoding every candidate (section 3.2)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from anydepth.clock.rounds import Clock
from anydepth.errors import UsageError
from anydepth.exits.halting import GeometricHalting
from anydepth.exits.parsing import TRAINED, check_not_empty, threshold_family, threshold_policy
from anydepth.exits.policies import FixedExit
from anydepth.exits.thresholds import is_deciding
from anydepth.inference.engines.native.native_engine import NativeEngine
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say
from anydepth.runs.operating_points import (
    OBJECTIVES,
    Judge,
    Objective,
    OperatingPoint,
    PointSet,
    kept_points,
    save_points,
)
from anydepth.runs.run import Run, changing
from anydepth.search.decoding import AS_CONFIGURED, DecodingOptions
from anydepth.tuning.candidates import (
    DIGITS,
    decision_patterns,
    for_missed_segments,
    promising,
    rank_correlation,
    search_candidates,
    segment_numbers,
)
from anydepth.tuning.decoded_points import DecodedPoints, TunedSearch
from anydepth.tuning.prices import PriceList
from anydepth.tuning.replay import Replayed, ReplayRecord, record
from anydepth.tuning.timed_points import PointTimer, spread_out
from anydepth.tuning.valid_text import validation_text
from anydepth.vocabulary.names import FULL
from anydepth.vocabulary.selection import WordSelection

# Where nobody says: the width of the segments, and how many candidates are decoded in each. Replay
# ranks thresholds of the same exits well, and less well which exits should decide.
SEGMENTS = {"time": 0.05, "flops": 0.05, "average-exit": 0.25}
DECODED = 3
CLEARLY = 0.9  # of a time: what is expected to take less is taken to be faster without a look at the clock


@dataclass(frozen=True, kw_only=True)
class TuneSettings:
    """How thresholds are looked for: the cost that is to be low, how many candidates there are, and
    how many of each segment of that cost are decoded.

    Without an objective it is time where the native engine is at hand, else FLOPs. BLEU compares
    with the references, or with what full depth makes of the same sources: that judges points by
    what leaving early changes, with far less chance in it than there is in references. `batch`,
    `rounds` and `timed` tell how the clock is read: how many sentences are searched at a time
    (None: as the decoding settings have it), how often, and on how many of them.
    """

    objective: Objective | None = None
    judge: Judge = "references"
    method: str = "replay"
    candidates: int = 10_000
    segment: float | None = None
    decoded: int | None = None
    seed: int = 1
    decoding: DecodingOptions = AS_CONFIGURED
    int8: bool = False
    batch: int | None = None
    rounds: int = 5
    timed: int = 200

    def __post_init__(self) -> None:
        if self.method not in ("replay", "decode"):
            raise UsageError(f"--method {self.method} is unknown; use replay or decode")
        if self.objective not in (None, *OBJECTIVES):
            raise UsageError(f"--objective {self.objective} is unknown; use {', '.join(OBJECTIVES)}")
        if (
            self.candidates < 1
            or (self.decoded is not None and self.decoded < 1)
            or not (self.segment is None or self.segment > 0)
        ):
            raise UsageError("tuning needs at least one candidate, one decoding a segment and segments wider than 0")
        named = {"--batch": self.batch, "--rounds": self.rounds, "--timed": self.timed}
        for name, value in named.items():
            if value is not None and value < 1:
                raise UsageError(f"{name} {value} leaves nothing to time; set it to 1 or more")


def tune_run(
    folder: Path, valid: str, policy: str | None, settings: TuneSettings, *, say: Say, clock: Clock = time.perf_counter
) -> PointSet:
    """`tune_sets` for one policy, with the run's own vocabulary setting."""
    return tune_sets(folder, valid, [policy], [None], settings, say=say, clock=clock)[0]


def tune_sets(
    folder: Path,
    valid: str,
    policies: Sequence[str | None],
    vocabularies: Sequence[str | None],
    settings: TuneSettings,
    *,
    say: Say,
    clock: Clock = time.perf_counter,
) -> list[PointSet]:
    """The operating points of the run at `folder` on PREFIX `valid`, stored with it: for every
    policy and vocabulary setting the best BLEU in each segment of the cost.

    Every point has been measured by decoding, and the last is full depth itself. A policy is the
    family to tune; None is geometric where the run has it, else confidence. A vocabulary setting of
    None is the run's own.
    """
    with changing(folder):
        translator, run = Translator.load(folder, int8=settings.int8), Run(folder)
        families = [tunable_family(policy, translator) for policy in policies]
        searches = [translator.search_settings(replace(settings.decoding, vocabulary=each)) for each in vocabularies]
        selections = list(dict.fromkeys(search.words for search in searches))
        kept_points(run)  # a damaged file is reported before the work and not after it
        decoded = DecodedPoints(translator, run, validation_text(run, valid, say), settings.decoding, say)
        if settings.judge == "full-depth":
            decoded = decoded.judged_by_full_depth()
        sets = []
        for family in dict.fromkeys(families):
            for words in {FULL if words is None else words.name: words for words in selections}.values():
                sets.append(Tuner(decoded, family, words, settings, clock).tuned())
                save_points(run, sets[-1])
        return sets


def tunable_family(policy: str | None, translator: Translator) -> str:
    """The family to tune, checked against the model; its name may carry a shortlist's size but no
    thresholds."""
    model = translator.model
    if len(model.config.classifier_exits) < model.blocks or model.blocks == 1:
        raise UsageError("this model has one exit only, so there are no thresholds to tune")
    check_not_empty(policy)
    if policy is None:
        return "geometric" if isinstance(model.halting, GeometricHalting) else "confidence"
    name, _, argument = policy.strip().partition(":")
    if name in TRAINED and name != "geometric":
        raise UsageError(
            f"--policy {policy}: {name} takes the most probable exit and has no thresholds to tune; its depth is "
            "set by exits.exit_penalty"
        )
    family, values = threshold_family(name, argument)
    family = threshold_policy(
        family, [0.5] * (model.blocks - 1), model
    ).family  # refuses what has no thresholds, or not in this model
    if values:
        raise UsageError(f"--policy {policy}: tuning finds the thresholds; name the policy alone, as in {family}")
    return family


class Tuner:
    """One tuning: a family of policies that chooses from some words, for one objective."""

    def __init__(
        self,
        decoded: DecodedPoints,
        family: str,
        words: WordSelection | None,
        settings: TuneSettings,
        clock: Clock = time.perf_counter,
    ) -> None:
        self.decoded, self.family, self.words, self.settings, self.say = decoded, family, words, settings, decoded.say
        engine = decoded.translator.engine
        is_fast = isinstance(engine, NativeEngine)
        self.objective: Objective = settings.objective or ("time" if is_fast else "flops")
        self.segment = SEGMENTS[self.objective] if settings.segment is None else settings.segment
        self.per_segment = DECODED if settings.decoded is None else settings.decoded
        self.decisions = decoded.blocks - 1
        self.timed_numbers = spread_out(decoded.sentences, settings.timed)
        timed = [decoded.sentences[number] for number in self.timed_numbers]
        self.timer = PointTimer(engine, timed, decoded.search, settings.batch, settings.rounds, clock, self.say)

    def tuned(self) -> PointSet:
        """The points that are worth their cost."""
        settings, decoded = self.settings, self.decoded
        vocabulary = TunedSearch(FixedExit(1, decoded.blocks), self.words).vocabulary
        among = "" if vocabulary == FULL else f" with {vocabulary}"
        self.say(
            f"tuning {self.family}{among} for {self.objective} on {len(decoded.text.sources):,} sentences by "
            f"{settings.method} of {settings.candidates:,} candidates"
        )
        full, texts = decoded.full_depth()
        measured = self.by_decoding() if settings.method == "decode" else self.by_replay(texts)
        is_timed = self.objective == "time"
        return PointSet(
            policy=self.family,
            method=settings.method,
            candidates=settings.candidates,
            seed=settings.seed,
            beam=decoded.search.beam,
            length_penalty=decoded.search.length_penalty,
            valid=decoded.text.prefix,
            valid_fingerprint=decoded.text.fingerprint,
            sentences=len(decoded.text.sources),
            full_depth_bleu=decoded.judge_bleu(full),
            points=(*self.best_of_segments(measured), replace(full, time_share=1.0 if is_timed else None)),
            engine=decoded.translator.engine.name,
            objective=self.objective,
            vocabulary=vocabulary,
            clock=self.timer.recipe if is_timed else None,
            selection=decoded.selection(vocabulary),
            judge=settings.judge,
        )

    def by_decoding(self) -> list[OperatingPoint]:
        """Every candidate decoded: thresholds drawn from U(0, 1)^(N - 1), as in the paper (section
        3.2)."""
        generator = np.random.default_rng(self.settings.seed)
        candidates = np.round(generator.random((self.settings.candidates, self.decisions)), DIGITS)
        return self.measured([*self.fixed_exits(), *self.searches(candidates)])

    def by_replay(self, full: list[str]) -> list[OperatingPoint]:
        """All candidates scored on two records, and the best of each segment decoded.

        Cost is read off the model's own translations at full depth, quality off the references, which
        may be the same: the mean log-likelihood of their words at the exits taken.
        """
        references = self.decoded.text.references
        own = self.record(full)
        given = own if references == full else self.record(references)
        prices = self.prices(own)

        def cost_of(replayed: Replayed) -> Float[np.ndarray, " candidate"]:
            return self.replayed_costs(own, replayed, prices)

        segment, count = self.segment, self.settings.candidates
        candidates, taken, worth = search_candidates(
            own, given, cost_of, count=count, segment=segment, seed=self.settings.seed
        )
        sensible = self.sensible(candidates, cost_of(taken))
        costs, quality = cost_of(taken)[sensible], worth.log_likelihoods[sensible]
        candidates = candidates[sensible]
        patterns = None if self.objective == "average-exit" else decision_patterns(candidates)
        chosen = promising(costs, quality, segment=segment, count=self.per_segment, patterns=patterns)
        exits, shares = (f"{min(each):.2f}-{max(each):.2f}" for each in (taken.average_exits, taken.flops_shares))
        self.say(
            f"replayed {count:,} candidates (AE {exits}, FLOPs {shares} of full depth); decoding the "
            f"{len(chosen)} most promising"
        )
        fixed = self.measured(self.fixed_exits())
        searches = self.searches(candidates[chosen])
        found = self.decoded.measured(searches)
        correlation = rank_correlation([point.bleu for point in found], quality[chosen])
        if not np.isnan(correlation):
            self.say(f"rank correlation (Spearman) of what replay expected and what decoding gave: {correlation:.2f}")
        hopeful = self.hopeful(found, costs[chosen])
        points = self.timed([searches[place] for place in hopeful], [found[place] for place in hopeful])
        decoded = np.array([self.cost(point) for point in points])
        least = 1.0 if self.objective == "average-exit" else 0.0
        missed = for_missed_segments(costs, quality, chosen[hopeful], decoded, segment=segment, least=least)
        missed = np.setdiff1d(missed, chosen)
        if len(missed):
            self.say(f"decoding {len(missed)} more for segments whose candidates came out in others")
        return [*fixed, *points, *self.measured(self.searches(candidates[missed]))]

    def hopeful(self, points: Sequence[OperatingPoint], expected: Float[np.ndarray, " point"]) -> list[int]:
        """The places of the points that are worth a look at the clock: those that no other beats in
        BLEU at a time that is clearly shorter by what replay expects."""
        if self.objective != "time":
            return list(range(len(points)))
        return [
            place
            for place, point in enumerate(points)
            if not any(
                other.bleu >= point.bleu and cost < CLEARLY * expected[place]
                for other, cost in zip(points, expected.tolist(), strict=True)
            )
        ]

    def sensible(
        self, candidates: Float[np.ndarray, "candidate decision"], costs: Float[np.ndarray, " candidate"]
    ) -> Int[np.ndarray, " sensible"]:
        """The candidates that are looked at: for time and FLOPs those that decide anything, which
        `fixed_exits` do not, and are expected to cost less than full depth."""
        if self.objective == "average-exit":
            return np.arange(len(candidates))
        return np.flatnonzero(is_deciding(candidates).any(axis=1) & (costs < 1))

    def record(self, targets: Sequence[str]) -> ReplayRecord:
        """What every exit says of these targets, one for each line of the text."""
        model = self.decoded.model
        policy = threshold_policy(self.family, [0.5] * self.decisions, model)
        return record(model, self.decoded.pairs(targets), policy, self.words)

    def prices(self, own: ReplayRecord) -> PriceList | None:
        """What the engine's work costs, where time is the objective."""
        if self.objective != "time":
            return None
        sizes = self.decoded.sizes(self.words)
        return self.timer.fitted_prices(
            own, self.words, None if sizes is None else [sizes[number] for number in self.timed_numbers]
        )

    def replayed_costs(
        self, own: ReplayRecord, replayed: Replayed, prices: PriceList | None
    ) -> Float[np.ndarray, " candidate"]:
        """The objective's cost of each candidate, as replay expects it."""
        match self.objective:
            case "average-exit":
                return replayed.average_exits
            case "flops":
                return replayed.flops_shares
            case "time":
                assert prices is not None, "prices are fitted where time is the objective"
                return prices.time_shares(own, replayed)

    def cost(self, point: OperatingPoint) -> float:
        """The objective's cost of a measured point."""
        match self.objective:
            case "average-exit":
                return point.average_exit
            case "flops":
                return point.flops_share
            case "time":
                assert point.time_share is not None, "points are timed where time is the objective"
                return point.time_share

    def fixed_exits(self) -> list[TunedSearch]:
        """The rivals that decide nothing: every exit below full depth, and full depth where its
        words are selected.

        The average exit takes no account of what a decision costs, so none is among its points.
        """
        if self.objective == "average-exit":
            return []
        blocks = self.decoded.blocks
        last = blocks if self.words is not None else blocks - 1
        return [TunedSearch(FixedExit(n, blocks), self.words) for n in range(1, last + 1)]

    def searches(self, candidates: Float[np.ndarray, "candidate decision"]) -> list[TunedSearch]:
        """The candidates as searches."""
        model = self.decoded.model
        return [
            TunedSearch(threshold_policy(self.family, thresholds, model), self.words)
            for thresholds in candidates.tolist()
        ]

    def measured(self, searches: Sequence[TunedSearch]) -> list[OperatingPoint]:
        """The points of the searches, with their times where time is the objective."""
        return self.timed(searches, self.decoded.measured(searches) if searches else [])

    def timed(self, searches: Sequence[TunedSearch], points: Sequence[OperatingPoint]) -> list[OperatingPoint]:
        """The points of the searches with their times, where time is the objective."""
        if self.objective != "time" or not points:
            return list(points)
        shares = self.timer.time_shares(searches)
        return [replace(point, time_share=share) for point, share in zip(points, shares, strict=True)]

    def best_of_segments(self, points: Sequence[OperatingPoint]) -> list[OperatingPoint]:
        """The point of the highest BLEU in each segment of the cost, lowest cost first; for time
        and FLOPs without those that cost more than another and are worth no more."""
        edges = segment_numbers(np.array([self.cost(point) for point in points]), self.segment)
        best = [
            max(
                (point for at, point in zip(edges, points, strict=True) if at == number),
                key=lambda point: (point.bleu, -self.cost(point)),
            )
            for number in sorted(set(edges.tolist()))
        ]
        if self.objective == "average-exit":
            return best
        kept: list[OperatingPoint] = []
        for point in sorted(best, key=lambda point: (self.cost(point), -point.bleu)):
            if not kept or point.bleu > kept[-1].bleu:
                kept.append(point)
        return kept
