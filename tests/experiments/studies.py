"""Studies made by hand: places with records and statistics as if runs had been measured."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from anydepth.config.loading import make_config
from anydepth.evaluation.significance import corpus_bleu
from anydepth.experiments.measuring import translation_statistics
from anydepth.experiments.plan import Places, Study, default_second_stage, write_record
from anydepth.inference.translator import Translation
from anydepth.model.checkpoint import save_tensors

REFERENCES = [
    f"the {word} cat number {number} sat on a mat near the {word} door"
    for number, word in enumerate(["red", "old", "big"] * 20)
]


def small_study(*experiments: str, blocks: int = 4, seeds: int = 1) -> Study:
    config = make_config({"model": {"blocks": blocks}})
    about = {"data": {"vocabulary": 500}, "machine": {}, "versions": {}}
    return Study(
        experiments, config, "data", "0123", seeds, default_second_stage(config), "some text", "command", None, about
    )


def translated(wrong: int, exits: Sequence[int] = (1,)) -> list[Translation]:
    """The references, every `wrong`-th of them spoilt; the exits of each sentence are `exits`."""
    texts = [
        text if number % wrong else text.replace("cat", "dog").replace("mat", "hat")
        for number, text in enumerate(REFERENCES)
    ]
    return [Translation(text=text, exits=list(exits), scores=[-0.5] * len(exits)) for text in texts]


def measured(
    places: Places, run: str, role: str, rows: Sequence[tuple[str, str, str, int, Sequence[int]]], *, blocks: int = 4
) -> None:
    """Leaves the record and the statistics of a run; a row is split, kind, policy, how often a
    sentence is wrong, and exits."""
    seed = 2 if run.endswith(".2") and role != "halting" else 1
    record: dict[str, Any] = {
        "run": run,
        "variant": run.removesuffix(".2"),
        "seed": seed,
        "role": role,
        "blocks": blocks,
        "measurements": [],
    }
    statistics = {}
    for split, kind, policy, wrong, exits in rows:
        counted = translation_statistics(translated(wrong, exits), REFERENCES)
        statistics[f"{split}/{policy}"] = torch.from_numpy(counted.astype(np.int32))
        bleu = round(corpus_bleu(counted[:, :10]), 4)
        figures = {"bleu": bleu, "low": bleu, "high": bleu, "average_exit": sum(exits) / len(exits)}
        record["measurements"].append(
            {"split": split, "kind": kind, "policy": policy, "family": policy.partition(":")[0], **figures}
        )
    places.statistics.mkdir(parents=True, exist_ok=True)
    save_tensors(places.statistics / f"{run}.safetensors", statistics)
    write_record(places.record(run), record)
