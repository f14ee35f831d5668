"""The exported graphs of a run behind the contract of the plain step."""

import importlib.util

from anydepth.errors import UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.onnx.onnx_model import OnnxTransformer, load_onnx
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.inference.export.onnx_folder import export_folder
from anydepth.runs.run import Run


class OnnxEngine(TorchEngine):
    """Search over the exported graphs of a model."""

    def __init__(self, model: OnnxTransformer) -> None:
        super().__init__(model, name=model.name)

    @classmethod
    def make(cls, model: AdaptiveTransformer, *, int8: bool, threads: int | None, run: Run | None) -> Engine:
        """The engine on the export of `run`, whose weights are those of `model`."""
        if run is None:
            raise UsageError("the ONNX engine needs the export of a run; make the translator with Translator.load")
        return cls(load_onnx(run, int8=int8, threads=threads))

    @classmethod
    def is_at_hand(cls, *, int8: bool, blocks: int, run: Run | None) -> bool:
        """Whether the run has an export in this precision, and there is a runtime for it."""
        has_export = run is not None and export_folder(run, int8=int8).exists()
        return has_export and importlib.util.find_spec("onnxruntime") is not None
