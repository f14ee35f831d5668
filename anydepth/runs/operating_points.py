"""Operating points: tuned thresholds with what they cost and what they are worth, and the wishes
that choose one."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Literal, get_args

from pydantic import Field

from anydepth.errors import RunError, UsageError
from anydepth.exits.names import THRESHOLD_FAMILIES
from anydepth.exits.parsing import check_not_empty, check_policy, threshold_family
from anydepth.files.reading import Unreadable, checked, json_of
from anydepth.files.seal import write_text
from anydepth.limits import (
    LARGEST_SEED,
    MOST_BATCH_TOKENS,
    MOST_BEAM,
    MOST_BLOCKS,
    MOST_CANDIDATES,
    MOST_ROUNDS,
    MOST_THREADS,
    MOST_UPDATES,
)
from anydepth.runs.fingerprints import selection_fingerprint, weights_fingerprint
from anydepth.runs.run import Run
from anydepth.search.decoding import SearchSettings
from anydepth.vocabulary.names import FULL, parse_vocabulary

ROUNDING = 1e-6
Objective = Literal["time", "flops", "average-exit"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
Judge = Literal["references", "full-depth"]
JUDGES: tuple[Judge, ...] = get_args(Judge)
Bleu = Annotated[float, Field(ge=0, le=100.01)]  # rounding lifts a perfect score above 100


@dataclass(frozen=True)
class OperatingPoint:
    """A policy with its thresholds and the words that it chooses from, and what decoding the
    validation set with it gave: BLEU, AE, and FLOPs and time as shares of full depth's with all
    words."""

    policy: str
    bleu: Bleu
    average_exit: Annotated[float, Field(ge=1, le=MOST_BLOCKS)]
    flops_share: Annotated[float, Field(gt=0, le=1000)]  # deciding may cost more than it saves
    time_share: Annotated[float, Field(gt=0, le=1000)] | None = None  # None where no clock was read
    vocabulary: str = FULL

    def describe(self) -> str:
        """The point in one line."""
        parts = [
            f"BLEU {self.bleu:.2f}",
            f"AE {self.average_exit:.2f}",
            f"{100 * self.flops_share:.0f}% of the FLOPs",
            "" if self.time_share is None else f"{100 * self.time_share:.0f}% of the time",
            "" if self.vocabulary == FULL else f"vocabulary {self.vocabulary}",
        ]
        return f"{self.policy} ({', '.join(part for part in parts if part)})"


@dataclass(frozen=True)
class TimingPlace:
    """Where and how search is timed: the machine, the engine with its precision, and what it
    searches at a time."""

    cpu: str
    cores: Annotated[int, Field(ge=1, le=MOST_UPDATES)]
    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)]
    engine: str
    batch_tokens: Annotated[int, Field(ge=1, le=MOST_BATCH_TOKENS)]
    batch_sentences: Annotated[int, Field(ge=1, le=MOST_UPDATES)] | None

    @property
    def batch(self) -> str:
        """What is searched at a time, in words."""
        if self.batch_sentences is None:
            return f"batches of {self.batch_tokens:,} tokens"
        return f"batches of {self.batch_sentences:,}"

    def describe(self) -> str:
        """The place in one line."""
        return f"{self.cpu}, {self.cores} cores, {self.engine} with {self.threads} threads, {self.batch}"

    def otherwise(self, here: "TimingPlace") -> str:
        """How `here` differs, such as "2 threads, batches of 32"; empty if it does not."""
        parts = [
            f"{here.cpu} with {here.cores} cores" if (here.cpu, here.cores) != (self.cpu, self.cores) else "",
            f"the engine {here.engine}" if here.engine != self.engine else "",
            f"{here.threads} threads" if here.threads != self.threads else "",
            here.batch if here.batch != self.batch else "",
        ]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class ClockRecipe:
    """How the times of a set of points were measured: where, on how many of the validation
    sentences, and in how many rounds."""

    place: TimingPlace
    sentences: Annotated[int, Field(ge=1, le=MOST_UPDATES)]
    rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS)]


@dataclass(frozen=True)
class PointSet:
    """The points that one tuning found, with its recipe; `policy` is the family, such as
    "geometric" or "shortlist:64".

    A run has one set for each family, vocabulary setting and precision.
    """

    policy: str
    method: str
    candidates: Annotated[int, Field(ge=1, le=MOST_CANDIDATES)]
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)]
    beam: Annotated[int, Field(ge=1, le=MOST_BEAM)]
    length_penalty: Annotated[float, Field(ge=0, le=10)]
    valid: str
    valid_fingerprint: str
    sentences: Annotated[int, Field(ge=1, le=MOST_UPDATES)]
    full_depth_bleu: Bleu
    points: tuple[OperatingPoint, ...]
    engine: str = ""  # older points do not say; theirs was one of float32
    objective: Objective = "average-exit"  # the cost whose segments have a point each
    vocabulary: str = FULL
    clock: ClockRecipe | None = None  # where the points have times
    selection: str = ""  # the fingerprint of the word selection that chose the words; empty: all words
    judge: Judge = "references"  # whose translations BLEU compares with

    @property
    def bits(self) -> int:
        """The bits of the engine's products."""
        return engine_bits(self.engine)

    @property
    def measured_as(self) -> tuple[str, str, int, float]:
        """The text, the judge and the search that the points were measured with."""
        return self.valid_fingerprint, self.judge, self.beam, self.length_penalty

    @property
    def identity(self) -> tuple[str, str, int]:
        """What a later tuning has in common with the one whose points it replaces."""
        return self.policy, self.vocabulary, self.bits

    @property
    def name(self) -> str:
        """The family, with the vocabulary setting where that is not all words."""
        return self.policy if self.vocabulary == FULL else f"{self.policy} with {self.vocabulary}"

    def otherwise(self, search: SearchSettings, *, engine: str) -> str:
        """How search here differs from the search that the points were measured with, such as "beam
        5, 8-bit products"; empty if it does not."""
        own, here = self.bits, engine_bits(engine)
        parts = [
            f"beam {search.beam}" if search.beam != self.beam else "",
            f"length penalty {search.length_penalty:g}" if search.length_penalty != self.length_penalty else "",
            f"{here}-bit products" if own != here else "",
        ]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class StoredPoints:
    """operating_points.json: the weights that the points are for, by their fingerprint, and the
    sets."""

    weights: str
    sets: list[PointSet]


