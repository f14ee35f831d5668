"""The lines of metrics.jsonl: a JSON object each, with a checksum of its own."""

import json
from collections.abc import Mapping
from typing import Any

from anydepth.errors import RunError
from anydepth.files.checksums import checked_object, with_checksum
from anydepth.files.reading import json_of
from anydepth.runs.run import Run


def metric_line(values: Mapping[str, Any]) -> str:
    """The line that holds `values`."""
    return json.dumps(with_checksum(values)) + "\n"


def read_metrics(run: Run) -> list[tuple[bytes, dict[str, Any]]]:
    """The lines of the run's metrics with what each holds; a damaged one is refused, and one that a
    kill cut short is left out."""
    path = run.metrics_file
    data = path.read_bytes() if path.is_file() else b""
    lines = []
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            values = checked_object(line)
            if not isinstance(values.get("update"), int):
                raise ValueError("it tells no update")
            lines.append((line + b"\n", values))
        except ValueError as error:
            cure = f"restore it from a copy, or do without that line after `anydepth seal {run.folder}`"
            raise RunError(f"{path}, line {number:,} is damaged ({error}); {cure}") from error
    run.seal.check_metrics(data)
    return lines


def sealable_metrics(data: bytes) -> tuple[bytes, int]:
    """The lines of `data` that have an update, each with a checksum of what it holds now, and
    how many lines do not."""
    kept, lost = [], 0
    for line in data.split(b"\n")[:-1]:
        try:
            values = json_of(line)
        except ValueError:
            values = None
        if isinstance(values, dict) and isinstance(values.get("update"), int):
            values.pop("checksum", None)
            kept.append(metric_line(values).encode())
        else:
            lost += 1
    return b"".join(kept), lost
