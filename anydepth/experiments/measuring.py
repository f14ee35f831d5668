"""What one run of a study is worth on both held-out sets, and what later comparisons are computed
from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int
from sacrebleu.metrics.bleu import BLEU
from torch import Tensor

from anydepth.errors import RunError
from anydepth.evaluation.evaluate import policy_names
from anydepth.evaluation.measure import Measurement, measure
from anydepth.evaluation.significance import bleu_interval, sentence_statistics
from anydepth.experiments.definition import Study
from anydepth.experiments.records import (
    FORMAT,
    MeasurementKind,
    MeasurementRecord,
    RunRecord,
    Settings,
    Split,
    write_record,
)
from anydepth.experiments.revision import revision
from anydepth.experiments.study_folder import StudyFolder
from anydepth.experiments.training_runs import train_command, trained
from anydepth.experiments.variants import Variant
from anydepth.inference.translator import Translation, Translator
from anydepth.messages.say import Say
from anydepth.model.checkpoint import load_tensors, save_tensors
from anydepth.runs.fingerprints import weights_fingerprint
from anydepth.runs.operating_points import OperatingPoint, load_points
from anydepth.runs.run import Run
from anydepth.text.prepared import PreparedData
from anydepth.tuning.tune import TuneSettings, tune_run

SPLITS: tuple[Split, ...] = ("valid", "test")
# a study tunes many runs: one candidate of each segment is decoded
TUNING = TuneSettings(objective="average-exit", candidates=3000, segment=0.5, decoded=1)


@dataclass(frozen=True)
class WantedPolicy:
    """A policy to measure, and what it is to the run: a fixed exit, its default, or an operating
    point with its BLEU on the valid set."""

    split: Split
    policy: str
    kind: MeasurementKind
    valid_bleu: float | None = None


def measure_run(study: Study, folder: StudyFolder, variant: Variant, *, say: Say) -> None:
    """Measures a run, tuning it first where it has thresholds, and writes its record and its
    sentences' statistics."""
    run, data = Run(folder.run(variant.run)), PreparedData.open(Path(study.data.folder))
    if variant.tuned is not None:
        tune_run(run.folder, str(data.folder / "valid"), variant.tuned, TUNING, say=say)
    translator = Translator.load(run.folder)
    rows, statistics = [], {}
    for wanted in wanted_policies(variant, translator):
        sources, references = data.references(wanted.split)
        say(f"translating the {wanted.split} set with {wanted.policy}")
        measurement, translations = measure(translator, sources, references, translator.policy(wanted.policy))
        counted = translation_statistics(translations, references)
        rows.append(measurement_record(wanted, measurement, counted))
        statistics[f"{wanted.split}/{wanted.policy}"] = torch.from_numpy(counted.astype(np.int32))
    folder.statistics.mkdir(parents=True, exist_ok=True)
    save_tensors(folder.run_statistics(variant.run), statistics)
    write_record(folder.run_record(variant.run), run_record(study, folder, variant, translator, rows))


def wanted_policies(variant: Variant, translator: Translator) -> Iterator[WantedPolicy]:
    """The variant's policies on both sets, then its operating points, full depth aside, on the test
    set."""
    for split in SPLITS:
        for name in policy_names(variant.policies, translator):
            assert name is not None
            yield WantedPolicy(split, name, kind_of(variant, name))
    if variant.tuned is not None:
        yield from (
            WantedPolicy("test", point.policy, "tuned", round(point.bleu, 4))
            for point in tuned_points(translator, variant.tuned)
        )


def kind_of(variant: Variant, policy: str) -> MeasurementKind:
    """What a measured policy is called in the records."""
    family = policy.partition(":")[0]
    if family == "fixed":
        return "full" if len(variant.policies) == 1 and variant.policies[0] == policy else "fixed"
    return "uniform" if family == "uniform" else "default"


