"""train in processes of its own: Ctrl-C, a full disk, and several workers."""

import re
import resource
import signal
import subprocess
from pathlib import Path

import pytest
import torch
from cli.commands import Outcome, assert_refused, contents, done, finish, start
from cli.conftest import options_for_prepare

from anydepth.model.checkpoint import load_tensors
from anydepth.text.prepared import PreparedData

ENDLESS = ["--set", "training.updates=1000000", "--set", "training.log_every=1", "--set", "validation.sentences=0"]
TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "anydepth")


def stop_after_first_update(process: subprocess.Popen[bytes], number: signal.Signals) -> Outcome:
    """The outcome of a training that gets signal `number` once it has reported an update."""
    assert process.stderr
    for line in process.stderr:
        if line.startswith(b"update "):
            break
    process.send_signal(number)
    return finish(process)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_training_says_how_to_go_on_and_goes_on(
    number: signal.Signals, data: Path, settings: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    process = start(
        "train",
        settings,
        "--data",
        data,
        "--to",
        run,
        *ENDLESS,
        before=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    outcome = stop_after_first_update(process, number)
    assert outcome.code == 130
    assert "Traceback" not in outcome.err
    assert "error" not in outcome.err
    assert f"anydepth train --resume --to {run}" in outcome.err.splitlines()[-1]
    found = re.search(r"stopped after update ([\d,]+);", outcome.err)
    assert found
    stopped = int(found[1].replace(",", ""))
    early = done("translate", run, stdin=b"hund\n")
    assert early.out.count("\n") == 1
    assert (
        early.err
        == f"the training of {run} was interrupted at update {stopped:,}; go on with `anydepth train --resume "
        f"--to {run}`\n"
    )
    assert not [name for name in contents(run) if name.endswith(".tmp")]
    resumed = done("train", "--resume", "--to", run, "--set", f"training.updates={stopped + 2}")
    assert f"going on after update {stopped:,}" in resumed.err
    assert f"trained {stopped + 2:,} updates" in resumed.err
    assert done("translate", run, stdin=b"hund\n").err == ""


def small_files_only() -> None:
    """Makes every write beyond 8 kB fail, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))


def test_preparing_on_a_full_disk_keeps_the_old_data(own_text: Path) -> None:
    done("prepare", *options_for_prepare(own_text, own_text / "data"))
    with (
        open(own_text / "valid.de", "a", encoding="utf-8") as source,
        open(own_text / "valid.en", "a", encoding="utf-8") as target,
    ):
        source.write("der hund läuft gern\n" * 1000)
        target.write("the dog runs gladly\n" * 1000)
    before = contents(own_text)
    outcome = finish(
        start("prepare", *options_for_prepare(own_text, own_text / "data"), "--overwrite", before=small_files_only)
    )
    assert_refused(outcome, f"cannot write {own_text / 'data'}", "free some space", code=1)
    assert contents(own_text) == before
    PreparedData.open(own_text / "data").verify()


def test_training_on_a_full_disk_keeps_the_old_files_and_goes_on_later(own_run: Path) -> None:
    command = ("train", "--resume", "--to", own_run, "--set", "training.updates=80")
    before = contents(own_run)
    assert_refused(finish(start(*command, before=small_files_only)), "cannot write ", "free some space", code=1)
    after = contents(own_run)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} <= {
        "config.toml",
        "seal.json",
        "train.log",
        "metrics.jsonl",
    }
    done("translate", own_run, stdin=b"hund\n")
    assert "trained 80 updates" in done(*command).err


def weights_that_matter(path: Path) -> dict[str, torch.Tensor]:
    """All but the keys' biases: a softmax does not feel them, so their gradient is rounding alone,
    which Adam turns into steps."""
    return {name: tensor for name, tensor in load_tensors(path)[0].items() if not name.endswith("key.bias")}


@pytest.mark.soak  # tests/training/test_start.py has two workers without torchrun
def test_two_workers_find_the_weights_of_one_with_twice_the_batches(data: Path, settings: Path, tmp_path: Path) -> None:
    changes = [
        "--set",
        "training.updates=6",
        "--set",
        "training.final=last",
        "--set",
        "validation.every=3",
        "--set",
        "model.dropout=0.2",
    ]
    together = finish(start("train", settings, "--data", data, "--to", tmp_path / "two", *changes, module=TORCHRUN))
    assert together.code == 0, together.err
    assert together.err.count("trained 6 updates") == 1, "only one worker talks"
    done("train", settings, "--data", data, "--to", tmp_path / "one", *changes, "--set", "training.accumulation=2")
    two, one = (weights_that_matter(tmp_path / name / "model.safetensors") for name in ("two", "one"))
    torch.testing.assert_close(two, one, rtol=0, atol=1e-5)


def test_a_refusal_ends_every_worker_and_is_said_once(own_run: Path, data: Path, settings: Path) -> None:
    before = contents(own_run)
    outcome = finish(start("train", settings, "--data", data, "--to", own_run, module=TORCHRUN))
    assert outcome.code != 0
    assert outcome.err.count("error: ") == 1
    assert "[rank" not in outcome.err, "a worker's own traceback"
    assert f"error: {own_run} exists already" in outcome.err
    assert contents(own_run) == before
