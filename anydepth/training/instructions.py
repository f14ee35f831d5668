"""Instructions that the processor names and does not have."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LIMIT = "ONEDNN_MAX_CPU_ISA"  # what oneDNN, which multiplies bfloat16 for torch, looks at before its first product
WITHOUT_AMX = "AVX512_CORE_BF16"
PRODUCT = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); torch.mm(a, a)"


def avoid_missing_instructions(
    path: Path = Path("/proc/cpuinfo"), command: Sequence[str] = (sys.executable, "-c", PRODUCT)
) -> None:
    """Keeps products of bfloat16 from ending the process where AMX is named and cannot be used, as in
    some virtual machines; a process of its own tries it. It takes effect before the first such product."""
    if LIMIT in os.environ or not path.exists() or "amx_bf16" not in path.read_text(errors="replace").split():
        return
    if subprocess.run(command, capture_output=True).returncode == -signal.SIGILL:
        os.environ[LIMIT] = WITHOUT_AMX
