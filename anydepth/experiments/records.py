"""The files of a study: study.json and records/, each a type that writers fill in and readers load.

A record is written with the values that it was given, in the order of its fields. A value that may
be None by default may be missing from a file, and stays missing when the record is written again.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from anydepth.errors import UsageError
from anydepth.experiments.verdicts import Verdict
from anydepth.files.atomic import write_text
from anydepth.files.reading import LARGE, Unreadable, checked, read_json
from anydepth.limits import MOST_BLOCKS, MOST_MINUTES, MOST_PIECES, MOST_SEEDS

FORMAT: Literal[1] = 1

ROUNDING = 1e-3
Count = Annotated[int, Field(ge=0)]
Blocks = Annotated[int, Field(ge=1, le=MOST_BLOCKS)]
Bins = Annotated[int, Field(ge=1, le=1000)]
Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Settings: TypeAlias = dict[str, Any]  # by their names, with any value that a setting may have
Split: TypeAlias = Literal["valid", "test"]
Role: TypeAlias = Literal["aligned", "mixed", "baseline", "omega", "gamma", "halting", "continued", "rival", "race"]
MeasurementKind: TypeAlias = Literal["fixed", "uniform", "full", "default", "tuned"]
StepState: TypeAlias = Literal["done", "failed", "waiting", "blocked"]


class StoredRecord(BaseModel):
    """An object of a JSON file; other keys are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class StoredFile(StoredRecord):
    """The object that a file holds."""

    format: Literal[1]


class DataRecord(StoredRecord):
    """The prepared corpus that all runs share."""

    folder: str
    fingerprint: str
    languages: str
    pairs: dict[str, int]
    vocabulary: Annotated[int, Field(ge=1, le=MOST_PIECES)]


class MachineRecord(StoredRecord):
    """Where the runs were made."""

    processor: str | None = None
    cores: int | None = None
    threads_per_run: int | None = None


class VersionsRecord(StoredRecord):
    """What the runs were made with."""

    anydepth: str | None = None
    python: str | None = None
    torch: str | None = None
    ctranslate2: str | None = None
    onnxruntime: str | None = None
    transformers: str | None = None
    revision: str | None = None


class StepRecord(StoredRecord):
    """One step of the plan and how far it is."""

    name: str
    needs: list[str] = []
    command: str = ""
    state: StepState
    minutes: float | None = None
    reason: str | None = None


class PlanRecord(StoredFile):
    """study.json: what was asked for, and how far it is."""

    title: str
    experiments: list[str]
    command: str
    config: Settings
    exit_config: list[str]
    data: DataRecord
    seeds: list[int] = Field(min_length=1, max_length=MOST_SEEDS)
    minutes_per_run: Annotated[float, Field(gt=0, le=MOST_MINUTES)] | None = None
    repeated: list[str] = []
    updates: int | None = None
    exit_updates: int | None = None
    machine: MachineRecord = MachineRecord()
    versions: VersionsRecord = VersionsRecord()
    steps: list[StepRecord] = []


class MarkerRecord(StoredRecord):
    """steps/NAME.json: that a step is done, how long it took, which doing of it this was, and the
    doings of the steps that it needs whose results it used."""

    minutes: float
    stamp: str = Field(min_length=1)
    seen: dict[str, str | None]


class MeasurementRecord(StoredRecord):
    """What one policy is worth on one split, with its 95% bootstrap interval over sentences; a
    tuned one has its BLEU on valid, too.

    Either BLEU with its interval or the average exit may not have been kept, but not both.
    """

    split: Split
    kind: MeasurementKind
    policy: str
    family: str
    valid_bleu: float | None = None
    bleu: float | None = None
    low: float | None = None
    high: float | None = None
    tokenized_bleu: float | None = None
    chrf: float | None = None
    average_exit: float | None = None
    exit_counts: list[Count] = []
    flops_share: float | None = None
    mflops_per_token: float | None = None
    tokens_per_second: float | None = None
    sentences: int | None = None
    tokens: int | None = None
    beam: int | None = None
    signature: str | None = None

    @model_validator(mode="after")
    def _check_interval(self) -> "MeasurementRecord":
        kept = [value is not None for value in (self.bleu, self.low, self.high)]
        if any(kept) != all(kept):
            raise ValueError(f"{self.policy} has not all of bleu, low and high")
        if not any(kept) and self.average_exit is None:
            raise ValueError(f"{self.policy} has neither bleu nor average_exit")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"the interval of {self.policy} goes from {self.low:g} down to {self.high:g}")
        return self


