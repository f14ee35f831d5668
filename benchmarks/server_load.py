"""Servers in processes of their own, and clients that ask them: on loopback alone, with a sentence a
request and connections that stay open."""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

ROOT = Path(__file__).parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
PATIENCE = 120.0
MET = 200
NO_ANSWER = 0


@dataclass(frozen=True)
class RunningServer:
    """A server in a process of its own."""

    port: int
    process: int

    def cpu_seconds(self) -> float:
        """The CPU time that it has taken so far."""
        fields = Path(f"/proc/{self.process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        """The memory that it takes."""
        pages = int(Path(f"/proc/{self.process}/statm").read_text(encoding="utf-8").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass
class Turn:
    """What became of the requests of a turn: the seconds of each by its status."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
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
    def cpu_ms(self) -> float:
        """Milliseconds of CPU time for each that was met."""
        return 1000 * self.cpu_seconds / max(len(self.met), 1)

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


def served(run: Path) -> AbstractContextManager[RunningServer]:
    """Our server, without a limit of its rate."""
    limits = ["--requests-per-minute", 0, "--connections", 5000, "--waiting", 400]
    return started([sys.executable, "-m", "anydepth", "serve", run, "--port", 0, "--threads", 1, *limits])


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

        begun, cpu = time.perf_counter(), server.cpu_seconds()
        await asyncio.gather(*(one_client() for _ in range(clients)))
        turn.seconds, turn.cpu_seconds = time.perf_counter() - begun, server.cpu_seconds() - cpu
        connections.close()
        return turn

    return asyncio.run(asking())
