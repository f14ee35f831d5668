"""The files of a race: what each contestant did in each heat, and what was found in all of them."""

from collections.abc import Sequence
from statistics import median
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from anydepth.clock.rounds import Spread
from anydepth.experiments.records import Blocks, Count, StoredFile, StoredRecord
from anydepth.experiments.verdicts import Verdict
from anydepth.limits import MOST_BEAM, MOST_PIECES
from anydepth.runs.operating_points import Bleu

Precision: TypeAlias = Literal["fp32", "int8"]
# What a contestant is: the adaptive model at a fixed exit or at a tuned point, a decoder of fewer
# blocks, or a deep encoder with a decoder of one.
ContestantKind: TypeAlias = Literal["fixed", "tuned", "plain", "deep encoder"]
Beam = Annotated[int, Field(ge=1, le=MOST_BEAM)]
Positive = Annotated[float, Field(gt=0)]


class SpreadRecord(StoredRecord):
    """The median over the rounds, the lowest and the highest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, spread: Spread) -> "SpreadRecord":
        """The record of a spread."""
        return cls(median=round(spread.median, 4), low=round(spread.low, 4), high=round(spread.high, 4))


class LapRecord(StoredRecord):
    """What the clock showed of a contestant with one batch size: milliseconds per sentence in each
    round, and tokens per second, end to end and in decoding alone.

    Decoding alone is the whole without what the same sentences took with one output token each; it
    has no tokens per second where it is too short to be told from nothing.
    """

    batch: Annotated[int, Field(ge=1)]
    milliseconds: list[Positive] = Field(min_length=1)
    decoding_milliseconds: list[float] = Field(min_length=1)
    tokens_per_second: SpreadRecord
    decoding_tokens_per_second: SpreadRecord | None = None

    @model_validator(mode="after")
    def _check_rounds(self) -> "LapRecord":
        if len(self.milliseconds) != len(self.decoding_milliseconds):
            raise ValueError(
                f"{len(self.milliseconds)} rounds end to end are {len(self.decoding_milliseconds)} in decoding alone"
            )
        return self

    @property
    def time(self) -> float:
        """Milliseconds per sentence end to end, the median of the rounds."""
        return median(self.milliseconds)


class ContestantRecord(StoredRecord):
    """One contestant of a heat: who it is, what its translations are worth on both held-out sets, and
    its times."""

    run: str
    variant: str
    seed: int
    kind: ContestantKind
    system: str
    policy: str
    vocabulary: str
    blocks: Blocks
    valid_bleu: Bleu
    valid_agreement: Bleu | None = None  # BLEU against what the same model says at full depth
    bleu: Bleu
    average_exit: float
    words: Annotated[float, Field(ge=0, le=MOST_PIECES)] | None = None  # per sentence; None: not known
    laps: list[LapRecord]

    @property
    def key(self) -> str:
        """What tells it from the others of its heat; its sentences' statistics are stored under it."""
        return f"{self.run}/{self.system}/{self.policy}/{self.vocabulary}"

    @property
    def closeness(self) -> float:
        """How much on valid it is like its model at full depth; its BLEU where that is not known."""
        return self.valid_bleu if self.valid_agreement is None else self.valid_agreement

    @property
    def label(self) -> str:
        """What it is called in tables and sentences."""
        match self.kind:
            case "fixed":
                exit_ = self.policy.partition(":")[2]
                name = "full depth" if exit_ == str(self.blocks) else rival_name("fixed", int(exit_))
            case "tuned":
                name = self.policy.partition(":")[0]
            case "plain":
                name = rival_name("plain", self.blocks)
            case "deep encoder":
                name = "deep encoder"
        return name if self.system != "ctranslate2" else f"{name}, CTranslate2"

    def lap(self, batch: int) -> LapRecord:
        """Its times with that batch size."""
        return next(lap for lap in self.laps if lap.batch == batch)


class HeatRecord(StoredFile):
    """records/race/HEAT.json: all contestants in one precision with one beam, in rounds that they
    shared. Where no engine has the precision there are none, and the remark says so."""

    precision: Precision
    beam: Beam
    engine: str | None = None
    batches: list[int]
    rounds: Count
    threads: Count
    sentences: Count
    valid_sentences: Count
    timed_sentences: Count
    contestants: list[ContestantRecord]
    remark: str = ""

    @model_validator(mode="after")
    def _check_laps(self) -> "HeatRecord":
        for each in self.contestants:
            if [lap.batch for lap in each.laps] != self.batches:
                raise ValueError(f"{each.key} has not been timed with the batch sizes {self.batches}")
        return self

    @property
    def name(self) -> str:
        """The name of its file."""
        return heat_name(self.precision, self.beam)


class CellRecord(StoredRecord):
    """Where something was found: a precision, a beam and a batch size."""

    precision: Precision
    beam: Beam
    batch: int

    @property
    def words(self) -> str:
        """The cell in words."""
        return f"{self.precision}, beam {self.beam}, batch {self.batch}"


class GainRecord(StoredRecord):
    """BLEU of the best tuned point that takes no longer than a fixed exit or a decoder of as many
    blocks, minus that of the rival: the mean over seeds with its 95% interval, and what was chosen with
    each seed."""

    cell: CellRecord
    kind: Literal["fixed", "plain"]
    depth: Blocks
    points: list[str] = Field(default_factory=list)
    by_seed: list[float] = Field(default_factory=list)
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    time: float | None = None  # of the tuned point, by that of the rival
    verdict: Verdict
    basis: str = ""
    remark: str = ""

    @property
    def rival(self) -> str:
        """The rival in words."""
        return rival_name(self.kind, self.depth)


class EqualBleuRecord(StoredRecord):
    """The time of the fastest tuned point that has the BLEU of full depth, by that of the fastest
    other contestant that has it: end to end and decoding alone, and how their BLEU differs on test."""

    cell: CellRecord
    points: list[str] = Field(default_factory=list)
    rivals: list[str] = Field(default_factory=list)
    rival_kinds: list[ContestantKind] = Field(default_factory=list)
    by_seed: list[float] = Field(default_factory=list)
    ratio: SpreadRecord | None = None
    decoding_ratio: SpreadRecord | None = None
    bleu_difference: SpreadRecord | None = None
    verdict: Verdict
    basis: str = ""
    remark: str = ""


class RaceRecord(StoredFile):
    """records/race.json: both findings in every cell."""

    tolerance: float  # BLEU that counts as equal
    gains: list[GainRecord]
    equals: list[EqualBleuRecord]


def rival_name(kind: Literal["fixed", "plain"], depth: int) -> str:
    """What a fixed exit or a decoder of fewer blocks is called."""
    return f"fixed exit {depth}" if kind == "fixed" else f"{depth} {'block' if depth == 1 else 'blocks'}"


def heat_name(precision: str, beam: int) -> str:
    """The name of a heat's files."""
    return f"{precision}-beam-{beam}"


def ratios(own: Sequence[float], other: Sequence[float]) -> list[float] | None:
    """What one took over what another took in the same round; None where either cannot be told from
    nothing."""
    if min(own) <= 0 or min(other) <= 0:
        return None
    return [mine / theirs for mine, theirs in zip(own, other, strict=True)]
