"""What a run wrote down about its training."""

import json
from typing import Any

from anydepth.runs.run import Run


def train_lines(run: Run) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in run.metrics_file.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line["event"] == "train"]


def train_losses(run: Run) -> list[float]:
    return [line["loss"] for line in train_lines(run)]
