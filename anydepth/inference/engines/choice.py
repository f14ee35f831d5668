"""The engines by name, and which of them a run is searched with when nobody says."""

import difflib

import torch

from anydepth.errors import UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.inference.engines.engine import Engine, TorchEngine
from anydepth.inference.engines.native.native_engine import MOST_BLOCKS, NativeEngine, has_native
from anydepth.runs.run import Run

AUTOMATIC = "auto"
ENGINES = ("native", "onnx", "torch")


def make_engine(
    name: str, model: AdaptiveTransformer, *, int8: bool = False, threads: int | None = None, run: Run | None = None
) -> Engine:
    """The engine of that name for `model`, the trained model of `run` where there is one.

    "auto" is the fastest that is there and gives the tokens of the plain step: the native one where
    it was built, else the run's ONNX export, else the plain step. `threads` is torch's number
    unless given.
    """
    name = automatic_engine(run, int8=int8, blocks=model.blocks) if name == AUTOMATIC else name
    match name:
        case "native":
            return NativeEngine(model, int8=int8, threads=threads or torch.get_num_threads())
        case "onnx":
            if run is None:
                raise UsageError("the ONNX engine needs the export of a run; make the translator with Translator.load")
            from anydepth.inference.engines.onnx.onnx_model import OnnxEngine, load_onnx

            return OnnxEngine(load_onnx(run, int8=int8, threads=threads))
        case "torch":
            if int8:
                raise UsageError(
                    "the torch engine has no 8-bit products; leave out --int8 or take --engine native or --engine onnx"
                )
            return TorchEngine(model)
    near = difflib.get_close_matches(name, (AUTOMATIC, *ENGINES), n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise UsageError(f"there is no engine {name!r}; {hint}known: {', '.join((AUTOMATIC, *ENGINES))}")


def automatic_engine(run: Run | None, *, int8: bool, blocks: int = 1) -> str:
    """The name of the fastest engine that can be had for `run`, of so many decoder blocks, in this
    precision."""
    if has_native() and blocks <= MOST_BLOCKS:
        return "native"
    if run is not None and (run.folder / "export" / ("onnx-int8" if int8 else "onnx")).exists():
        return "onnx"
    if int8:
        raise UsageError(
            "--int8 needs the native engine, which was not built here, or an ONNX export; "
            "make one with `anydepth export RUN --format onnx --int8`"
        )
    return "torch"
