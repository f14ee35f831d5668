"""What a benchmark was made with: the machine, the versions, the model and the words of its
definitions."""

import platform
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from anydepth import __version__
from anydepth.clock.machine import Machine

DECODING_ALONE = (
    "the time of whole translations minus the time of the same sentences with exactly one output token each, in the "
    "same turn; tokens/s are then those after the first"
)
PACKAGES = ("torch", "ctranslate2", "onnxruntime", "transformers")


@dataclass(frozen=True)
class BenchRecipe:
    """What the figures of a benchmark were made from and how; of the last eight what belongs to
    another mode is None or empty."""

    machine: Machine
    versions: dict[str, str]
    threads: int
    rounds: int
    seed: int
    sentences: int
    beams: list[int]
    batches: list[int]
    length_penalty: float
    run: str | None
    weights: str | None
    decoding_alone: str
    rival: str | None = None
    original: str | None = None  # the folder of another program's model that rivals ran
    test: str | None = None
    shape: str | None = None
    source_length: int | None = None
    output_length: int | None = None
    exit_shares: list[float] | None = None
    beside: list[str] = field(default_factory=list)  # other runs that took part


def versions() -> dict[str, str]:
    """The versions of what takes part, as far as it is installed."""
    found = {"anydepth": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