def tuned_points(translator: Translator, family: str) -> list[OperatingPoint]:
    """The operating points of a family, full depth aside, each once, lowest average exit first."""
    assert translator.run is not None
    sets = load_points(translator.run, blocks=translator.model.blocks)
    points = [point for found in sets if found.policy == family for point in found.points]
    different = {point.policy: point for point in points if not point.policy.startswith("fixed:")}
    return sorted(different.values(), key=lambda point: point.average_exit)


def translation_statistics(
    translations: Sequence[Translation], references: Sequence[str]
) -> Int[np.ndarray, "sentence 12"]:
    """The statistics of some translations."""
    texts, exits = [each.text for each in translations], [each.exits for each in translations]
    return text_statistics(texts, exits, references)


def text_statistics(
    texts: Sequence[str], exits: Sequence[Sequence[int]], references: Sequence[str]
) -> Int[np.ndarray, "sentence 12"]:
    """For each sentence what BLEU counts, then its tokens and the sum of their exits."""
    bleu = sentence_statistics(BLEU(tokenize="13a", force=True), texts, references)
    depths = np.array([[len(taken), sum(taken)] for taken in exits])
    return np.concatenate([bleu, depths], axis=1)


def load_statistics(folder: StudyFolder, run: str) -> dict[str, Int[np.ndarray, "sentence 12"]]:
    """The statistics of a run by "split/policy"; none where it was not measured."""
    file = folder.run_statistics(run)
    tensors: dict[str, Tensor] = load_tensors(file)[0] if file.exists() else {}
    if odd := [
        name
        for name, tensor in tensors.items()
        if tensor.ndim != 2 or tensor.shape[1] != 12 or tensor.is_floating_point()
    ]:
        raise RunError(f"{file} has no statistics of sentences under {odd[0]}; measure again in a new folder")
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def measurement_record(
    wanted: WantedPolicy, measurement: Measurement, statistics: Int[np.ndarray, "sentence 12"]
) -> MeasurementRecord:
    """One measurement, with the interval of its BLEU over sentences."""
    low, high = bleu_interval(statistics[:, :10])
    return MeasurementRecord(
        split=wanted.split,
        kind=wanted.kind,
        policy=wanted.policy,
        family=wanted.policy.partition(":")[0],
        valid_bleu=wanted.valid_bleu,
        bleu=round(measurement.scores.bleu.value, 4),
        low=round(low, 4),
        high=round(high, 4),
        tokenized_bleu=round(measurement.scores.tokenized_bleu.value, 4),
        chrf=round(measurement.scores.chrf.value, 4),
        average_exit=round(measurement.average_exit, 4),
        exit_counts=measurement.exit_counts,
        flops_share=round(measurement.flops_share, 5),
        mflops_per_token=round(measurement.mflops_per_token, 5),
        tokens_per_second=round(measurement.tokens_per_second, 1),
        sentences=measurement.sentences,
        tokens=measurement.tokens,
        beam=measurement.beam,
        signature=measurement.scores.bleu.signature,
    )


def run_record(
    study: Study, folder: StudyFolder, variant: Variant, translator: Translator, rows: list[MeasurementRecord]
) -> RunRecord:
    """A run, how it was made, and its measurements."""
    run = Run(folder.run(variant.run))
    updates, seconds = trained(run)
    return RunRecord(
        format=FORMAT,
        run=variant.run,
        variant=variant.name,
        seed=variant.seed,
        role=variant.role,
        settings=changed_settings(variant, run),
        origin=variant.origin,
        command=train_command(study, folder, variant),
        weights=weights_fingerprint(run)[:12],
        revision=revision(),
        threads=torch.get_num_threads(),
        training_seed=run.config.training.seed,
        updates=updates,
        parameters=sum(parameter.numel() for parameter in translator.model.parameters()),
        training_minutes=round(seconds / 60, 2),
        blocks=translator.model.blocks,
        measurements=rows,
    )


def changed_settings(variant: Variant, run: Run) -> Settings:
    """The settings that the variant changes, with their values in the run."""
    values = run.config.model_dump()
    found = {}
    for name in (change.partition("=")[0] for change in variant.changes):
        value = values
        for part in name.split("."):
            value = value[part]
        found[name] = value
    return found