@dataclass(frozen=True)
class Wish:
    """What a user wants instead of thresholds: an average exit, a share of the FLOPs or of the
    time, or a loss of BLEU, none of them exceeded."""

    average_exit: float | None = None
    flops: float | None = None
    bleu_drop: float | None = None
    time: float | None = None

    def __post_init__(self) -> None:
        if self.average_exit is not None and not self.average_exit >= 1:
            raise UsageError(f"--average-exit {self.average_exit:g}: no token leaves before block 1; ask for 1 or more")
        if self.flops is not None and not 0 < self.flops <= 1:
            raise UsageError(
                f"--flops {self.flops:g} is a share of the FLOPs of full depth; ask for one between 0 and 1, as in 0.4"
            )
        if self.time is not None and not 0 < self.time <= 1:
            raise UsageError(
                f"--time {self.time:g} is a share of the time of full depth; ask for one between 0 and 1, as in 0.5"
            )
        if self.bleu_drop is not None and not self.bleu_drop >= 0:
            raise UsageError(f"--bleu-drop {self.bleu_drop:g} must not be negative; 0 asks for the BLEU of full depth")

    @property
    def is_empty(self) -> bool:
        """Whether nothing was wished for."""
        return not self.limits_cost and self.bleu_drop is None

    @property
    def limits_cost(self) -> bool:
        """Whether the wish sets a limit of any cost."""
        return self.average_exit is not None or self.flops is not None or self.time is not None

    def describe(self) -> str:
        """The wish in the words of the command line."""
        parts = [
            ("--average-exit", self.average_exit),
            ("--flops", self.flops),
            ("--time", self.time),
            ("--bleu-drop", self.bleu_drop),
        ]
        return " ".join(f"{name} {value:g}" for name, value in parts if value is not None)

    def excess(self, point: OperatingPoint, full_depth_bleu: float) -> float:
        """By how much `point` misses the wish: relative for costs, in BLEU for a loss, the larger
        of them; 0 if it meets it."""
        misses = [0.0]
        if self.average_exit is not None:
            misses.append(point.average_exit / self.average_exit - 1)
        if self.flops is not None:
            misses.append(point.flops_share / self.flops - 1)
        if self.time is not None:
            misses.append(math.inf if point.time_share is None else point.time_share / self.time - 1)
        if self.bleu_drop is not None:
            misses.append(full_depth_bleu - self.bleu_drop - point.bleu)
        return max(misses)


