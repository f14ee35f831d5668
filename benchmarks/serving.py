"""What serving costs: the server against `anydepth translate`, against a plain server around
CTranslate2, and one request alone.

    python benchmarks/serving.py --run runs/demo/exits --source-file runs/demo/corpus/test.de \
        --reference-file runs/demo/corpus/test.en

Servers are processes, of one thread of search each and then of two; both have the same precision and
beam. The clients are wrk where it is installed, else this process, on loopback alone, with a sentence
a request and connections that stay open. Contestants take turns in interleaved rounds; a ratio is the
median over the rounds, with the smallest and the largest. Beside the clock stands the CPU time of the
contestant's own process, which a busy machine does not change. More requests than it can answer are
the matter of overload.py.
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

from server_load import (
    ENVIRONMENT,
    WRK,
    LoadFigures,
    RunningServer,
    ask_all,
    ask_by_wrk,
    question_of,
    served,
    started,
    translations,
    wrk_version,
)

RIVAL = """
import json, socket, sys
from pathlib import Path
import ctranslate2, uvicorn
from fastapi import FastAPI
from anydepth.runs.run import Run

folder, run, beam, precision, threads, has_map = sys.argv[1:]
source, target = Run(Path(run)).tokenizers()
translator = ctranslate2.Translator(folder, inter_threads=int(threads), intra_threads=1, compute_type=precision)
app = FastAPI()

@app.post("/translate")
def translate(question: dict):
    pieces = source.pieces(source.encode(question["q"]))
    found = translator.translate_batch([pieces], beam_size=int(beam), use_vmap=has_map == "True")
    return {"translatedText": "".join(found[0].hypotheses[0]).replace("\\u2581", " ").strip()}

