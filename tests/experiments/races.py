"""Races made by hand: heats whose times and translations are invented, with their statistics."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from experiments.studies import REFERENCES, translated

from anydepth.evaluation.significance import corpus_bleu
from anydepth.experiments.measuring import translation_statistics
from anydepth.experiments.race import statistics_name
from anydepth.experiments.race_records import (
    ContestantKind,
    ContestantRecord,
    HeatRecord,
    LapRecord,
    Precision,
    SpreadRecord,
)
from anydepth.experiments.records import FORMAT, write_record
from anydepth.experiments.study_folder import StudyFolder
from anydepth.model.checkpoint import save_tensors

VARIANTS: dict[ContestantKind, str] = {
    "fixed": "race-adaptive",
    "tuned": "race-adaptive",
    "plain": "race-plain",
    "deep encoder": "race-deep-encoder",
}


@dataclass(frozen=True)
class Invented:
    """A contestant: every `wrong`-th of its sentences is spoilt, and its turns take `times`; decoding
    alone takes `decoding` of them."""

    kind: ContestantKind
    policy: str
    wrong: int
    times: Sequence[float]
    valid_bleu: float
    decoding: float = 0.5
    seed: int = 1
    system: str = "native"
    blocks: int = 4
    agreement: float | None = None


def spread(value: float) -> SpreadRecord:
    return SpreadRecord(median=value, low=value / 2, high=2 * value)


def record_of(each: Invented, batches: Sequence[int]) -> ContestantRecord:
    variant = VARIANTS[each.kind] + (f"-{each.blocks}" if each.kind == "plain" else "")
    return ContestantRecord(
        run=variant if each.seed == 1 else f"{variant}.{each.seed}",
        variant=variant,
        seed=each.seed,
        kind=each.kind,
        system=each.system,
        policy=each.policy,
        vocabulary="full",
        blocks=each.blocks,
        valid_bleu=each.valid_bleu,
        valid_agreement=each.agreement,
        bleu=round(corpus_bleu(translation_statistics(translated(each.wrong), REFERENCES)[:, :10]), 4),
        average_exit=1.5,
        words=500,
        laps=[
            LapRecord(
                batch=batch,
                milliseconds=list(each.times),
                decoding_milliseconds=[each.decoding * time for time in each.times],
                tokens_per_second=spread(1000),
                decoding_tokens_per_second=spread(2000) if each.decoding > 0 else None,
            )
            for batch in batches
        ],
    )


def write_heat(
    folder: StudyFolder,
    *contestants: Invented,
    precision: Precision = "fp32",
    beam: int = 1,
    batches: Sequence[int] = (1,),
) -> HeatRecord:
    """Leaves the record and the statistics of a heat."""
    records = [record_of(each, batches) for each in contestants]
    heat = HeatRecord(
        format=FORMAT,
        precision=precision,
        beam=beam,
        engine="native",
        batches=list(batches),
        rounds=3,
        threads=1,
        sentences=len(REFERENCES),
        valid_sentences=50,
        timed_sentences=20,
        contestants=records,
        remark="",
    )
    statistics = {
        record.key: torch.from_numpy(translation_statistics(translated(each.wrong), REFERENCES).astype(np.int32))
        for record, each in zip(records, contestants, strict=True)
    }
    folder.statistics.mkdir(parents=True, exist_ok=True)
    save_tensors(folder.run_statistics(statistics_name(heat.name)), statistics)
    write_record(folder.heat_record(heat.name), heat)
    return heat
