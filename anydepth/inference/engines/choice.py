"""The engines by name, and which of them a run is searched with when nobody says."""

import difflib

from anydepth.errors import UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.names import AUTOMATIC
from anydepth.inference.engines.native.native_engine import NativeEngine
from anydepth.inference.engines.onnx.onnx_engine import OnnxEngine
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.runs.run import Run

ENGINES: dict[str, type[Engine]] = {  # the fastest first, which is the order in which "auto" looks for one
    "native": NativeEngine,
    "onnx": OnnxEngine,
    "torch": TorchEngine,
}


def make_engine(
    name: str, model: AdaptiveTransformer, *, int8: bool = False, threads: int | None = None, run: Run | None = None
) -> Engine:
    """The engine of that name for `model`, the trained model of `run` where there is one.

    "auto" is the fastest that is there and gives the tokens of the plain step: the native one where
    it was built, else the run's ONNX export, else the plain step. `threads` is torch's number
    unless given.
    """
    name = automatic_engine(run, int8=int8, blocks=model.blocks) if name == AUTOMATIC else name
    check_engine(name, also=(AUTOMATIC,))
    return ENGINES[name].make(model, int8=int8, threads=threads, run=run)


def check_engine(name: str, *, also: tuple[str, ...] = ()) -> None:
    """Refuses the name of an engine that there is not; `also` are other words that may stand for
    one."""
    known = (*also, *ENGINES)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"there is no engine {name!r}; {hint}known: {', '.join(known)}")


def automatic_engine(run: Run | None, *, int8: bool, blocks: int = 1) -> str:
    """The name of the fastest engine that can be had for `run`, of so many decoder blocks, in this
    precision."""
    for name, engine in ENGINES.items():
        if engine.is_at_hand(int8=int8, blocks=blocks, run=run):
            return name
    raise UsageError(
        "--int8 needs the native engine, which was not built here, or an ONNX export; "
        "make one with `anydepth export RUN --format onnx --int8`"
    )