sock = socket.create_server(("127.0.0.1", 0))
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
told = {"event": "listening", "precision": translator.compute_type, "port": sock.getsockname()[1]}
print(json.dumps(told), flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off")).run(sockets=[sock])
"""
OURS, ADAPTIVE, RIVALS = "server, full depth", "server, adaptive", "CTranslate2"
COMMAND, ADAPTIVE_COMMAND = "translate, full depth", "translate, adaptive"
RATIOS = [(OURS, COMMAND), (ADAPTIVE, ADAPTIVE_COMMAND), (OURS, RIVALS), (ADAPTIVE, RIVALS)]


def main() -> None:
    """Prints a table for each number of threads, and what one request alone takes."""
    options = parse_options()
    sentences = options.source_file.read_text(encoding="utf-8").splitlines()[: options.sentences]
    clients = f"{wrk_version()}, {options.seconds:g} s a turn" if uses_wrk(options) else "this process"
    print(f"{options.clients} clients: {clients}; {len(sentences)} sentences, {options.rounds} rounds, ", end="")
    print(f"beam {options.beam}, {'int8' if options.int8 else 'float32'}", end="")
    print(", CTranslate2 with the run's table of words" if options.rival_map else "", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        rival = exported(options.run, Path(folder))
        for number, threads in enumerate(options.threads):
            with ours_served(options, threads) as ours, rival_served(options, rival, threads) as theirs:
                if number == 0:
                    compare_translations(options, sentences, ours, theirs)
                compare_throughput(options, sentences, ours, theirs, threads)
                if number == 0:
                    measure_overhead(options, sentences, ours, threads)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--source-file", type=Path, required=True)
    parser.add_argument("--reference-file", type=Path, help="its translation, to print the BLEU of both servers")
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a turn of wrk")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="of search, a table for each number")
    parser.add_argument("--int8", action="store_true", help="both servers with 8-bit products")
    parser.add_argument("--beam", type=int, help="of both servers; default: the run's")
    parser.add_argument("--rival-map", action="store_true", help="the rival chooses words by the run's table, too")
    parser.add_argument("--python-clients", action="store_true", help="even where wrk is installed")
    parser.add_argument("--policy", help="the adaptive policy; default: the cheapest that loses no BLEU")
    options = parser.parse_args()
    if options.beam is None:
        from anydepth.runs.run import Run

        options.beam = Run(options.run).config.decoding.beam
    return options


def uses_wrk(options: argparse.Namespace) -> bool:
    return WRK is not None and not options.python_clients


def ours_served(options: argparse.Namespace, threads: int) -> AbstractContextManager[RunningServer]:
    """Our server with so many threads of search."""
    precision = ["--int8"] if options.int8 else []
    return served(options.run, "--threads", threads, "--beam", options.beam, *precision)


def rival_served(options: argparse.Namespace, model: Path, threads: int) -> AbstractContextManager[RunningServer]:
    """A plain FastAPI server that calls CTranslate2's translate_batch for each request, with so many
    threads of search. The exported model adds the end of a sentence itself."""
    precision = "int8" if options.int8 else "float32"
    return started(
        [sys.executable, "-c", RIVAL, model, options.run, options.beam, precision, threads, options.rival_map]
    )


def exported(run: Path, folder: Path) -> Path:
    """The same weights at full depth, as CTranslate2 reads them."""
    to = folder / "ctranslate2"
    command = [sys.executable, "-m", "anydepth", "export", run, "--format", "ctranslate2", "--to", to]
    subprocess.run(list(map(str, command)), check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    return to


def compare_translations(
    options: argparse.Namespace, sentences: Sequence[str], ours: RunningServer, theirs: RunningServer
) -> None:
    """BLEU of what the servers answer, where there is a reference."""
    if options.reference_file is None:
        return
    from anydepth.evaluation.bleu import score_texts

    references = options.reference_file.read_text(encoding="utf-8").splitlines()[: len(sentences)]
    policy = options.policy or adaptive_policy(ours)
    for name, server, own in [(OURS, ours, None), (ADAPTIVE, ours, policy), (RIVALS, theirs, None)]:
        found = score_texts(translations(server, [question_of(each, own) for each in sentences]), references).bleu
        print(f"  {name:32} BLEU {found.value:.2f}  {found.signature}", flush=True)


def by_command(options: argparse.Namespace, sentences: Sequence[str], policy: str | None, threads: int) -> LoadFigures:
    """The same sentences by `anydepth translate`, its start not counted: it is given all of them
    five times, and once, and the differences are noted."""
    command = [sys.executable, "-m", "anydepth", "translate", options.run, "--beam", options.beam]
    command += [*(["--policy", policy] if policy else []), *(["--int8"] if options.int8 else [])]
    environment = ENVIRONMENT | {"OMP_NUM_THREADS": str(threads)}

    def figures(times: int) -> tuple[float, float]:
        text = ("\n".join([*sentences] * times) + "\n").encode()
        begun, cpu = time.perf_counter(), sum(os.times()[2:4])
        subprocess.run(list(map(str, command)), input=text, stdout=subprocess.DEVNULL, check=True, env=environment)
        return time.perf_counter() - begun, sum(os.times()[2:4]) - cpu

    many, once = figures(5), figures(1)
    seconds, cpu_seconds = (max(more - less, 1e-6) for more, less in zip(many, once, strict=True))
    done = 4 * len(sentences)
    return LoadFigures(done / seconds, 0.0, 0.0, 1000 * cpu_seconds / done, 0.0)


def compare_throughput(
    options: argparse.Namespace, sentences: Sequence[str], ours: RunningServer, theirs: RunningServer, threads: int
) -> None:
    """Sentences a second, percentiles and CPU time of ours at full depth and with a policy, of the
    command line with the same, and of the rival."""
    policy = options.policy or adaptive_policy(ours)
    deep, adaptive = ([question_of(each, own) for each in sentences] for own in (None, policy))

    def asked(server: RunningServer, questions: Sequence[bytes]) -> LoadFigures:
        if uses_wrk(options):
            return ask_by_wrk(server, questions, options.clients, seconds=options.seconds)
        return ask_all(server, questions, options.clients).figures

    turns: dict[str, Callable[[], LoadFigures]] = {
        OURS: lambda: asked(ours, deep),
        ADAPTIVE: lambda: asked(ours, adaptive),
        RIVALS: lambda: asked(theirs, deep),
        COMMAND: lambda: by_command(options, sentences, None, threads),
        ADAPTIVE_COMMAND: lambda: by_command(options, sentences, policy, threads),
    }
    found: dict[str, list[LoadFigures]] = {name: [] for name in turns}
    for name in (OURS, ADAPTIVE, RIVALS):
        turns[name]()  # once without a look at the clock
    for _ in range(options.rounds):
        for name, work in turns.items():
            found[name].append(work())
            assert found[name][-1].not_met == 0, f"{name} has not met {found[name][-1].not_met} requests"
    print(f"threads of search: {threads}; adaptive: {policy}")
    tell_throughput(found)


def tell_throughput(found: dict[str, list[LoadFigures]]) -> None:
    """Prints the medians of each contestant, and the ratios of those that are to be compared."""
    for name, own in found.items():
        waited = "".join(f"  {each} {median(getattr(turn, each) for turn in own):7.1f} ms" for each in ("p50", "p95"))
        cpu, clients = (median(getattr(turn, each) for turn in own) for each in ("cpu_ms", "client_cpu_ms"))
        print(f"  {name:24} {median(turn.per_second for turn in own):8.1f}/s", end="")
        print(f"{waited if name not in (COMMAND, ADAPTIVE_COMMAND) else '':30}  CPU {cpu:6.2f} ms a sentence", end="")
        print(f", clients {clients:.2f} ms" if clients else "")
    for one, other in RATIOS:
        pairs = list(zip(found[one], found[other], strict=True))
        print(
            f"  {one} by {other}: {spread([mine.per_second / its.per_second for mine, its in pairs])} times the", end=""
        )
        print(
            f" sentences a second, {spread([mine.cpu_ms / its.cpu_ms for mine, its in pairs])} of the CPU time", end=""
        )
        print(f", {spread([mine.p95 / its.p95 for mine, its in pairs])} of p95" if other == RIVALS else "")
    sys.stdout.flush()


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


def measure_overhead(options: argparse.Namespace, sentences: Sequence[str], ours: RunningServer, threads: int) -> None:
    """What one request alone takes beyond the search of its sentence in this process, in turns."""
    from anydepth.inference.translator import Translator

    translator = Translator.load(options.run, int8=options.int8, threads=threads)
    overheads, searches = list[float](), list[float]()
    for sentence in sentences[:200]:
        asked = ask_all(ours, [question_of(sentence)] * 2, 1).met[1]  # the first opens the connection
        begun = time.perf_counter()
        translator.translate([sentence], beam=options.beam)
        searches.append(time.perf_counter() - begun)
        overheads.append(asked - searches[-1])
    print(f"one request alone: p50 {1000 * median(overheads):.2f} ms beyond {1000 * median(searches):.2f} ms of search")


if __name__ == "__main__":
    main()
