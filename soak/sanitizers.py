"""Searches of the native engine under the compiler's sanitizers: wrong memory, undefined behaviour
(ASAN, UBSAN) and races (TSAN).

    python soak/sanitizers.py --size 1 --seed 1

Builds the extension twice into a temporary folder. Every case is a tiny random model with a random
policy, beam, batch, number of threads, precision and instruction set, some of it as odd as the
settings allow; the plain step of PyTorch says what the engine must find, and the engine itself, one
sentence at a time in one thread, what 8-bit products must. Where the plain step in float64 finds
something else than in float32, rounding alone decides, and only the engine itself is asked. The
searches run in processes of their own that have nothing but NumPy and the extension in them, with
what the engine's Python side handed over: PyTorch has races of its own to be told of. `--size 1` is
1,500 cases under each sanitizer. Without g++ or a sanitizer's library nothing is built, and the
closing line says so.
"""

import argparse
import ctypes
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "anydepth" / "inference" / "engines" / "native" / "cpp"
FULL_SIZE = 1_500
PORTION = 60  # cases made together, and searched by one process of each build
SHOWN = 5
FLAGS = ["-std=c++17", "-O1", "-g1", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread", "-fno-omit-frame-pointer"]
BUILDS = {
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "thread": ["-fsanitize=thread"],
}
LIBRARIES = {"address": "libasan.so", "thread": "libtsan.so"}
SETTINGS = {
    # CPython never gives back what it interns, so leaks are not looked for: that memory does not
    # grow is a test of the suite.
    "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66",
    "PYTHONMALLOC": "malloc",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}
NEAR = 1e-4  # hypotheses whose scores differ by less may change places
ADDR_NO_RANDOMIZE = 0x0040000


def main() -> int:
    options = parse_options()
    if options.search:
        return search_cases(Path(options.search), Path(options.library))
    if reason := why_not():
        print(f"sanitizers: skipped: {reason}")
        return 0
    started, cases = time.monotonic(), max(1, round(FULL_SIZE * options.size))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        libraries = build(folder)
        searches, findings = soak(folder, libraries, cases, options.seed)
    for finding in findings[:SHOWN]:
        print(finding)
    minutes = (time.monotonic() - started) / 60
    print(
        f"sanitizers: {cases:,} cases from seed {options.seed}, {searches:,} searches under {' and '.join(libraries)}: "
        f"{len(findings)} findings, {minutes:.1f} minutes"
    )
    return 1 if findings else 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=float, default=1.0, help="share of the full size")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--search", help=argparse.SUPPRESS)  # the folder of cases, in a process that searches
    parser.add_argument("--library", help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- building ------------------------------------------------------------------------------------


def why_not() -> str | None:
    """Why there is nothing to run here, if there is not."""
    if not sys.platform.startswith("linux"):
        return f"sanitizers are preloaded, which is known to work on Linux and not on {sys.platform}"
    if shutil.which("g++") is None:
        return "there is no g++"
    if importlib.util.find_spec("pybind11") is None:
        return "there is no pybind11 to build with; pip install --constraint constraints.txt pybind11"
    for kind in BUILDS:
        if not preloaded(kind).exists():
            return f"g++ has no {LIBRARIES[kind]}"
        tried = subprocess.run(
            [sys.executable, "-c", "import numpy"], capture_output=True, text=True, **surroundings(kind)
        )
        if tried.returncode:
            return f"Python does not start with {LIBRARIES[kind]}: {tried.stderr.strip().splitlines()[-1:]}"
    return None


def preloaded(kind: str) -> Path:
    """The library that must be there before Python itself."""
    found = subprocess.run(["g++", f"-print-file-name={LIBRARIES[kind]}"], capture_output=True, text=True, check=True)
    return Path(found.stdout.strip()).resolve()


def surroundings(kind: str) -> dict[str, Any]:
    """How a process under a sanitizer is started: TSAN needs its shadow memory where address
    randomisation might put something else."""
    return {"env": {**os.environ, **SETTINGS, "LD_PRELOAD": str(preloaded(kind))}, "preexec_fn": without_randomisation}


def without_randomisation() -> None:
    ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)


def build(folder: Path) -> dict[str, Path]:
    """The extension under each sanitizer."""
    import pybind11

    includes = [f"-I{SOURCES}", f"-I{pybind11.get_include()}", f"-I{sysconfig.get_paths()['include']}"]
    targets = {kind: folder / kind / f"_native{sysconfig.get_config_var('EXT_SUFFIX')}" for kind in BUILDS}

    def compiled(kind: str) -> None:
        targets[kind].parent.mkdir()
        files = sorted(str(file) for file in SOURCES.rglob("*.cpp"))
        subprocess.run(["g++", *FLAGS, *BUILDS[kind], *includes, *files, "-w", "-o", str(targets[kind])], check=True)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compiled, BUILDS))
    return targets


