"""Operating points: tuned thresholds with what they cost and what they are worth, and the wishes
that choose one."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

from pydantic import Field

from anydepth.errors import RunError, UsageError
from anydepth.exits.names import THRESHOLD_FAMILIES
from anydepth.exits.parsing import check_not_empty, check_policy, threshold_family
from anydepth.files.checksums import known_hash
from anydepth.files.reading import Unreadable, checked, json_of
from anydepth.files.seal import write_text
from anydepth.limits import LARGEST_SEED, MOST_BEAM, MOST_BLOCKS, MOST_CANDIDATES, MOST_UPDATES
from anydepth.runs.run import Run
from anydepth.search.decoding import SearchSettings
from anydepth.text.corpus import side_path

ROUNDING = 1e-6
Bleu = Annotated[float, Field(ge=0, le=100.01)]  # rounding lifts a perfect score above 100


@dataclass(frozen=True)
class OperatingPoint:
    """A policy with its thresholds, and what decoding the validation set with it gave: BLEU, AE,
    and FLOPs as a share of full depth."""

    policy: str
    bleu: Bleu
    average_exit: Annotated[float, Field(ge=1, le=MOST_BLOCKS)]
    flops_share: Annotated[float, Field(gt=0, le=1000)]  # deciding may cost more than it saves

    def describe(self) -> str:
        """The point in one line."""
        return (
            f"{self.policy} (BLEU {self.bleu:.2f}, AE {self.average_exit:.2f}, {100 * self.flops_share:.0f}% of "
            "the FLOPs)"
        )


@dataclass(frozen=True)
class PointSet:
    """The points that one tuning found, with its recipe; `policy` is the family, such as
    "geometric" or "shortlist:64"."""

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

    def otherwise(self, search: SearchSettings, *, engine: str) -> str:
        """How search here differs from the search that the points were measured with, such as "beam
        5, 8-bit products"; empty if it does not."""
        own, here = (8 if name.endswith("int8") else 32 for name in (self.engine, engine))
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
    """What a user wants instead of thresholds: an average exit, a share of the FLOPs, or a loss of
    BLEU, none of them exceeded."""

    average_exit: float | None = None
    flops: float | None = None
    bleu_drop: float | None = None

    def __post_init__(self) -> None:
        if self.average_exit is not None and not self.average_exit >= 1:
            raise UsageError(f"--average-exit {self.average_exit:g}: no token leaves before block 1; ask for 1 or more")
        if self.flops is not None and not 0 < self.flops <= 1:
            raise UsageError(
                f"--flops {self.flops:g} is a share of the FLOPs of full depth; ask for one between 0 and 1, as in 0.4"
            )
        if self.bleu_drop is not None and not self.bleu_drop >= 0:
            raise UsageError(f"--bleu-drop {self.bleu_drop:g} must not be negative; 0 asks for the BLEU of full depth")

    @property
    def is_empty(self) -> bool:
        """Whether nothing was wished for."""
        return self.average_exit is None and self.flops is None and self.bleu_drop is None

    def describe(self) -> str:
        """The wish in the words of the command line."""
        parts = [("--average-exit", self.average_exit), ("--flops", self.flops), ("--bleu-drop", self.bleu_drop)]
        return " ".join(f"{name} {value:g}" for name, value in parts if value is not None)

    def excess(self, point: OperatingPoint, full_depth_bleu: float) -> float:
        """By how much `point` misses the wish: relative for costs, in BLEU for a loss, the larger
        of them; 0 if it meets it."""
        misses = [0.0]
        if self.average_exit is not None:
            misses.append(point.average_exit / self.average_exit - 1)
        if self.flops is not None:
            misses.append(point.flops_share / self.flops - 1)
        if self.bleu_drop is not None:
            misses.append(full_depth_bleu - self.bleu_drop - point.bleu)
        return max(misses)


def weights_fingerprint(run: Run) -> str:
    """What distinguishes the weights of a run from all others."""
    return known_hash(run.weights_file)


def text_fingerprint(prefix: str, *languages: str) -> str:
    """What distinguishes the text PREFIX from all others, whatever its name."""
    return "-".join(known_hash(side_path(prefix, language))[:16] for language in languages)


def save_points(run: Run, found: PointSet) -> None:
    """Stores `found` with the run in place of earlier points of the same policy; points of other
    weights are dropped."""
    kept = [each for each in kept_points(run) if each.policy != found.policy]
    values = {"weights": weights_fingerprint(run), "sets": [asdict(each) for each in [*kept, found]]}
    write_text(run.points_file, json.dumps(values, indent=1, ensure_ascii=False) + "\n")


def kept_points(run: Run) -> list[PointSet]:
    """The point sets of the run that are those of its present weights, if any."""
    weights, sets = _read(run) if run.seal.has(run.points_file) else ("", [])
    return sets if weights == weights_fingerprint(run) else []


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
    return sets


def choose_point(sets: Sequence[PointSet], wish: Wish, *, policy: str | None = None) -> OperatingPoint:
    """The point that meets `wish` best, of `policy` alone where one is named.

    With a limit of cost that is the highest BLEU, with a limit of loss alone the lowest FLOPs. A
    wish that no point meets is refused, and the nearest point named.
    """
    check_not_empty(policy)
    named = [each for each in sets if policy is None or policy in (each.policy, each.policy.partition(":")[0])]
    if len({(each.valid_fingerprint, each.beam, each.length_penalty) for each in named}) > 1:
        ways = ", ".join(
            f"{each.policy} ({each.valid}, beam {each.beam}, length penalty {each.length_penalty:g})" for each in named
        )
        raise UsageError(
            f"the operating points were measured in different ways: {ways}; name one with --policy, or tune them alike"
        )
    places = [(wish.excess(point, each.full_depth_bleu), point) for each in named for point in each.points]
    if not places:
        raise UsageError(
            f"there are no operating points of {policy}, only of {', '.join(each.policy for each in sets)}; "
            "`anydepth tune RUN --valid PREFIX --policy POLICY` finds those of other policies that have thresholds"
        )
    fitting = [point for excess, point in places if excess <= 0]
    if not fitting:
        nearest = min(places, key=lambda place: place[0])[1]
        raise UsageError(f"no operating point meets {wish.describe()}; the nearest is {nearest.describe()}")
    if wish.average_exit is None and wish.flops is None:
        return min(fitting, key=lambda point: (point.flops_share, -point.bleu))
    return max(fitting, key=lambda point: (point.bleu, -point.flops_share))


def check_points(sets: Sequence[PointSet], *, blocks: int | None = None) -> None:
    """Refuses points that no tuning can have found: of a policy without thresholds, or of another
    family than their set's."""
    for each in sets:
        name, _, argument = each.policy.partition(":")
        if name not in THRESHOLD_FAMILIES or threshold_family(name, argument) != (each.policy, ""):
            raise UsageError(f"{each.policy} is no family of policies, as geometric and shortlist:64 are")
        for point in each.points:
            check_policy(point.policy, blocks=blocks, family=each.policy)
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
