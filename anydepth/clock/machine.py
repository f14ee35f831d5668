"""The machine that the clock runs on."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.native.native_engine import NativeEngine
from anydepth.runs.operating_points import PointSet, TimingPlace, Wish
from anydepth.search.decoding import SearchSettings


@dataclass(frozen=True)
class Machine:
    """Where the clock ran."""

    cpu: str
    cores: int
    system: str
    load_before: float | None


def this_machine() -> Machine:
    """The machine that this runs on, and how busy it is."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return Machine(cpu_name(), os.cpu_count() or 1, f"{platform.system()} {platform.machine()}", load)


def cpu_name(path: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name as the system tells it."""
    lines: Sequence[str] = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def has_bfloat16(path: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor multiplies bfloat16 by itself, as far as the system tells."""
    lines: Sequence[str] = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return not {"avx512_bf16", "amx_bf16", "bf16"}.isdisjoint(flags.split())


def timing_place(engine: Engine, settings: SearchSettings) -> TimingPlace:
    """Where and how `engine` searches here with these settings."""
    return TimingPlace(
        cpu=cpu_name(),
        cores=os.cpu_count() or 1,
        threads=engine.threads if isinstance(engine, NativeEngine) else torch.get_num_threads(),
        engine=engine.name,
        batch_tokens=settings.batch_tokens,
        batch_sentences=settings.batch_sentences,
    )


def timed_otherwise(found: PointSet, wish: Wish, engine: Engine, settings: SearchSettings) -> str:
    """How searching here differs from the search that a wish by time was measured with; empty if it
    does not, or if the wish is none by time."""
    if wish.time is None or found.clock is None:
        return ""
    return found.clock.place.otherwise(timing_place(engine, settings))
