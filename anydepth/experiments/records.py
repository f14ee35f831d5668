"""The records of a study, typed and checked."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from anydepth.experiments.verdicts import Verdict
from anydepth.limits import MOST_BLOCKS, MOST_SEEDS

Count = Annotated[int, Field(ge=0)]
Blocks = Annotated[int, Field(ge=1, le=MOST_BLOCKS)]
Bins = Annotated[int, Field(ge=1, le=1000)]
Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Split = Literal["valid", "test"]


class StoredRecord(BaseModel):
    """An object of a JSON file; other keys are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class DataRecord(StoredRecord):
    """The prepared corpus that all runs share."""

    folder: str
    languages: str
    fingerprint: str
    pairs: dict[str, int]
    vocabulary: int | None = None


class MachineRecord(StoredRecord):
    """Where the runs were made."""

    processor: str | None = None
    cores: int | None = None
    threads_per_run: int | None = None


class VersionsRecord(StoredRecord):
    """What the runs were made with."""

    anydepth: str | None = None
    revision: str | None = None
    torch: str | None = None
    python: str | None = None


class StepRecord(StoredRecord):
    """One command of the plan and how far it is."""

    name: str
    command: str = ""
    needs: list[str] = []
    state: Literal["done", "failed", "waiting", "blocked"]
    minutes: float | None = None
    reason: str | None = None


class PlanRecord(StoredRecord):
    """study.json: what was asked for, and how far it is."""

    format: int
    title: str
    experiments: list[str]
    command: str
    config: dict[str, Any] = {}
    exit_config: dict[str, Any] | list[str] = {}
    data: DataRecord
    seeds: list[int] = Field(min_length=1, max_length=MOST_SEEDS)
    updates: int | None = None
    exit_updates: int | None = None
    machine: MachineRecord = MachineRecord()
    versions: VersionsRecord = VersionsRecord()
    steps: list[StepRecord] = []


class MeasurementRecord(StoredRecord):
    """What one policy is worth on one split, with its 95% bootstrap interval over sentences; a
    tuned one has its BLEU on valid, too.

    Either BLEU with its interval or the average exit may not have been kept, but not both.
    """

    split: Split
    kind: Literal["fixed", "uniform", "full", "default", "tuned"]
    policy: str
    family: str
    bleu: float | None = None
    low: float | None = None
    high: float | None = None
    tokenized_bleu: float | None = None
    chrf: float | None = None
    average_exit: float | None = None
    exit_counts: list[Count] = []
    flops_share: float | None = None
    mflops_per_token: float | None = None
    valid_bleu: float | None = None
    sentences: int | None = None
    tokens: int | None = None
    beam: int | None = None
    signature: str | None = None

    @model_validator(mode="after")
    def _check_interval(self) -> "MeasurementRecord":
        kept = [figure is not None for figure in (self.bleu, self.low, self.high)]
        if any(kept) != all(kept):
            raise ValueError(f"{self.policy} has not all of bleu, low and high")
        if not any(kept) and self.average_exit is None:
            raise ValueError(f"{self.policy} has neither bleu nor average_exit")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"the interval of {self.policy} goes from {self.low:g} down to {self.high:g}")
        return self


class RunRecord(StoredRecord):
    """records/runs/NAME.json: one trained model and its measurements."""

    format: int
    run: str
    variant: str
    seed: int
    role: Literal["aligned", "mixed", "baseline", "omega", "gamma", "halting", "continued", "rival"]
    settings: dict[str, Any] = {}
    origin: str | None = None
    command: str = ""
    weights: str | None = None
    updates: int | None = None
    parameters: int | None = None
    training_minutes: float | None = None
    revision: str | None = None
    threads: int | None = None
    training_seed: int | None = None
    blocks: Blocks
    measurements: list[MeasurementRecord]

    @model_validator(mode="after")
    def _check_exits(self) -> "RunRecord":
        for measurement in self.measurements:
            if measurement.exit_counts and len(measurement.exit_counts) != self.blocks:
                raise ValueError(
                    f"{measurement.policy} counts {len(measurement.exit_counts)} exits but the model has {self.blocks}"
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


class TrendsRecord(StoredRecord):
    """records/trends.json."""

    format: int
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


class ComparisonsRecord(StoredRecord):
    """records/comparisons.json."""

    format: int
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


class TokensRecord(StoredRecord):
    """records/tokens.json: figures 6 and 7."""

    format: int
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
    """The exits of one model at the start and at the end of sentences, in percent."""

    run: str
    policy: str
    average_exit: float
    blocks: Blocks
    start: list[float]
    end: list[float]

    @model_validator(mode="after")
    def _check_lengths(self) -> "PositionModelRecord":
        if not len(self.start) == len(self.end) == self.blocks:
            raise ValueError(
                f"a model of {self.blocks} blocks has {len(self.start)} shares at the start and {len(self.end)} at "
                "the end"
            )
        return self


class PositionsRecord(StoredRecord):
    """records/positions.json: figure 8."""

    format: int
    models: list[PositionModelRecord] = Field(min_length=1)


class ScoreModelRecord(StoredRecord):
    """How many tokens of one model leave at each exit with a probability in each bin."""

    run: str
    policy: str
    average_exit: float
    blocks: Blocks
    bins: Bins
    counts: list[list[Count]]

    @model_validator(mode="after")
    def _check_shape(self) -> "ScoreModelRecord":
        if len(self.counts) != self.blocks or any(len(row) != self.bins for row in self.counts):
            raise ValueError(f"the counts of {self.run} are not {self.blocks} rows of {self.bins}")
        if not any(map(any, self.counts)):
            raise ValueError(f"the counts of {self.run} are all 0")
        return self


class ScoresRecord(StoredRecord):
    """records/scores.json: figure 9."""

    format: int
    models: list[ScoreModelRecord] = Field(min_length=1)


class CostRecord(StoredRecord):
    """records/cost.json: seconds of an update with a classifier after every block over those with
    one."""

    format: int
    ratio: float
    low: float
    high: float
    rounds: int
    updates_per_round: int
    threads: int
    vocabulary: int
    blocks: Blocks
