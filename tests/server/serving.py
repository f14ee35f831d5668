"""A server of the sample runs: in this process for most tests, in one of its own where connections
and signals matter."""

import json
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any

from cli.commands import ROOT, start
from fastapi.testclient import TestClient

from anydepth.inference.engines.names import AUTOMATIC
from anydepth.runs.run import Run
from anydepth.server.counters import ServerCounters
from anydepth.server.key_file import KeyRing
from anydepth.server.pairs import ServedPairs, load_pairs
from anydepth.server.service import TranslationService
from anydepth.server.serving_limits import ServingLimits
from anydepth.server.web import make_web

SAMPLES = ROOT / "tests" / "samples"
SOURCES = (SAMPLES / "text" / "test.de").read_text(encoding="utf-8").splitlines()
UNLIMITED = ServingLimits(requests_per_minute=0)


def sample_run(name: str, to: Path, source: str = "de", target: str = "en") -> Path:
    """A copy of a sample run, of these languages."""
    shutil.copytree(SAMPLES / "runs" / name, to)
    note = json.loads((to / "data.json").read_text(encoding="utf-8"))
    (to / "data.json").write_text(json.dumps(note | {"source_lang": source, "target_lang": target}), encoding="utf-8")
    Run(to).seal.make()
    return to


def loaded(*runs: Path, counters: ServerCounters | None = None) -> ServedPairs:
    """The pairs of some runs, with one thread each."""
    on_search = (counters or ServerCounters()).count_search
    return load_pairs(runs, engine=AUTOMATIC, int8=False, threads=1, on_search=on_search)


def client_of_server(
    pairs: ServedPairs,
    limits: ServingLimits = UNLIMITED,
    *,
    keys: Path | None = None,
    origins: tuple[str, ...] = (),
    logs_text: bool = False,
    raises: bool = True,
) -> TestClient:
    """A client of a server of `pairs` in this process."""
    ring = None if keys is None else KeyRing(keys)
    service = TranslationService(pairs, limits, ServerCounters(), ring, logs_text)
    return TestClient(make_web(service, origins=origins), raise_server_exceptions=raises)


def asked(q: str | list[str], **more: Any) -> dict[str, Any]:
    """A question from German to English."""
    return {"q": q, "source": "de", "target": "en", **more}


@dataclass
class ServerProcess:
    """A server in a process of its own: where it is, and what it has logged so far."""

    process: "Popen[bytes]"
    url: str
    log: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        """The port at which it listens."""
        return int(self.url.rpartition(":")[2])


@contextmanager
def serving(*arguments: object) -> Iterator[ServerProcess]:
    """`anydepth serve ARGUMENTS` at a free port, until the block ends."""
    process = start("serve", *arguments, "--port", 0, "--threads", 1)
    assert process.stderr is not None
    first = process.stderr.readline().decode()
    found = re.search(r'"event": "listening".*"port": ([0-9]+)', first)
    if not found:
        process.kill()  # what it has to say would not end otherwise
    assert found, first + process.stderr.read().decode()
    server = ServerProcess(process, f"http://127.0.0.1:{found[1]}", [first])
    reader = threading.Thread(target=lambda: server.log.extend(line.decode() for line in process.stderr or []))
    reader.start()
    try:
        yield server
    finally:
        process.kill()
        process.wait()
        reader.join()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
