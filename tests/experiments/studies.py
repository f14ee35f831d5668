"""Studies made by hand: folders with records and statistics as if runs had been measured."""

from collections.abc import Sequence

import numpy as np
import torch

from anydepth.config.loading import make_config
from anydepth.config.schema import Config
from anydepth.evaluation.significance import corpus_bleu
from anydepth.experiments.definition import Study, default_second_stage
from anydepth.experiments.measuring import translation_statistics
from anydepth.experiments.records import (
    FORMAT,
    DataRecord,
    MachineRecord,
    MeasurementKind,
    MeasurementRecord,
    Role,
    RunRecord,
    Split,
    VersionsRecord,
    write_record,
)
from anydepth.experiments.study_folder import StudyFolder
from anydepth.inference.translator import Translation
from anydepth.model.checkpoint import save_tensors

REFERENCES = [
    f"the {word} cat number {number} sat on a mat near the {word} door"
    for number, word in enumerate(["red", "old", "big"] * 20)
]


def small_study(*experiments: str, blocks: int = 4, seeds: int = 1) -> Study:
    return study_of(make_config({"model": {"blocks": blocks}}), *experiments, seeds=seeds)


def study_of(config: Config, *experiments: str, seeds: int = 1) -> Study:
    return Study(
        experiments=experiments,
        config=config,
        data=DataRecord(folder="data", fingerprint="0123", languages="de-en", pairs={"train": 9}, vocabulary=500),
        seeds=seeds,
        second_stage=default_second_stage(config),
        title="some text",
        command="command",
        machine=MachineRecord(cores=2),
        versions=VersionsRecord(torch="2.13.0", revision=None),
    )


def translated(wrong: int, exits: Sequence[int] = (1,)) -> list[Translation]:
    """The references, every `wrong`-th of them spoilt; the exits of each sentence are `exits`."""
    texts = [
        text if number % wrong else text.replace("cat", "dog").replace("mat", "hat")
        for number, text in enumerate(REFERENCES)
    ]
    return [Translation(text=text, exits=list(exits), scores=[-0.5] * len(exits)) for text in texts]


def measured(
    folder: StudyFolder,
    run: str,
    role: Role,
    rows: Sequence[tuple[Split, MeasurementKind, str, int, Sequence[int]]],
    *,
    blocks: int = 4,
) -> None:
    """Leaves the record and the statistics of a run; a row is split, kind, policy, how often a
    sentence is wrong, and exits."""
    seed = 2 if run.endswith(".2") and role != "halting" else 1
    statistics, measurements = {}, []
    for split, kind, policy, wrong, exits in rows:
        counted = translation_statistics(translated(wrong, exits), REFERENCES)
        statistics[f"{split}/{policy}"] = torch.from_numpy(counted.astype(np.int32))
        bleu = round(corpus_bleu(counted[:, :10]), 4)
        measurements.append(
            MeasurementRecord(
                split=split,
                kind=kind,
                policy=policy,
                family=policy.partition(":")[0],
                bleu=bleu,
                low=bleu,
                high=bleu,
                average_exit=sum(exits) / len(exits),
            )
        )
    folder.statistics.mkdir(parents=True, exist_ok=True)
    save_tensors(folder.run_statistics(run), statistics)
    record = RunRecord(
        format=FORMAT,
        run=run,
        variant=run.removesuffix(".2"),
        seed=seed,
        role=role,
        blocks=blocks,
        measurements=measurements,
    )
    write_record(folder.run_record(run), record)
