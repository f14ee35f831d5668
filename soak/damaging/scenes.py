"""The verbs that get damaged folders, and what counts of their outcomes."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from damaging.calls import BULK_OPTIONS, Outcome, bulk_in_this_process, call


@dataclass(frozen=True)
class Scene:
    """A verb, the folders that it gets, and what counts of its outcome. `weight` is its share of
    the trials."""

    name: str
    weight: int
    folders: tuple[str, ...]
    look: Callable[[Path], tuple[Outcome, str]]
    damaged: Callable[[str], bool] = lambda name: True
    # kinds of files that most of its trials damage; the others' damage should go unnoticed
    reads: frozenset[str] = frozenset()


def weights_digest(path: Path) -> str:
    """What tells the weights in a file from others; the order in which safetensors writes them does
    not."""
    from anydepth.model.checkpoint import own_tensors

    digest = hashlib.sha256()
    for name, tensor in sorted(own_tensors(path)[0].items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    return digest.hexdigest()


def translated(*options: object) -> Callable[[Path], tuple[Outcome, str]]:
    def look(place: Path) -> tuple[Outcome, str]:
        outcome = call("translate", place / "exits", place.parent / "test.de", "--json", *options)
        return outcome, outcome.out

    return look


def evaluated(place: Path) -> tuple[Outcome, str]:
    options = ["--test", place.parent / "test", "--policy", "fixed:2", "--average-exit", 2.5, "--json"]
    outcome = call("evaluate", place / "exits", *options)
    if outcome.code or outcome.trace:
        return outcome, ""
    keys = ("policy", "scores", "average_exit", "exit_counts", "flops_share")
    return outcome, json.dumps([[result[key] for key in keys] for result in json.loads(outcome.out)["results"]])


def resumed(name: str) -> Callable[[Path], tuple[Outcome, str]]:
    def look(place: Path) -> tuple[Outcome, str]:
        outcome = call("train", "--resume", "--to", place / name, "--data", place / "data")
        weights = place / name / "model.safetensors"
        return outcome, weights_digest(weights) if outcome.code == 0 and not outcome.trace else ""

    return look


def checked(place: Path) -> tuple[Outcome, str]:
    outcome = call("check", place / "exits" / "export" / "ctranslate2-exit2")
    return outcome, str(outcome.code)


def bulk_continued(place: Path) -> tuple[Outcome, str]:
    with bulk_in_this_process():
        outcome = call("bulk", place / "exits", place.parent / "test.de", "--to", place / "bulk", *BULK_OPTIONS)
    outputs = sorted((place / "bulk" / "output" / "test.de").glob("*.txt"))
    return outcome, "" if outcome.code or outcome.trace else "".join(each.read_text("utf-8") for each in outputs)


def in_export(folder: str) -> Callable[[str], bool]:
    return lambda name: not name.startswith("exits/export/") or name.startswith(f"exits/export/{folder}/")


READ_TO_TRANSLATE = frozenset(
    {
        "seal.json",
        "config.toml",
        "tokenizer.model",
        "model.safetensors",
        "operating_points.json",
        "lexical_table.safetensors",
        "vocabulary.json",
    }
)
SCENES = (
    Scene(
        "translate torch",
        22,
        ("exits",),
        translated("--engine", "torch", "--average-exit", 2.5),
        in_export("no"),
        READ_TO_TRANSLATE,
    ),
    Scene(
        "translate native",
        30,
        ("exits",),
        translated("--engine", "native", "--average-exit", 2.5),
        in_export("no"),
        READ_TO_TRANSLATE,
    ),
    Scene(
        "translate onnx",
        12,
        ("exits",),
        translated("--engine", "onnx"),
        lambda name: name.startswith("exits/export/onnx/"),
    ),
    Scene(
        "translate onnx int8",
        4,
        ("exits",),
        translated("--engine", "onnx", "--int8"),
        lambda name: name.startswith("exits/export/onnx-int8/"),
    ),
    Scene("evaluate", 10, ("exits",), evaluated, in_export("no"), READ_TO_TRANSLATE | {"data.json"}),
    Scene("train --resume", 12, ("interrupted", "data"), resumed("interrupted")),
    Scene("train --resume, begun", 6, ("begun", "data"), resumed("begun")),
    Scene(
        "bulk",
        12,
        ("exits", "bulk"),
        bulk_continued,
        lambda name: name.startswith("bulk/"),
        frozenset({"manifest.json", "#-#.txt", "#-#.json"}),
    ),
    Scene("check ctranslate2", 4, ("exits",), checked, lambda name: name.startswith("exits/export/ctranslate2-exit2/")),
)
