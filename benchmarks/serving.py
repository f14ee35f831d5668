"""What serving costs: the server against `anydepth translate`, against a plain server around
CTranslate2, and one request alone.

    python benchmarks/serving.py --run runs/demo/exits --source-file runs/demo/corpus/test.de

Servers are processes of one thread of search each. The clients are this process, on loopback alone,
with a sentence a request and connections that stay open. Contestants take turns in interleaved
rounds; a ratio is the median over the rounds, with the smallest and the largest. Beside the clock
stands the CPU time of the contestant's own process, which a busy machine does not change. More
requests than it can answer are the matter of overload.py.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median

from server_load import ENVIRONMENT, MET, RunningServer, Turn, ask_all, question_of, served, started

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


def main() -> None:
    """Prints a table for each question."""
    options = parse_options()
    sentences = options.source_file.read_text(encoding="utf-8").splitlines()[: options.sentences]
    with tempfile.TemporaryDirectory() as folder:
        rival = exported(options.run, Path(folder))
        with served(options.run) as ours, rival_served(rival, options.run) as theirs:
            compare_throughput(options, sentences, ours, theirs)
            measure_overhead(options, sentences, ours)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--source-file", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--policy", help="the adaptive policy; default: the cheapest that loses no BLEU")
    return parser.parse_args()


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


if __name__ == "__main__":
    main()
