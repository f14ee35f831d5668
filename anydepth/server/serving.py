"""A server from its runs to its end."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from anydepth.server.counters import ServerCounters
from anydepth.server.key_file import KeyRing
from anydepth.server.logs import log_to_stderr
from anydepth.server.pairs import load_pairs
from anydepth.server.process import ServingPlace, run_server
from anydepth.server.service import TranslationService
from anydepth.server.serving_limits import ServingLimits
from anydepth.server.web import make_web


@dataclass(frozen=True)
class ServingSettings:
    """All that `anydepth serve` is told."""

    runs: Sequence[Path]
    place: ServingPlace
    engine: str
    int8: bool = False
    threads: int | None = None
    beam: int | None = None
    limits: ServingLimits = field(default_factory=ServingLimits)
    keys: Path | None = None
    origins: Sequence[str] = ()
    logs_text: bool = False


def serve_runs(settings: ServingSettings) -> None:
    """Loads the runs and serves them until a signal comes."""
    keys = None if settings.keys is None else KeyRing(settings.keys)
    counters = ServerCounters()
    pairs = load_pairs(
        settings.runs,
        engine=settings.engine,
        int8=settings.int8,
        threads=settings.threads,
        beam=settings.beam,
        on_search=counters.count_search,
    )
    service = TranslationService(pairs, settings.limits, counters, keys, settings.logs_text)
    log_to_stderr()
    try:
        run_server(make_web(service, origins=settings.origins), settings.place, settings.limits)
    finally:
        pairs.close()