class RunRecord(StoredFile):
    """records/runs/NAME.json: one trained model and its measurements."""

    run: str
    variant: str
    seed: int
    role: Role
    settings: Settings = {}
    origin: str | None = None
    command: str = ""
    weights: str | None = None
    revision: str | None = None
    threads: int | None = None
    training_seed: int | None = None
    updates: int | None = None
    parameters: int | None = None
    training_minutes: float | None = None
    blocks: Blocks
    measurements: list[MeasurementRecord]

    @model_validator(mode="after")
    def _check_exits(self) -> "RunRecord":
        for measurement in self.measurements:
            if measurement.exit_counts and len(measurement.exit_counts) != self.blocks:
                raise ValueError(
                    f"{measurement.policy} counts {len(measurement.exit_counts)} exits but the model has {self.blocks}"
                )
            depth = measurement.average_exit
            if depth is not None and not 1 - ROUNDING <= depth <= self.blocks + ROUNDING:
                raise ValueError(
                    f"the average exit of {measurement.policy} is {depth:g} and must lie between 1 and {self.blocks}"
                )
        return self


class TrendRecord(StoredRecord):
    """One claim of the paper beside what was found."""

    name: str
    experiment: str
    claim: str
    paper: str
    ours: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    verdict: Verdict
    basis: str = ""
    runs: list[str] = []
    remark: str = ""


class TrendsRecord(StoredFile):
    """records/trends.json."""

    trends: list[TrendRecord]


class ComparisonRecord(StoredRecord):
    """The paired bootstrap of one run's BLEU against another's."""

    run: str
    against: str
    split: Split
    policy: str
    against_policy: str
    difference: float
    low: float
    high: float
    p_value: float | None = None


class ComparisonsRecord(StoredFile):
    """records/comparisons.json."""

    comparisons: list[ComparisonRecord]


class SampleRecord(StoredRecord):
    """One translated sentence, with the exit and the probability of each token."""

    source: str
    reference: str
    tokens: list[str] = Field(min_length=1)
    exits: list[int]
    scores: list[Probability]

    @model_validator(mode="after")
    def _check_lengths(self) -> "SampleRecord":
        if not len(self.tokens) == len(self.exits) == len(self.scores):
            raise ValueError(f"{len(self.tokens)} tokens have {len(self.exits)} exits and {len(self.scores)} scores")
        return self


class TokensRecord(StoredFile):
    """records/tokens.json: figures 6 and 7."""

    run: str
    policy: str
    blocks: Blocks
    samples: list[SampleRecord] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_exits(self) -> "TokensRecord":
        wrong = [left for sample in self.samples for left in sample.exits if not 1 <= left <= self.blocks]
        if wrong:
            raise ValueError(f"exit {wrong[0]} does not lie between 1 and {self.blocks}")
        return self


class PositionModelRecord(StoredRecord):
    """The exits of one model at the start and at the end of sentences, in percent; and how much
    deeper the start is, with its interval."""

    run: str
    policy: str
    average_exit: float
    blocks: Blocks
    start: list[float]
    end: list[float]
    difference: float | None = None
    low: float | None = None
    high: float | None = None

    @model_validator(mode="after")
    def _check_lengths(self) -> "PositionModelRecord":
        if not len(self.start) == len(self.end) == self.blocks:
            raise ValueError(
                f"a model of {self.blocks} blocks has {len(self.start)} shares at the start and {len(self.end)} at "
                "the end"
            )
        return self


class PositionsRecord(StoredFile):
    """records/positions.json: figure 8."""

    models: list[PositionModelRecord] = Field(min_length=1)


class ScoreModelRecord(StoredRecord):
    """How many tokens of one model leave at each exit with a probability in each bin; and how much
    more probable those that leave low are, with its interval."""

    run: str
    policy: str
    average_exit: float
    blocks: Blocks
    bins: Bins
    counts: list[list[Count]]
    difference: float | None = None
    low: float | None = None
    high: float | None = None

    @model_validator(mode="after")
    def _check_shape(self) -> "ScoreModelRecord":
        if len(self.counts) != self.blocks or any(len(row) != self.bins for row in self.counts):
            raise ValueError(f"the counts of {self.run} are not {self.blocks} rows of {self.bins}")
        if not any(map(any, self.counts)):
            raise ValueError(f"the counts of {self.run} are all 0")
        return self


class ScoresRecord(StoredFile):
    """records/scores.json: figure 9."""

    models: list[ScoreModelRecord] = Field(min_length=1)


class CostRecord(StoredFile):
    """records/cost.json: seconds of an update with a classifier after every block over those with
    one."""

    ratio: float
    low: float
    high: float
    rounds: int
    updates_per_round: int
    threads: int
    vocabulary: int
    blocks: Blocks


FileKind = TypeVar("FileKind", bound=StoredFile)


def written(record: StoredFile) -> str:
    """A record as the text of its file."""
    return json.dumps(record.model_dump(exclude_unset=True), indent=1, ensure_ascii=False) + "\n"


def write_record(file: Path, record: StoredFile) -> None:
    """Writes one file of records."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, written(record))


def read_record(file: Path, kind: type[FileKind]) -> FileKind:
    """The record in `file`, for a study that continues; what is damaged is refused."""
    try:
        return checked(kind, read_json(file, most=LARGE))
    except (OSError, Unreadable) as error:
        raise UsageError(
            f"{file} is no record of a study ({error}); restore it from a copy or measure again in a new folder"
        ) from error
