import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from anydepth.inference.engines.native.native_engine import has_native

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.soak
SCRIPTS = sorted(
    file
    for folder in ("benchmarks", "soak")
    for file in (ROOT / folder).glob("*.py")
    if "__main__" in file.read_text(encoding="utf-8")
)
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
    assert len(rows) == 8
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


def test_onnx_step_prints_a_row_for_every_contestant_and_all_but_int8_find_the_words_of_torch() -> None:
    sizes = ("--rounds", "2", "--batches", "3", "--dim", "8", "--vocab", "50", "--length", "5", "--source", "4")
    lines = run_benchmark("onnx_step.py", *sizes)
    assert "Runtime" in lines[0]
    times, shares = lines[2:16], lines[17:]
    contestants = ["torch", "onnx", "all-rows", "immediate", "stacked", "onnx-int8", "one-scale"]
    assert [row[2] for row in times] == 2 * contestants
    assert {row[0] for row in times} == {"3"} and {row[1] for row in times[:7]} == {"6.00"}
    assert all(row[5] == "1.00" for row in times if row[2] == "torch")
    assert all(row[-1] == "100%" for row in times if row[2] not in ("onnx-int8", "one-scale"))
    kinds = {"encoder", "embedding", "keys_values", "source", "block", "classifier", "between"}
    assert {row[3] for row in shares} == kinds and {row[2] for row in shares} == {"onnx", "onnx-int8"}


@pytest.mark.skipif(not has_native(), reason="there was no C++ compiler when anydepth was installed")
def test_native_engine_has_a_row_for_every_contestant_and_tells_where_the_time_goes() -> None:
    sizes = (*TINY[:-2], "--batches", "3", "--beams", "2", "--source", "4")
    lines = run_benchmark("native_engine.py", *sizes)
    rows = [line for line in lines if line[:1] in (["full"], ["drawn"])]
    contestants = [line[2] for line in rows]
    assert len(rows) == 4 * len(set(contestants)) and "immediate" in contestants and "plain" in contestants
    assert all(any(word.endswith(("%", "%,")) for word in line) for line in rows)
    # a share below half a percent is left out, and beside other work any may be
    assert any("blocks" in line for line in rows)
    assert all(line[4] == "1.00" for line in rows if line[2] == contestants[0])


@pytest.mark.soak
def test_busy_neighbour_has_a_row_for_every_way_to_wait_and_compares_with_torch_alone() -> None:
    sizes = ("--rounds", "1", "--seconds", "0.01", "--dim", "8", "--vocab", "50", "--work", "translate", "--spin", "5")
    lines = run_benchmark("busy_neighbour.py", *sizes)
    rows = [line for line in lines if line[0] == "translate"]
    assert [row[1] for row in rows] == ["torch's", "anydepth", "passive", "one", "spin"]
    assert rows[0][-5:-3] == ["1.00", "1.00-1.00"]


def test_large_corpus_tells_speed_and_memory_and_the_resumed_stream_is_the_same(tmp_path: Path) -> None:
    sizes = ("--pairs", "900", "--vocab", "400", "--sample", "200", "--jobs", "2", "--folder", str(tmp_path))
    lines = [" ".join(line) for line in run_benchmark("large_corpus.py", *sizes)]
    assert lines[1].startswith("900 pairs:") and "pairs/s encoding" in lines[1] and "peak memory" in lines[1]
    assert any("1,000 of the next 1,000 batches are the same" in line for line in lines)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("clients", [["--python-clients"], []], ids=["python", "wrk"])
def test_serving_has_a_row_for_every_contestant_and_the_bleu_of_both_servers(clients: list[str]) -> None:
    pytest.importorskip("ctranslate2")
    if not clients and shutil.which("wrk") is None:
        pytest.skip("there is no wrk here")
    samples = ROOT / "tests" / "samples"
    sizes = ("--sentences", "4", "--rounds", "1", "--seconds", "1", "--clients", "2", "--threads", "1", "--int8")
    texts = (f"--source-file={samples / 'text' / 'test.de'}", f"--reference-file={samples / 'text' / 'test.en'}")
    lines = run_benchmark("serving.py", f"--run={samples / 'runs' / 'exits'}", *texts, *sizes, *clients)
    assert (
        lines[0][:2] == ["2", "clients:"] and lines[0][2] == ("this" if clients else "wrk") and lines[0][-1] == "int8"
    )
    assert [line[-3] for line in lines[1:4]] == ["BLEU"] * 3
    rows = [line for line in lines[5:10] if "CPU" in line]
    rates = [float(word.removesuffix("/s")) for row in rows for word in row if word.endswith("/s")]
    assert len(rows) == len(rates) == 5 and min(rates) > 0
    ratios = [line for line in lines if "by" in line]
    assert len(ratios) == 4 and [line[-1] for line in ratios] == ["time", "time", "p95", "p95"]
    assert lines[-1][:3] == ["one", "request", "alone:"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_every_script_explains_itself(script: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    finished = subprocess.run([sys.executable, script, "--help"], stdout=subprocess.PIPE, text=True, env=environment)
    assert finished.returncode == 0 and "usage:" in finished.stdout
