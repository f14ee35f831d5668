"""Servers in processes of their own, and clients that ask them: on loopback alone, with a sentence a
request and connections that stay open.

The clients are wrk where that is asked for, else of this process. Either share the cores with the
server, which clients on other machines do not; so their CPU time is noted, too.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

ROOT = Path(__file__).parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
PATIENCE = 120.0
MET = 200
NO_ANSWER = 0
WRK = shutil.which("wrk")
WRK_REQUESTS = ROOT / "benchmarks" / "wrk_requests.lua"
SETTLING = 1.0  # seconds in which a server ends what a turn has left


@dataclass(frozen=True)
class RunningServer:
    """A server in a process of its own."""

    port: int
    process: int

    def cpu_seconds(self) -> float:
        """The CPU time that it has taken so far: by Linux's clock of another process, because /proc
        counts in hundredths of a second."""
        return time.clock_gettime(~self.process << 3 | 2)

    def resident_bytes(self) -> int:
        """The memory that it takes."""
        pages = int(Path(f"/proc/{self.process}/statm").read_text(encoding="utf-8").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class LoadFigures:
    """What a turn has shown: how many requests were met a second, the milliseconds in which 50 and
    95 of a hundred were, and milliseconds of CPU time for each, of the server and of the clients."""

    per_second: float
    p50: float
    p95: float
    cpu_ms: float
    client_cpu_ms: float
    not_met: int = 0


@dataclass
class Turn:
    """What became of the requests of a turn: the seconds of each by its status."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    client_cpu_seconds: float = 0.0
    latencies: dict[int, list[float]] = field(default_factory=dict)

    @property
    def met(self) -> list[float]:
        """The seconds of those that were met."""
        return self.latencies.get(MET, [])

    @property
    def per_second(self) -> float:
        """How many were met a second."""
        return len(self.met) / self.seconds

    @property
    def figures(self) -> LoadFigures:
        """What the turn has shown."""
        cpu, clients = (1000 * own / max(len(self.met), 1) for own in (self.cpu_seconds, self.client_cpu_seconds))
        not_met = sum(map(len, self.latencies.values())) - len(self.met)
        return LoadFigures(self.per_second, self.percentile(50), self.percentile(95), cpu, clients, not_met)

    def percentile(self, percent: int) -> float:
        """Milliseconds within which so many percent of those that were met were met."""
        return 1000 * (quantiles(self.met, n=100)[percent - 1] if len(self.met) > 1 else sum(self.met))


class Connections:
    """Connections to a server, each for one request at a time."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, body: bytes, turn: Turn) -> None:
        """Asks once, and notes the status and the seconds."""
        begun, status = time.perf_counter(), NO_ANSWER
        with suppress(OSError, asyncio.IncompleteReadError):
            status = await asyncio.wait_for(self._answered(body), PATIENCE)
        turn.latencies.setdefault(status, []).append(time.perf_counter() - begun)

    async def _answered(self, body: bytes) -> int:
        """The status of the answer. A connection that the server closed while nobody used it is
        replaced, as every client does."""
        while self.free:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                return await self._over(*self.free.pop(), body)
        return await self._over(*await asyncio.open_connection("127.0.0.1", self.port), body)

    async def _over(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes) -> int:
        head = f"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        writer.write(head.encode() + b"\r\n\r\n" + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = re.search(rb"content-length: ([0-9]+)", answer)
        assert length is not None
        await reader.readexactly(int(length[1]))
        self.free.append((reader, writer))
        return int(answer[9:12])

    def close(self) -> None:
        for _, writer in self.free:
            writer.close()


@contextmanager
def started(command: Sequence[object]) -> Iterator[RunningServer]:
    """A server, once it has said at which port it listens."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, env=ENVIRONMENT)
        try:
            yield RunningServer(port_said(process, log.fileno()), process.pid)
        finally:
            process.terminate()
            process.wait()


def port_said(process: "subprocess.Popen[bytes]", log: int) -> int:
    """The port that a server that is starting says it listens at."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(rb'"event": "listening".*"port": ?([0-9]+)', os.pread(log, 10_000, 0)):
            return int(found[1])
        time.sleep(0.1)
    raise SystemExit(f"a server has not started: {os.pread(log, 10_000, 0).decode()}")


def served(run: Path, *options: object) -> AbstractContextManager[RunningServer]:
    """Our server, without a limit of its rate; `options` are those of `anydepth serve`."""
    limits = ["--requests-per-minute", 0, "--connections", 5000, "--waiting", 400]
    return started(
        [sys.executable, "-m", "anydepth", "serve", run, "--port", 0, *(options or ["--threads", 1]), *limits]
    )


def question_of(sentence: str, policy: str | None = None) -> bytes:
    """A question from German to English."""
    budget = {} if policy is None else {"policy": policy}
    return json.dumps({"q": sentence, "source": "de", "target": "en", **budget}).encode()


def ask_all(server: RunningServer, questions: Sequence[bytes], clients: int) -> Turn:
    """All questions, by so many clients, each of which asks again when it is answered."""

    async def asking() -> Turn:
        waiting, connections, turn = iter(questions), Connections(server.port), Turn()

        async def one_client() -> None:
            for question in waiting:
                await connections.ask(question, turn)

        begun, cpu, own_cpu = time.perf_counter(), server.cpu_seconds(), time.process_time()
        await asyncio.gather(*(one_client() for _ in range(clients)))
        turn.seconds, turn.cpu_seconds = time.perf_counter() - begun, server.cpu_seconds() - cpu
        turn.client_cpu_seconds = time.process_time() - own_cpu
        connections.close()
        return turn

    return asyncio.run(asking())


def wrk_version() -> str:
    """wrk by its name and version."""
    said = subprocess.run([str(WRK), "--version"], capture_output=True, text=True, check=False).stdout
    return " ".join(said.split()[:2])


def ask_by_wrk(server: RunningServer, questions: Sequence[bytes], clients: int, *, seconds: float) -> LoadFigures:
    """The questions in turn, by so many clients of wrk for so long."""
    assert WRK is not None
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(b"".join(question + b"\n" for question in questions))
        file.flush()
        limits = ["-t1", f"-c{clients}", f"-d{max(1, round(seconds))}s", f"--timeout={PATIENCE:.0f}s"]
        command = [WRK, *limits, "-s", str(WRK_REQUESTS), f"http://127.0.0.1:{server.port}/translate", "--", file.name]
        cpu, own_cpu = server.cpu_seconds(), sum(os.times()[2:4])
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        cpu, own_cpu = server.cpu_seconds() - cpu, sum(os.times()[2:4]) - own_cpu
    time.sleep(SETTLING)
    found: dict[str, Any] = json.loads(said.splitlines()[-1])
    met = found["answers"] - found["refused"]
    each_ms = 1000 / max(met, 1)
    not_met = found["refused"] + found["lost"]
    return LoadFigures(met / found["seconds"], found["p50"], found["p95"], cpu * each_ms, own_cpu * each_ms, not_met)


def translations(server: RunningServer, questions: Sequence[bytes]) -> list[str]:
    """The answers to some questions, in their order."""

    def asked(question: bytes) -> str:
        head = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{server.port}/translate", question, head)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return str(json.load(answer)["translatedText"])

    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(asked, questions))