def engine_bits(name: str) -> int:
    """The bits of the products of the engine of that name."""
    return 8 if name.endswith("int8") else 32


def save_points(run: Run, *found: PointSet) -> None:
    """Stores `found` with the run in place of earlier points of the same policy, vocabulary and
    precision; points of other weights are dropped."""
    replaced = {each.identity for each in found}
    kept = [each for each in kept_points(run) if each.identity not in replaced]
    values = {"weights": weights_fingerprint(run), "sets": [asdict(each) for each in [*kept, *found]]}
    write_text(run.points_file, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def kept_points(run: Run) -> list[PointSet]:
    """The point sets of the run that are those of its present weights and word selections, if
    any."""
    weights, sets = _read(run) if run.seal.has(run.points_file) else ("", [])
    return of_present_words(run, sets) if weights == weights_fingerprint(run) else []


def of_present_words(run: Run, sets: Sequence[PointSet]) -> list[PointSet]:
    """The sets that were measured with the word selections that the run has now."""
    return [each for each in sets if each.selection == selection_fingerprint(run, each.vocabulary)]


def load_points(run: Run, *, blocks: int | None = None) -> list[PointSet]:
    """The point sets of the run; there must be some, and they must be those of its present weights.

    With `blocks`, the depth of its model, points that no such model has are refused, too.
    """
    if not run.seal.has(run.points_file):
        raise RunError(
            f"{run.folder} has no operating points; find some with `anydepth tune {run.folder} --valid PREFIX`"
        )
    weights, sets = _read(run, blocks=blocks)
    if weights != weights_fingerprint(run):
        raise RunError(
            f"the operating points of {run.folder} were tuned for other weights than it has now; "
            f"tune again with `anydepth tune {run.folder} --valid PREFIX`"
        )
    present = of_present_words(run, sets)
    if sets and not present:
        raise RunError(
            f"the operating points of {run.folder} were tuned with another word selection than it has now; "
            f"tune again with `anydepth tune {run.folder} --valid PREFIX`"
        )
    return present


def choose_point(
    sets: Sequence[PointSet],
    wish: Wish,
    *,
    policy: str | None = None,
    vocabulary: str | None = None,
    bits: int | None = None,
) -> tuple[OperatingPoint, PointSet]:
    """The point that meets `wish` best and the set that has it, of `policy` and `vocabulary` alone
    where they are named, and of the precision of `bits` where there are such points.

    With a limit of cost that is the highest BLEU; with a limit of loss alone the least time, or the
    lowest FLOPs where no time was measured. A wish that no point meets is refused, and the nearest
    point named.
    """
    named = _named_sets(sets, policy, vocabulary)
    alike = [each for each in named if each.bits == bits] or named
    _check_measured_alike(alike, wish)
    places = [(wish.excess(point, each.full_depth_bleu), point, each) for each in alike for point in each.points]
    if wish.time is not None and all(point.time_share is None for _, point, _ in places):
        raise UsageError(
            f"{wish.describe()}: the operating points have no times; measure them with `anydepth tune RUN --clock-only`"
        )
    fitting = [(point, each) for excess, point, each in places if excess <= 0]
    if not fitting:
        nearest = min(places, key=lambda place: place[0])[1]
        raise UsageError(f"no operating point meets {wish.describe()}; the nearest is {nearest.describe()}")
    if wish.limits_cost:
        return max(fitting, key=lambda place: (place[0].bleu, -_cost(place[0], wish)))
    timed = [place for place in fitting if place[0].time_share is not None]
    return min(timed or fitting, key=lambda place: (_cost(place[0], wish), -place[0].bleu))


def _named_sets(sets: Sequence[PointSet], policy: str | None, vocabulary: str | None) -> list[PointSet]:
    """The sets of a policy and a vocabulary setting, of all where they are None; there must be
    some."""
    check_not_empty(policy)
    named = [
        each
        for each in sets
        if (policy is None or policy in (each.policy, each.policy.partition(":")[0]))
        and (vocabulary is None or vocabulary == each.vocabulary)
    ]
    if not any(each.points for each in named):
        wanted = " with ".join(part for part in (policy, vocabulary and f"--vocabulary {vocabulary}") if part)
        raise UsageError(
            f"there are no operating points of {wanted}, only of {', '.join(each.name for each in sets)}; "
            "`anydepth tune RUN --valid PREFIX --policy POLICY` finds those of other policies that have thresholds"
        )
    return named


def _check_measured_alike(sets: Sequence[PointSet], wish: Wish) -> None:
    """Refuses to compare points of different texts and searches, and times of different clocks
    where times decide."""
    if len({each.measured_as for each in sets}) > 1:
        ways = ", ".join(
            f"{each.name} ({each.valid}, judged by {each.judge}, beam {each.beam}, length penalty "
            f"{each.length_penalty:g})"
            for each in sets
        )
        raise UsageError(
            f"the operating points were measured in different ways: {ways}; name one with --policy, or tune them alike"
        )
    places = {each.name: each.clock.place for each in sets if each.clock is not None}
    is_by_time = wish.time is not None or not wish.limits_cost
    if is_by_time and len(set(places.values())) > 1:
        ways = ", ".join(f"{name} ({place.describe()})" for name, place in places.items())
        raise UsageError(
            f"the times of the operating points were measured in different ways: {ways}; name one with --policy, or "
            "measure them alike with `anydepth tune RUN --clock-only`"
        )


def _cost(point: OperatingPoint, wish: Wish) -> float:
    """What points of equal worth are compared by: time where that is wished for or nothing else is
    limited, else FLOPs."""
    is_by_time = wish.time is not None or not wish.limits_cost
    return point.flops_share if point.time_share is None or not is_by_time else point.time_share


def check_points(sets: Sequence[PointSet], *, blocks: int | None = None) -> None:
    """Refuses points that no tuning can have found: of a policy without thresholds, or of another
    family than their set's."""
    for each in sets:
        name, _, argument = each.policy.partition(":")
        if name not in THRESHOLD_FAMILIES or threshold_family(name, argument) != (each.policy, ""):
            raise UsageError(f"{each.policy} is no family of policies, as geometric and shortlist:64 are")
        parse_vocabulary(each.vocabulary)
        for point in each.points:
            check_policy(point.policy, blocks=blocks, family=each.policy)
            if point.vocabulary not in (each.vocabulary, FULL):
                raise UsageError(
                    f"{point.policy} has the vocabulary {point.vocabulary}, but its set is of {each.vocabulary}"
                )
            if point.time_share is not None and each.clock is None:
                raise UsageError(f"{point.policy} has a time, but its set does not say with which clock")
            if blocks is not None and point.average_exit > blocks + ROUNDING:
                raise UsageError(
                    f"{point.policy} has an average exit of {point.average_exit:g}, but the model has {blocks} blocks"
                )


def _read(run: Run, *, blocks: int | None = None) -> tuple[str, list[PointSet]]:
    """The fingerprint of the weights and the point sets that `save_points` wrote."""
    try:
        stored = checked(StoredPoints, json_of(run.seal.read(run.points_file)))
        check_points(stored.sets, blocks=blocks)
    except (Unreadable, UsageError) as error:
        if isinstance(error, RunError):
            raise
        cure = f"remove it, call `anydepth seal {run.folder}` and tune again"
        raise RunError(f"{run.points_file} cannot be read as operating points ({error}); {cure}") from error
    return stored.weights, stored.sets
