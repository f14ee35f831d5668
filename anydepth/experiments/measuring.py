"""The figures of one run of a study on both held-out sets, and what later comparisons are computed
from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from sacrebleu.metrics.bleu import BLEU
from torch import Tensor

from anydepth.errors import RunError
from anydepth.evaluation.evaluate import policy_names
from anydepth.evaluation.measure import Measurement, measure
from anydepth.evaluation.significance import bleu_interval, sentence_statistics
from anydepth.experiments.plan import Places, Study, train_command, write_record
from anydepth.experiments.revision import revision
from anydepth.experiments.variants import Variant
from anydepth.inference.translator import Translation, Translator
from anydepth.messages.say import Say
from anydepth.model.checkpoint import load_tensors, save_tensors
from anydepth.runs.metrics import read_metrics
from anydepth.runs.operating_points import OperatingPoint, load_points, weights_fingerprint
from anydepth.runs.run import Run
from anydepth.text.prepared import PreparedData
from anydepth.tuning.tune import TuneSettings, tune_run

SPLITS = ("valid", "test")
TUNING = TuneSettings(candidates=3000, segment=0.5)


@dataclass(frozen=True)
class WantedPolicy:
    """A policy to measure, and what it is to the run: a fixed exit, its default, or an operating
    point with its BLEU on the valid set."""

    split: str
    policy: str
    kind: str
    valid_bleu: float | None = None


def measure_run(study: Study, places: Places, variant: Variant, *, say: Say) -> None:
    """Measures a run, tuning it first where it has thresholds, and writes its record and its
    sentences' statistics."""
    run, data = Run(places.run(variant.run)), PreparedData.open(Path(study.data))
    if variant.tuned is not None:
        tune_run(run.folder, str(data.folder / "valid"), variant.tuned, TUNING, say=say)
    translator = Translator.load(run.folder)
    rows, statistics = [], {}
    for wanted in wanted_policies(variant, translator):
        sources, references = data.references(wanted.split)
        say(f"translating the {wanted.split} set with {wanted.policy}")
        figures, translations = measure(translator, sources, references, translator.policy(wanted.policy))
        counted = translation_statistics(translations, references)
        rows.append(measurement_json(wanted, figures, counted))
        statistics[f"{wanted.split}/{wanted.policy}"] = torch.from_numpy(counted.astype(np.int32))
    places.statistics.mkdir(parents=True, exist_ok=True)
    save_tensors(places.statistics / f"{variant.run}.safetensors", statistics)
    write_record(places.record(variant.run), run_json(study, places, variant, translator, rows))


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


def kind_of(variant: Variant, policy: str) -> str:
    """What a measured policy is called in the records."""
    family = policy.partition(":")[0]
    if family == "fixed":
        return "full" if len(variant.policies) == 1 and variant.policies[0] == policy else "fixed"
    return family if family == "uniform" else "default"


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
    """For each sentence what BLEU counts, then its tokens and the sum of their exits."""
    metric = BLEU(tokenize="13a", force=True)
    bleu = sentence_statistics(metric, [translation.text for translation in translations], references)
    depths = np.array([[len(translation.exits), sum(translation.exits)] for translation in translations])
    return np.concatenate([bleu, depths], axis=1)


def load_statistics(places: Places, run: str) -> dict[str, Int[np.ndarray, "sentence 12"]]:
    """The statistics of a run by "split/policy"; none where it was not measured."""
    file = places.statistics / f"{run}.safetensors"
    tensors: dict[str, Tensor] = load_tensors(file)[0] if file.exists() else {}
    if odd := [
        name
        for name, tensor in tensors.items()
        if tensor.ndim != 2 or tensor.shape[1] != 12 or tensor.is_floating_point()
    ]:
        raise RunError(f"{file} has no statistics of sentences under {odd[0]}; measure again in a new folder")
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def measurement_json(
    wanted: WantedPolicy, figures: Measurement, statistics: Int[np.ndarray, "sentence 12"]
) -> dict[str, Any]:
    """One measurement as the records hold it."""
    low, high = bleu_interval(statistics[:, :10])
    return {
        "split": wanted.split,
        "kind": wanted.kind,
        "policy": wanted.policy,
        "family": wanted.policy.partition(":")[0],
        "valid_bleu": wanted.valid_bleu,
        "bleu": round(figures.scores.bleu.value, 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "tokenized_bleu": round(figures.scores.tokenized_bleu.value, 4),
        "chrf": round(figures.scores.chrf.value, 4),
        "average_exit": round(figures.average_exit, 4),
        "exit_counts": figures.exit_counts,
        "flops_share": round(figures.flops_share, 5),
        "mflops_per_token": round(figures.mflops_per_token, 5),
        "tokens_per_second": round(figures.tokens_per_second, 1),
        "sentences": figures.sentences,
        "tokens": figures.tokens,
        "beam": figures.beam,
        "signature": figures.scores.bleu.signature,
    }


def run_json(
    study: Study, places: Places, variant: Variant, translator: Translator, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """The record of a run."""
    run = Run(places.run(variant.run))
    updates, seconds = trained(run)
    return {
        "run": variant.run,
        "variant": variant.name,
        "seed": variant.seed,
        "role": variant.role,
        "settings": changed_settings(variant, run),
        "origin": variant.origin,
        "command": train_command(study, places, variant),
        "weights": weights_fingerprint(run)[:12],
        "revision": revision(),
        "threads": torch.get_num_threads(),
        "training_seed": run.config.training.seed,
        "updates": updates,
        "parameters": sum(parameter.numel() for parameter in translator.model.parameters()),
        "training_minutes": round(seconds / 60, 2),
        "blocks": translator.model.blocks,
        "measurements": rows,
    }


def changed_settings(variant: Variant, run: Run) -> dict[str, Any]:
    """The settings that the variant changes, with their values in the run."""
    values = run.config.model_dump()
    found = {}
    for name in (change.partition("=")[0] for change in variant.changes):
        value: Any = values
        for part in name.split("."):
            value = value[part]
        found[name] = value
    return found


def trained(run: Run) -> tuple[int, float]:
    """How many updates a run was trained for, and the seconds that took."""
    lines = [values for _, values in read_metrics(run)]
    told = [(values["update"], values["seconds"]) for values in lines if isinstance(values.get("seconds"), int | float)]
    return max(told, default=(0, 0.0))
