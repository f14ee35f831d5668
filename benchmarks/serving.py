"""What serving costs: the server against `anydepth translate`, against a plain server around
CTranslate2, one request alone, and twice as many requests as it can answer.

    python benchmarks/serving.py --run runs/demo/exits --source-file runs/demo/corpus/test.de

Servers are processes of one thread of search each. The clients are this process, on loopback alone,
with a sentence a request and connections that stay open. Contestants take turns in interleaved
rounds; a ratio is the median over the rounds, with the smallest and the largest. Beside the clock
stands the CPU time of the contestant's own process, which a busy machine does not change. Overload
sends requests at twice the rate that was measured, whether or not answers come, for --overload
seconds.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).parents[1]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
PATIENCE = 120.0
MOST_ON_THEIR_WAY = 800  # requests of an overload
MET = 200
NO_ANSWER = 0

RIVAL = """
import socket, sys
from pathlib import Path
import ctranslate2, uvicorn
from fastapi import FastAPI
from anydepth.runs.run import Run

source, target = Run(Path(sys.argv[2])).tokenizers()
translator = ctranslate2.Translator(sys.argv[1], inter_threads=1, intra_threads=1)
app = FastAPI()

@app.post("/translate")
def translate(question: dict):
    pieces = source.pieces(source.encode(question["q"]))
    found = translator.translate_batch([[*pieces, "</s>"]], beam_size=int(sys.argv[3]))
    return {"translatedText": "".join(found[0].hypotheses[0]).replace("\\u2581", " ").strip()}

