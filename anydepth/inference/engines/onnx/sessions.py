"""ONNX graphs ready to run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from anydepth.errors import RunError, UsageError
from anydepth.inference.export.onnx_folder import NEEDS_PACKAGES

Array: TypeAlias = np.ndarray


class Program:
    """One graph in ONNX Runtime. Contiguous arrays go in, and arrays come out, without being
    copied."""

    def __init__(self, session: Any, file: Path) -> None:
        self.session, self.file = session, file
        self.outputs = [output.name for output in session.get_outputs()]

    def __call__(self, **inputs: Array) -> list[Array]:
        """The outputs for `inputs`."""
        try:
            outputs: list[Array] = self.session.run(self.outputs, inputs)
        except Exception as error:  # ONNX Runtime's own classes have no common one
            raise RunError(f"{self.file} cannot be run ({str(error).splitlines()[0]}); export again") from error
        return outputs


def open_programs(files: Mapping[str, Path], *, threads: int | None) -> dict[str, Program]:
    """The graphs in `files` on the CPU, each on `threads` threads, torch's number if None."""
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise UsageError(NEEDS_PACKAGES.format(missing=error.name)) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or torch.get_num_threads()
    options.inter_op_num_threads = 1
    # Every graph has threads of its own, which must not spin while another graph, or torch, is at
    # work.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    programs = {}
    for name, file in files.items():
        try:
            programs[name] = Program(
                onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"]), file
            )
        except Exception as error:  # ONNX Runtime's own classes have no common one
            raise RunError(
                f"ONNX Runtime {onnxruntime.__version__} cannot open {file} ({str(error).splitlines()[0]}); upgrade it"
            ) from error
    return programs
