import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TINY = ("--rounds", "2", "--sentences", "6", "--length", "5", "--vocab", "50", "--dim", "8", "--threads", "1")


def run_benchmark(name: str, *options: str) -> list[list[str]]:
    """The words of each line that the script prints."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", ROOT / "benchmarks" / name, *options]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return [line.split() for line in finished.stdout.splitlines()]


def test_training_step_prints_a_row_for_every_contestant_and_plain_and_chunked_losses_agree() -> None:
    lines = run_benchmark("training_step.py", *TINY)
    assert lines[0][-2] == "torch"
    rows = {line[0]: line[1:] for line in lines[3:]}
    assert len(rows) == 6
    assert rows["single-plain"][0] == rows["single-chunked"][0]
    assert rows["aligned-plain"][0] == rows["aligned-chunked"][0]
    assert rows["single-plain"][3] == rows["single-chunked"][3] == "1.000"


def test_training_throughput_compares_models_with_equally_many_parameters() -> None:
    lines = run_benchmark("training_throughput.py", *TINY, "--batch-tokens", "30")
    assert lines[0][-2] == "torch"
    rows = {line[0]: line[1:] for line in lines[3:]}
    assert {"anydepth", "nn.Transformer"} <= rows.keys()
    assert len({row[0] for row in rows.values()}) == 1
    assert rows["anydepth"][4] == "1.000"
