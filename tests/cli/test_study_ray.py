"""`anydepth study --on ray`: the refusals, and on a cluster of several nodes the records of a local
study, whatever is killed on the way."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.commands import Outcome, anydepth, assert_refused, contents, done, start
from cli.studies import do_in_this_process, is_at_work, plan_study, without_clock

from anydepth.experiments.definition import load_study
from anydepth.experiments.plan import make_plan
from anydepth.experiments.steps import TrainStep
from anydepth.experiments.study_folder import StudyFolder
from anydepth.runs.run import Run

PATIENCE = 900.0


@pytest.fixture(scope="module")
def long_settings(study_settings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """So many updates that no training is over before it can be killed."""
    file = tmp_path_factory.mktemp("long-settings") / "long.toml"
    text = study_settings.read_text(encoding="utf-8")
    more = {"updates = 60": "updates = 2000", "log_every = 10": "log_every = 50", "every = 30": "every = 500"}
    for few, many in more.items():
        assert few in text
        text = text.replace(few, many)
    file.write_text(text, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def local(study_data: Path, long_settings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that was done on this machine, with one thread for each step."""
    folder = tmp_path_factory.mktemp("local") / "study"
    threads = torch.get_num_threads()
    plan_study(folder, study_data, long_settings, "figures6-9")
    torch.set_num_threads(1)
    do_in_this_process(folder)
    torch.set_num_threads(threads)
    return folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that takes no tasks, and two nodes of one core."""
    pytest.importorskip("ray", reason="Ray is not installed, so no study was run on a cluster")
    from ray.cluster_utils import Cluster

    handler = signal.getsignal(signal.SIGTERM)
    # A node that others keep from its core for a minute is not lost, and steps are as urgent as this test.
    patient = {"health_check_timeout_ms": 60_000, "health_check_period_ms": 1000, "worker_niceness": 0}
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": patient}
    nodes = Cluster(initialize_head=True, head_node_args=head)
    signal.signal(signal.SIGTERM, handler)  # Ray has one of its own
    for _ in range(2):
        nodes.add_node(num_cpus=1, memory=4 * 2**30, object_store_memory=80 * 2**20)
    yield nodes
    nodes.shutdown()


def test_an_address_without_ray_and_ray_where_it_is_missing_are_refused(
    study_data: Path, study_settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["study", "table1", "--data", study_data, "--to", tmp_path / "study", "--config", study_settings]
    assert_refused(
        anydepth(*command, "--address", "10.0.0.1:6379"), "--address 10.0.0.1:6379 names a Ray cluster; add --on ray"
    )
    monkeypatch.setitem(sys.modules, "ray", None)
    assert_refused(anydepth(*command, "--on", "ray"), "--on ray needs Ray", "pip install 'anydepth[ray]'")
    assert not (tmp_path / "study").exists()


def eventually(found: Callable[[], Any], what: str) -> Any:
    """What `found` gives as soon as that is true."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if value := found():
            return value
        time.sleep(0.3)
    raise AssertionError(f"{what} did not come")


def step_processes(folder: Path) -> dict[int, str]:
    """The processes of the study's steps, wherever they were started, with their steps."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may be gone
            words = (process / "cmdline").read_text(encoding="utf-8").rstrip("\0").split("\0")
            if words[-3:-1] == ["study-step", str(folder)]:
                found[int(process.name)] = words[-1]
    return found


def at_work(study: "subprocess.Popen[bytes]", folder: Path, step: str, *, not_in: int = 0) -> int:
    """The process that is at work on a step, once there is one other than `not_in`."""

    def look() -> int | None:
        assert study.poll() is None, f"the study ended before it came to {step}: {study.communicate()[1].decode()}"
        for process, name in step_processes(folder).items():
            with suppress(OSError):
                if name == step and process != not_in and is_at_work(str(process), folder, step):
                    return process
        return None

    return int(eventually(look, step))


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


def node_of(cluster: Any, step: int) -> Any:
    """The node of the cluster whose worker started a step."""
    raylet = parent_of(parent_of(step))
    return next(
        node
        for node in cluster.list_all_nodes()
        if any(each.process.pid == raylet for each in node.all_processes.get("raylet", []))
    )


def ended(study: "subprocess.Popen[bytes]") -> Outcome:
    """The outcome of a study, once it has ended."""
    try:
        out, err = study.communicate(timeout=PATIENCE)
    finally:
        study.kill()
    return Outcome(study.returncode, out.decode(), err.decode())


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.filterwarnings("ignore")  # those of Ray's own
def test_a_study_on_a_cluster_that_loses_workers_nodes_and_its_driver_has_the_records_of_a_local_one(
    cluster: Any, local: Path, study_data: Path, long_settings: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "ray" / "study"
    command = ["study", "figures6-9", "--data", study_data, "--to", folder, "--config", long_settings]
    command += ["--on", "ray", "--address", cluster.address]
    trainings = [step for step in make_plan(load_study(StudyFolder(local)), StudyFolder(folder)) if step.cost]
    first, second = (step for step in trainings if isinstance(step, TrainStep))

    # A worker is killed, and its step started again; then the study is asked to stop.
    study = start(*command)
    lost = at_work(study, folder, first.name)
    os.kill(parent_of(lost), signal.SIGKILL)
    at_work(study, folder, first.name, not_in=lost)
    study.terminate()
    outcome = ended(study)
    assert outcome.code == 130, outcome.err
    assert f"{first.name}: the machine or the process that ran it was lost" in outcome.err
    assert "started again (2 of 3)" in outcome.err
    assert f"stopped; what is done stays in {folder}" in outcome.err.splitlines()[-1]
    eventually(lambda: not step_processes(folder), "the end of all steps")
    assert Run(folder / "runs" / first.variant.run).interrupted_at(), "it left no state"

    # A node is lost with the step on it, which another one does; then the driver is killed.
    study = start(*command)
    lost = at_work(study, folder, second.name)
    assert first.marker.exists()
    cluster.remove_node(node_of(cluster, lost), allow_graceful=False)
    at_work(study, folder, second.name, not_in=lost)
    study.kill()
    outcome = ended(study)
    assert f"{second.name}: the machine or the process that ran it was lost" in outcome.err
    assert not second.marker.exists()

    outcome = ended(start(*command))
    assert outcome.code == 0, outcome.err
    ours, theirs = without_clock(local, tmp_path / "a" / "study"), without_clock(folder, tmp_path / "b" / "study")
    for copy in (ours, theirs):
        (copy / "study.json").unlink()  # it tells of the machines
    assert contents(ours) == contents(theirs)
    assert len(contents(ours)) > 3
    assert "2 runs, 0 of them to train" in done(*command, "--dry-run").err
