"""Workers that end together: one reports why, the others are silent."""

import pytest
import torch
from tiny import ALONE, be_worker, exit_code_of, free_port, in_own_process

from anydepth.errors import AnydepthError, Interrupted, OtherWorkerReports, RunError
from anydepth.training.distributed import Workers, workers


def test_the_main_worker_reports_and_the_others_end_silently_with_its_exit_code() -> None:
    error = Interrupted("stopped")
    assert ALONE.reported_by_main(error) is error
    other = Workers(1, 2, torch.device("cpu")).reported_by_main(error)
    assert isinstance(other, OtherWorkerReports)
    assert other.exit_code == 130


def test_workers_without_an_error_go_on() -> None:
    ALONE.stop_together(None)


def test_a_single_worker_raises_its_own_error() -> None:
    with pytest.raises(RunError, match=r"^not a run$"):
        ALONE.stop_together(RunError("not a run"))


def end_with_the_error_of_worker_one(rank: int, port: int) -> None:
    """The body of a worker: number 1 has an error, and each ends as `stop_together` tells it."""
    be_worker(rank, 2, port)
    try:
        with workers() as group:
            group.stop_together(None)
            group.stop_together(RunError("not a run") if rank == 1 else None)
    except AnydepthError as error:
        raise SystemExit(10 * isinstance(error, RunError) + error.exit_code) from None


def test_an_error_of_any_worker_ends_all_of_them_and_is_raised_once() -> None:
    port = free_port()
    processes = [in_own_process(end_with_the_error_of_worker_one, rank, port) for rank in range(2)]
    assert [exit_code_of(process) for process in processes] == [OtherWorkerReports().exit_code, 10 + RunError.exit_code]