sock = socket.create_server(("127.0.0.1", 0))
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print('"event": "listening", "port":', sock.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off")).run(sockets=[sock])
"""


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


def main() -> None:
    """Prints a table for each question."""
    options = parse_options()
    sentences = options.source_file.read_text(encoding="utf-8").splitlines()[: options.sentences]
    with tempfile.TemporaryDirectory() as folder:
        rival = exported(options.run, Path(folder))
        with served(options.run) as ours, rival_served(rival, options.run) as theirs:
            compare_throughput(options, sentences, ours, theirs)
            measure_overhead(options, sentences, ours)
            if options.overload > 0:
                overload(options, sentences, ours)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--source-file", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--policy", help="the adaptive policy; default: the cheapest that loses no BLEU")
    parser.add_argument("--overload", type=float, default=600.0, help="seconds; 0: none")
    return parser.parse_args()


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


def rival_served(model: Path, run: Path) -> AbstractContextManager[RunningServer]:
    """A plain FastAPI server that calls CTranslate2's translate_batch for each request."""
    from anydepth.runs.run import Run

    return started([sys.executable, "-c", RIVAL, model, run, Run(run).config.decoding.beam])


def exported(run: Path, folder: Path) -> Path:
    """The same weights at full depth, as CTranslate2 reads them."""
    to = folder / "ctranslate2"
    command = [sys.executable, "-m", "anydepth", "export", run, "--format", "ctranslate2", "--to", to]
    subprocess.run(list(map(str, command)), check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    return to


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


def by_command(run: Path, sentences: Sequence[str], policy: str | None) -> Turn:
    """The same sentences by `anydepth translate`, its start not counted: it is given all of them
    five times, and once, and the differences are noted."""
    command = [sys.executable, "-m", "anydepth", "translate", run, *(["--policy", policy] if policy else [])]

    def figures(times: int) -> tuple[float, float]:
        text = ("\n".join([*sentences] * times) + "\n").encode()
        begun, cpu = time.perf_counter(), sum(os.times()[2:4])
        subprocess.run(list(map(str, command)), input=text, stdout=subprocess.DEVNULL, check=True, env=ENVIRONMENT)
        return time.perf_counter() - begun, sum(os.times()[2:4]) - cpu

    many, once = figures(5), figures(1)
    seconds, cpu_seconds = (max(more - less, 1e-6) for more, less in zip(many, once, strict=True))
    return Turn(seconds, cpu_seconds, {MET: [0.0] * 4 * len(sentences)})


def compare_throughput(
    options: argparse.Namespace, sentences: Sequence[str], ours: RunningServer, theirs: RunningServer
) -> None:
    """Sentences a second, the 95th percentile and CPU time of ours at full depth and with a policy,
    of the command line with the same, and of the rival."""
    policy = options.policy or adaptive_policy(ours)
    deep, adaptive = ([question_of(each, own) for each in sentences] for own in (None, policy))
    turns: dict[str, Callable[[], Turn]] = {
        "server, full depth": lambda: ask_all(ours, deep, options.clients),
        "server, adaptive": lambda: ask_all(ours, adaptive, options.clients),
        "CTranslate2": lambda: ask_all(theirs, deep, options.clients),
        "translate, full depth": lambda: by_command(options.run, sentences, None),
        "translate, adaptive": lambda: by_command(options.run, sentences, policy),
    }
    found: dict[str, list[Turn]] = {name: [] for name in turns}
    for name in ("server, full depth", "CTranslate2"):
        turns[name]()  # once without a look at the clock
    for _ in range(options.rounds):
        for name, work in turns.items():
            found[name].append(work())
            assert set(found[name][-1].latencies) == {MET}, f"{name} has not met every request"
    print(f"{options.clients} clients, {len(sentences)} sentences, {options.rounds} rounds; adaptive: {policy}")
    for name, own in found.items():
        figures = [median(values) for values in zip(*map(figures_of, own), strict=True)]
        print(f"  {name:32} {figures[0]:8.1f}/s  p95 {figures[1]:7.1f} ms  CPU {figures[2]:6.2f} ms a sentence")
    for one, other in [
        ("server, full depth", "translate, full depth"),
        ("server, adaptive", "translate, adaptive"),
        ("server, full depth", "CTranslate2"),
        ("server, adaptive", "CTranslate2"),
    ]:
        pairs = list(zip(found[one], found[other], strict=True))
        print(f"  {one} by {other}: {spread([mine.per_second / its.per_second for mine, its in pairs])} times the")
        print(f"    sentences a second, {spread([mine.cpu_ms / its.cpu_ms for mine, its in pairs])} of the CPU time")


def figures_of(turn: Turn) -> tuple[float, float, float]:
    return turn.per_second, turn.percentile(95), turn.cpu_ms


def spread(values: Sequence[float]) -> str:
    """The median, with the smallest and the largest."""
    return f"{median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


def adaptive_policy(server: RunningServer) -> str:
    """The cheapest budget that loses nothing of full depth's BLEU; full depth where there is none."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/depths?source=de&target=en") as answer:
        offers = json.load(answer)
    full = offers[-1]
    good = [offer for offer in offers if (offer["bleu"] or 0) >= (full["bleu"] or 101)]
    return str((good or [full])[0]["policy"])


def measure_overhead(options: argparse.Namespace, sentences: Sequence[str], ours: RunningServer) -> None:
    """What one request alone takes beyond the search of its sentence in this process, in turns."""
    from anydepth.inference.translator import Translator

    translator = Translator.load(options.run, threads=1)
    overheads, searches = list[float](), list[float]()
    for sentence in sentences[:200]:
        asked = ask_all(ours, [question_of(sentence)] * 2, 1).met[1]  # the first opens the connection
        begun = time.perf_counter()
        translator.translate([sentence])
        searches.append(time.perf_counter() - begun)
        overheads.append(asked - searches[-1])
    print(f"one request alone: p50 {1000 * median(overheads):.2f} ms beyond {1000 * median(searches):.2f} ms of search")


def overload(options: argparse.Namespace, sentences: Sequence[str], ours: RunningServer) -> None:
    """Twice as many requests as can be answered, then a rest, then what can be answered again."""
    questions = [question_of(each) for each in sentences]
    before = ask_all(ours, questions, options.clients)
    rate, memory = 2 * before.per_second, list[int]()
    turn = asyncio.run(flood(ours, questions, rate=rate, seconds=options.overload, memory=memory))
    time.sleep(2)
    after = ask_all(ours, questions, options.clients)
    counts = {status: len(own) for status, own in sorted(turn.latencies.items())}
    settled, largest = memory[len(memory) // 4], max(memory)
    print(f"overload: {rate:.0f} requests/s for {options.overload:.0f} s; answers by status: {counts}")
    print(f"  met: {turn.per_second:.1f}/s, p50 {turn.percentile(50):.0f} ms, p99 {turn.percentile(99):.0f} ms")
    print(f"  memory: {settled / 2**20:.0f} MiB after a quarter, {100 * (largest / settled - 1):+.1f}% at most then")
    print(f"  afterwards: {after.per_second / before.per_second:.2f} of the throughput before")


async def flood(
    server: RunningServer, questions: Sequence[bytes], *, rate: float, seconds: float, memory: list[int]
) -> Turn:
    """Requests at a rate, whether or not answers come."""
    turn, connections, running = Turn(), Connections(server.port), set[asyncio.Task[None]]()
    begun, sent = time.perf_counter(), 0
    while (now := time.perf_counter() - begun) < seconds:
        while sent < now * rate and len(running) < MOST_ON_THEIR_WAY:
            task = asyncio.create_task(connections.ask(questions[sent % len(questions)], turn))
            running.add(task)
            task.add_done_callback(running.discard)
            sent += 1
        if now >= len(memory) * seconds / 40:
            memory.append(server.resident_bytes())
        await asyncio.sleep(0.002)
    await asyncio.gather(*running)
    turn.seconds = time.perf_counter() - begun
    connections.close()
    return turn


if __name__ == "__main__":
    main()
