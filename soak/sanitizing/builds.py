"""The extension built under each sanitizer, and processes that run under it."""

import ctypes
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parents[2] / "anydepth" / "inference" / "engines" / "native" / "cpp"
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
ADDR_NO_RANDOMIZE = 0x0040000


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