# ---- cases ---------------------------------------------------------------------------------------


def soak(folder: Path, libraries: dict[str, Path], cases: int, seed: int) -> tuple[int, list[str]]:
    """How many searches ran, and what was found."""
    searches, findings = 0, []
    for start in range(0, cases, PORTION):
        numbers = range(start, min(start + PORTION, cases))
        portion = folder / "cases"
        portion.mkdir()
        for number in numbers:
            write_case(portion / f"{number}", random.Random(f"{seed} {number}"))
        for kind, library in libraries.items():
            count, found = searched(portion, kind, library)
            searches += count
            findings += [f"seed {seed}, {kind}, {line}" for line in found]
        shutil.rmtree(portion)
        if sys.stderr.isatty() or (start // PORTION) % 10 == 9:
            print(
                f"sanitizers: {numbers.stop:,} of {cases:,} cases, {len(findings)} findings",
                file=sys.stderr,
                flush=True,
            )
    return searches, findings


def searched(portion: Path, kind: str, library: Path) -> tuple[int, list[str]]:
    """How many searches of a portion ran under a sanitizer, and its findings; a process that it
    ended is followed by one for the rest."""
    searches, findings = 0, []
    waiting = sorted((int(file.stem) for file in portion.glob("*.json")), reverse=True)
    while waiting:
        (portion / "todo").write_text(json.dumps(waiting[::-1]), encoding="utf-8")
        command = [sys.executable, __file__, "--search", str(portion), "--library", str(library)]
        finished = subprocess.run(command, capture_output=True, text=True, **surroundings(kind))
        lines = [json.loads(line) for line in finished.stdout.splitlines() if line.startswith("{")]
        searches += sum(line["searches"] for line in lines)
        findings += [f"case {line['case']}: {line['finding']}" for line in lines if line["finding"]]
        done = len(lines)
        if finished.returncode and done < len(waiting):
            summary = [
                line
                for line in finished.stderr.splitlines()
                if "ERROR" in line or "WARNING" in line or "runtime error" in line
            ]
            told = (summary or finished.stderr.strip().splitlines()[-1:] or [f"exit code {finished.returncode}"])[0]
            findings.append(f"case {waiting[-1 - done]}: {told}")
            print(finished.stderr, file=sys.stderr)
            done += 1
        elif done < len(waiting):
            findings.append(f"case {waiting[-1 - done]}: the process ended without a word")
            done += 1
        waiting = waiting[: len(waiting) - done]
    return searches, findings


class Recorded:
    """Stands for the compiled module and keeps what it is given."""

    def __init__(self) -> None:
        self.engine: dict[str, Any] = {}
        self.call: tuple[Any, ...] = ()
        self.Shape = self.Policy = self.Settings = dict

    class Rule:
        planned, sequence, multinomial, geometric = "planned", "sequence", "multinomial", "geometric"
        confidence, margin, similarity, shortlist = "confidence", "margin", "similarity", "shortlist"

    class Counts:
        decoder_flops = 0

    def Engine(self, **given: Any) -> "Recorded":  # noqa: N802
        self.engine = given
        return self

    def search(self, *given: Any) -> tuple[list[list[Any]], Any]:
        self.call = given
        return [[] for _ in given[0]], self.Counts


def write_case(path: Path, randomness: random.Random) -> None:
    """A case as JSON and its tensors beside it: what C++ is given, and what it must find."""
    sys.path.insert(0, str(ROOT))
    from dataclasses import replace

    import torch

    from anydepth.exits.parsing import parse_policy
    from anydepth.inference.engines.native import native_engine as native
    from anydepth.search.beam import search
    from anydepth.text.batches import make_source

    torch.set_num_threads(1)
    model = random_model(randomness)
    policy = random_policy(model, randomness)
    settings = random_settings(model, randomness)
    longest = min(randomness.choice([1, 4, 20, 70]), model.config.max_length)
    words = model.source_embedding.num_embeddings
    texts = [
        randomness.choices(range(4, words), k=randomness.randint(0, longest))
        for _ in range(randomness.choice([1, 2, 5, 13]))
    ]
    texts += randomness.sample(texts, randomness.randint(0, len(texts)))  # some twice
    chosen = parse_policy(policy, model) if isinstance(policy, str) else policy(len(texts))
    is_int8, threads, is_deferred = randomness.random() < 0.4, randomness.randint(1, 4), randomness.random() < 0.7
    recorded = Recorded()
    compiled, native._native = native._native, recorded  # type: ignore[assignment]
    try:
        engine = native.NativeEngine(model, int8=is_int8, threads=threads, is_deferred=is_deferred)
        limits = {
            "batch_tokens": randomness.choice([1, 300, 10**9]),
            "batch_sentences": randomness.choice([None, 1, 3]),
        }
        engine.search(texts, chosen, replace(settings, **limits))
    finally:
        native._native = compiled
    expected = None
    if not is_int8:
        plain = search(model, *make_source(texts), chosen, settings)
        exact = search(model.double(), *make_source(texts), chosen, settings)
        said, meant = ([[(each.tokens, each.exits) for each in ranked] for ranked in found] for found in (plain, exact))
        if said == meant:
            expected = [[[each.tokens, each.exits, each.score] for each in ranked] for ranked in plain]
    tensors = recorded.engine.pop("tensors")
    np.savez(path.with_suffix(".npz"), **tensors)
    case = {
        "engine": recorded.engine,
        "call": recorded.call,
        "expected": expected,
        "policy": chosen.name,
        "seed": repr(settings),
    }
    path.with_suffix(".json").write_text(json.dumps(case), encoding="utf-8")


def random_model(randomness: random.Random) -> Any:
    """A model of odd sizes whose every parameter is random, sure of its words and exits often
    enough."""
    import torch

    from anydepth.config.loading import make_config
    from anydepth.exits.adaptive import AdaptiveTransformer

    heads, is_tied = randomness.choice([1, 2, 3, 4]), randomness.random() < 0.3
    # A state of very few numbers is almost all sign after its norm, so that hypotheses tie in
    # earnest.
    encoder, decoder = (max(8 // heads * heads, heads * randomness.choice([2, 4, 6, 10, 16, 18])) for _ in range(2))
    encoder = decoder if is_tied else encoder
    source, target = (randomness.choice([6, 7, 19, 64, 130]) for _ in range(2))
    halting = randomness.choice(["none", "sequence", "multinomial", "geometric"])
    units = randomness.choice([0, 1, 7, 40]) if halting == "geometric" else 0
    config = make_config(
        {
            "model": {
                "blocks": randomness.choice([1, 2, 3, 4, 7]),
                "heads": heads,
                "dropout": 0.0,
                "max_length": randomness.choice([3, 40, 90]),
                "classifiers": "tied" if is_tied else randomness.choice(["untied", "shared"]),
                "encoder": {
                    "blocks": randomness.choice([1, 2]),
                    "dim": encoder,
                    "ffn_dim": randomness.choice([1, 5, 33]),
                },
                "decoder": {"dim": decoder, "ffn_dim": randomness.choice([1, 20, 50])},
            },
            "exits": {"halting": halting, "halting_units": units},
        },
        [],
    )
    torch.manual_seed(randomness.randrange(10**6))
    model = AdaptiveTransformer(
        config, source_vocab=target if is_tied else source, target_vocab=target, is_joint=is_tied
    )
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
        for classifier in {model.classifier(n) for n in model.config.classifier_exits}:
            classifier *= randomness.choice([1, 3, 8])
    return model.eval()


def random_policy(model: Any, randomness: random.Random) -> Any:
    """The text of a policy that the model has, or what makes forced exits for so many sentences."""
    import torch

    from anydepth.exits.halting import GeometricHalting
    from anydepth.exits.policies import ForcedExits

    kinds = ["fixed", "uniform", "confidence", "margin", "similarity", "shortlist", "forced"]
    kind = randomness.choice(kinds)
    own = type(model.halting).__name__.removesuffix("Halting").lower()
    if model.halting is not None and randomness.random() < 0.4:
        kind = own
    values = [
        randomness.choice([0, 1, *(round(randomness.random() ** 2, 3) for _ in range(6))])
        for _ in range(model.blocks - 1)
    ]
    thresholds = ",".join(map(str, values)) or "0.5"
    match kind:
        case "fixed":
            return f"fixed:{randomness.randint(1, model.blocks)}"
        case "uniform":
            return f"uniform:{randomness.randrange(1000)}"
        case "sequence" | "multinomial":
            return kind
        case "shortlist":
            return f"shortlist:{randomness.choice([1, 2, 5, 64, 500])}:{thresholds}"
        case "forced":
            watched = (
                model.halting if isinstance(model.halting, GeometricHalting) and randomness.random() < 0.5 else None
            )
            generator = torch.Generator().manual_seed(randomness.randrange(10**6))
            width = randomness.randint(1, 9)
            return lambda count: ForcedExits(
                torch.randint(1, model.blocks + 1, (count, width), generator=generator), watched, model.blocks
            )
    return f"{kind}:{thresholds}"


def random_settings(model: Any, randomness: random.Random) -> Any:
    """A beam, perhaps wider than there are words, and limits, perhaps of one token."""
    from anydepth.search.decoding import SearchSettings

    beam = randomness.choice([1, 1, 2, 3, 5, 12, 40])
    length = {"length_ratio": randomness.choice([0.0, 0.5, 1.5]), "length_offset": randomness.choice([1, 2, 5, 15])}
    exact = {"exact_length": randomness.choice([1, 4, 20])} if randomness.random() < 0.15 else {}
    best = randomness.choice([1, beam])
    return SearchSettings(beam=beam, best=best, length_penalty=randomness.choice([0.0, 0.6, 1.0]), **length, **exact)


# ---- searching, in a process of its own ----------------------------------------------------------


def search_cases(folder: Path, library: Path) -> int:
    """Searches the cases of `folder` that are to do with the extension at `library`; one line of
    JSON for each."""
    native = load_extension(library)
    instructions = native.instruction_sets()
    for number in json.loads((folder / "todo").read_text(encoding="utf-8")):
        case = json.loads((folder / f"{number}.json").read_text(encoding="utf-8"))
        tensors = dict(np.load(folder / f"{number}.npz"))
        searches, finding = 0, ""
        for set_ in dict.fromkeys([instructions[number % len(instructions)], "plain"]):
            count, found = search_case(native, case, tensors, set_)
            searches += count
            finding = finding or (f"{set_}, {case['policy']}, {case['seed']}: {found}" if found else "")
        print(json.dumps({"case": number, "searches": searches, "finding": finding}), flush=True)
    return 0


def load_extension(library: Path) -> Any:
    spec = importlib.util.spec_from_file_location("_native", library)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def search_case(
    native: Any, case: dict[str, Any], tensors: dict[str, np.ndarray], instructions: str
) -> tuple[int, str]:
    """How many searches were run, and what is wrong with what they found: as given, and one
    sentence at a time in one thread."""
    given = {**case["engine"], "shape": native.Shape(**case["engine"]["shape"]), "instructions": instructions}
    engine = native.Engine(tensors=tensors, **given)
    sources, limits, policy, settings = case["call"]
    rule = getattr(native.Rule, policy["rule"])
    together, _ = engine.search(sources, limits, native.Policy(**{**policy, "rule": rule}), native.Settings(**settings))
    alone = {**settings, "threads": 1, "batch_sentences": 1}
    apart, _ = engine.search(sources, limits, native.Policy(**{**policy, "rule": rule}), native.Settings(**alone))
    first, second = hypotheses(together), hypotheses(apart)
    if first != second:
        return 2, "a sentence has other hypotheses among others than alone"
    if case["expected"] is None:
        return 2, "" if all(np.isfinite(score) for ranked in first for *_, score in ranked) else "a score is not finite"
    return 2, next(
        (told for mine, theirs in zip(first, case["expected"], strict=True) if (told := difference(mine, theirs))), ""
    )


def hypotheses(found: Any) -> list[list[tuple[list[int], list[int], float]]]:
    return [[(each.tokens, each.exits, each.score) for each in ranked] for ranked in found]


def difference(mine: Sequence[tuple[list[int], list[int], float]], theirs: Sequence[Sequence[Any]]) -> str:
    """What tells the engine's hypotheses of a sentence from those of the plain step, places of
    nearly equal ones apart."""
    if len(mine) != len(theirs):
        return f"{len(mine)} hypotheses where the plain step has {len(theirs)}"
    for place, ((tokens, exits, score), other) in enumerate(zip(mine, theirs, strict=True)):
        if abs(score - other[2]) > NEAR * (1 + abs(score)):
            return f"hypothesis {place} scores {score}, and {other[2]} by the plain step"
        if [tokens, exits] != list(other[:2]) and not is_near_tie(mine, theirs, place):
            return f"hypothesis {place} is {tokens} by exits {exits}, and {other[0]} by {other[1]} by the plain step"
    return ""


def is_near_tie(
    mine: Sequence[tuple[list[int], list[int], float]], theirs: Sequence[Sequence[Any]], place: int
) -> bool:
    """Whether rounding may have put another hypothesis here: one of nearly its score that stands
    elsewhere or was not kept."""
    tokens, exits, score = mine[place]
    scores = [row[2] for number, row in enumerate(theirs) if number != place and list(row[:2]) == [tokens, exits]]
    is_last = len(mine) > 1 and place == len(mine) - 1
    return is_last or any(abs(score - other) <= NEAR * (1 + abs(score)) for other in scores)


if __name__ == "__main__":
    raise SystemExit(main())
