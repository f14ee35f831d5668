"""Stored measurements as series of points: evaluations, and the operating points of a run."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from anydepth.errors import UsageError
from anydepth.files.reading import Unreadable, first_problem, read_json
from anydepth.runs.operating_points import Judge

Share = Annotated[float, Field(gt=0.0)]
EXPECTED = 'expected what "anydepth evaluate --json" writes, or the operating_points.json of a run'


@dataclass(frozen=True)
class CurvePoint:
    """What one policy, such as "geometric:0.5", was measured to be worth; `flops_share` is its part
    of full depth's FLOPs."""

    policy: str
    bleu: float
    average_exit: float
    flops_share: float | None


@dataclass(frozen=True)
class CurveSetting:
    """What points must share to be one series: the run's folder, the data that it was measured on,
    and the beam where known."""

    run: str
    data: str
    beam: int | None


@dataclass(frozen=True)
class CurveSeries:
    """The points of one family of policies, lowest average exit first, and full depth's BLEU where
    the file tells it."""

    family: str
    setting: CurveSetting
    points: tuple[CurvePoint, ...]
    full_depth_bleu: float | None = None

    @property
    def is_line(self) -> bool:
        """Whether the points are steps of one scale, as fixed exits are."""
        return self.family == "fixed"


class StoredCurves(BaseModel):
    """An object of a JSON file; other keys are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class StoredScore(StoredCurves):
    """A score with its value."""

    value: float


class StoredScores(StoredCurves):
    """The scores of a policy, of which BLEU is drawn."""

    bleu: StoredScore


class StoredResult(StoredCurves):
    """One policy of an evaluation."""

    policy: str
    scores: StoredScores
    average_exit: float
    flops_share: Share | None = None
    beam: int | None = None


class StoredRecipe(StoredCurves):
    """What an evaluation was made from."""

    run: str
    test: str


class StoredEvaluation(StoredCurves):
    """What `anydepth evaluate --json` writes."""

    recipe: StoredRecipe
    results: list[StoredResult]


class StoredPoint(StoredCurves):
    """One operating point."""

    policy: str
    average_exit: float
    flops_share: Share | None = None
    bleu: float


class StoredSet(StoredCurves):
    """The operating points of one family of policies on validation data."""

    points: list[StoredPoint]
    beam: int | None = None
    valid: str = "valid"
    full_depth_bleu: float | None = None
    judge: Judge = "references"

    @property
    def data(self) -> str:
        """The text, and the judge where that is not its references."""
        text = str(Path(self.valid))
        return text if self.judge == "references" else f"{text} judged by {self.judge}"


class StoredOperatingPoints(StoredCurves):
    """A run's operating_points.json."""

    sets: list[StoredSet]


def read_points(paths: Sequence[Path]) -> list[CurveSeries]:
    """The series in the files at `paths`, in the order in which their first points come; a point
    that comes twice is kept once.

    Points are one series if their policies have the same name before the colon and they were
    measured with the same run, data and beam. The run of an operating_points.json is the folder
    that it lies in.
    """
    grouped: dict[tuple[str, CurveSetting], list[CurvePoint]] = {}
    full_depth: dict[tuple[str, CurveSetting], float | None] = {}
    for path in paths:
        found = list(_points_in(path))
        if not found:
            raise UsageError(f"{path} has no points; {EXPECTED}, with at least one policy measured")
        for setting, bleu, point in found:
            key = (point.policy.partition(":")[0], setting)
            grouped.setdefault(key, []).append(point)
            full_depth[key] = bleu if bleu is not None else full_depth.get(key)
    return [
        CurveSeries(family, setting, _in_order(points), full_depth[family, setting])
        for (family, setting), points in grouped.items()
    ]


def _in_order(points: Sequence[CurvePoint]) -> tuple[CurvePoint, ...]:
    return tuple(sorted(dict.fromkeys(points), key=lambda point: point.average_exit))


def _points_in(path: Path) -> Iterator[tuple[CurveSetting, float | None, CurvePoint]]:
    """Each point of a file with its setting and full depth's BLEU."""
    stored = _read(path)
    if isinstance(stored, StoredEvaluation):
        run = os.path.realpath(stored.recipe.run)
        for result in stored.results:
            point = CurvePoint(result.policy, result.scores.bleu.value, result.average_exit, result.flops_share)
            yield CurveSetting(run, str(Path(stored.recipe.test)), result.beam), None, point
    else:
        run = str(Path(os.path.realpath(path)).parent)
        for group in stored.sets:
            for each in group.points:
                point = CurvePoint(each.policy, each.bleu, each.average_exit, each.flops_share)
                yield CurveSetting(run, group.data, group.beam), group.full_depth_bleu, point


def _read(path: Path) -> StoredEvaluation | StoredOperatingPoints:
    try:
        content = read_json(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}; {EXPECTED}") from error
    except Unreadable as error:
        raise UsageError(f"{path} cannot be used: {error}; {EXPECTED}") from error
    kind: type[StoredEvaluation | StoredOperatingPoints]
    if isinstance(content, dict) and "results" in content:
        kind = StoredEvaluation
    elif isinstance(content, dict) and "sets" in content:
        kind = StoredOperatingPoints
    else:
        raise UsageError(f"{path} has neither results nor sets of points; {EXPECTED}")
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise UsageError(f"{path}: {first_problem(error)}; {EXPECTED}") from None
