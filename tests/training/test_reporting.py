"""The log and the metrics, and stopping politely."""

import io
import os
import signal
from pathlib import Path

import pytest
from rich.console import Console

from anydepth.errors import Interrupted, RunError
from anydepth.runs.metrics import metric_line, read_metrics
from anydepth.runs.run import Run
from anydepth.training.reporting import RecentMeans, Reporter, describe_exit_figures, describe_exits
from anydepth.training.signals import StopRequest
from anydepth.training.update import UpdateSums


def test_figures_read_as_people_write_them() -> None:
    assert describe_exits([1.0, 2.345], digits=1) == "1.0 / 2.3"


def test_going_back_drops_later_metrics_and_a_line_cut_short_and_goes_on_writing(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.seal.make()
    kept = [metric_line({"event": "train", "update": update}) for update in (1, 2)]
    run.metrics_file.write_text(
        "".join([*kept, metric_line({"event": "valid", "update": 3}), '{"event": "tr']), encoding="utf-8"
    )
    with Reporter(run, is_main=True) as reporter:
        reporter.drop_metrics_after(2)
        reporter.measured("train", {"update": 3, "loss": 0.5})
    lines = run.metrics_file.read_text(encoding="utf-8").splitlines(keepends=True)
    assert lines == [*kept, metric_line({"event": "train", "update": 3, "loss": 0.5})]


def test_only_the_main_worker_speaks(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Reporter(Run(tmp_path), is_main=False) as reporter:
        reporter.say("hello")
        reporter.progress(0.5, "half")
        reporter.measured("train", {"update": 1})
        reporter.drop_metrics_after(0)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_talk_goes_to_stderr_and_to_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with Reporter(Run(tmp_path), is_main=True) as reporter:
        reporter.say("größer")
        reporter.progress(0.5, "only a terminal shows a bar")
    assert capfd.readouterr() == ("", "größer\n")
    assert Run(tmp_path).log_file.read_text(encoding="utf-8") == "größer\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_and_the_old_handler_comes_back(number: int) -> None:
    before, stop = signal.getsignal(number), StopRequest()
    with stop.on_signals():
        os.kill(os.getpid(), number)
        assert stop.is_asked
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_stops_at_once() -> None:
    stop = StopRequest()
    with stop.on_signals():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Interrupted, match="stopped at once"):
            os.kill(os.getpid(), signal.SIGINT)


GOOD = metric_line({"event": "train", "update": 1})


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{}", "it has no checksum"),
        ("[]", "it is not a JSON object"),
        ("\0", "it is not JSON: Expecting value"),
        (GOOD.strip().replace('"update": 1', '"update": 2'), "its checksum differs"),
        (metric_line({"event": "train"}).strip(), "it tells no update"),
        ("[" * 100_000, "it nests deeper than 32 levels"),
    ],
    ids=["no checksum", "a list", "a zero", "a changed figure", "no update", "nested"],
)
def test_a_damaged_line_of_metrics_is_refused_with_its_number(tmp_path: Path, line: str, problem: str) -> None:
    run = Run(tmp_path)
    run.seal.make()
    run.metrics_file.write_text(GOOD + line + "\n" + GOOD, encoding="utf-8")
    with (
        Reporter(run, is_main=True) as reporter,
        pytest.raises(RunError, match=rf"metrics\.jsonl, line 2 is damaged \({problem}.*\); restore"),
    ):
        reporter.drop_metrics_after(5)


def test_metrics_that_lost_whole_lines_since_the_last_save_are_refused(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.seal.make()
    run.metrics_file.write_text(GOOD * 3, encoding="utf-8")
    run.seal.add_metrics((GOOD * 2).encode())
    assert len(read_metrics(run)) == 3
    run.metrics_file.write_text(GOOD, encoding="utf-8")
    with pytest.raises(RunError, match=r"metrics\.jsonl is not as the run wrote it"):
        read_metrics(run)
    run.metrics_file.unlink()
    with pytest.raises(RunError, match=r"metrics\.jsonl is missing, but the run has written it"):
        read_metrics(run)


def test_recent_figures_are_means_over_tokens_and_rows_since_the_last_restart() -> None:
    recent = RecentMeans()
    recent.add(UpdateSums(tokens=4.0, loss=8.0, likelihoods=[4.0, 2.0], rows=[4.0, 1.0], batch_losses=[8.0]))
    recent.add(UpdateSums(tokens=6.0, loss=7.0, likelihoods=[5.0, 1.0], rows=[5.0, 0.0], batch_losses=[7.0]))
    assert (recent.loss, recent.losses) == (1.5, [1.0, 3.0])
    recent.restart()
    recent.add(UpdateSums(tokens=2.0, loss=8.0, likelihoods=[4.0, 2.0], rows=[2.0, 0.0], batch_losses=[8.0]))
    assert (recent.loss, recent.losses) == (4.0, [2.0, 2.0])


def with_exits(tokens: float, exit_loss: float, oracle: list[float], halting: list[float]) -> UpdateSums:
    return UpdateSums(tokens, 8.0, [4.0, 2.0], [tokens, tokens], [8.0], exit_loss, oracle, halting)


def test_recent_exit_figures_are_means_and_shares_over_tokens_since_the_last_restart() -> None:
    recent = RecentMeans()
    recent.add(with_exits(4.0, 6.0, [3.0, 1.0], [4.0, 0.0]))
    recent.add(with_exits(6.0, 9.0, [2.0, 4.0], [1.0, 5.0]))
    assert recent.exit_figures == {"exit_loss": 1.5, "oracle_exits": [0.5, 0.5], "halting_exits": [0.5, 0.5]}
    recent.restart()
    recent.add(with_exits(8.0, 2.0, [8.0, 0.0], [2.0, 6.0]))
    assert recent.exit_figures == {"exit_loss": 0.25, "oracle_exits": [1.0, 0.0], "halting_exits": [0.25, 0.75]}


def test_without_a_halting_module_there_is_nothing_to_tell_of_exits() -> None:
    recent = RecentMeans()
    recent.add(UpdateSums(tokens=4.0, loss=8.0, likelihoods=[4.0, 2.0], rows=[4.0, 1.0], batch_losses=[8.0]))
    assert recent.exit_figures == {}
    assert describe_exit_figures(recent.exit_figures) == ""


def test_exit_figures_read_as_people_write_them() -> None:
    figures = {"exit_loss": 1.23456, "oracle_exits": [0.5, 0.375, 0.125], "halting_exits": [1.0, 0.0, 0.0]}
    assert describe_exit_figures(figures) == "  exit loss 1.235  oracle 50/38/12%  halting 100/0/0%"


def test_a_bar_moves_on_a_terminal_and_brackets_are_no_markup(tmp_path: Path) -> None:
    shown = io.StringIO()
    reporter = Reporter(Run(tmp_path), is_main=True)
    reporter.console = Console(file=shown, force_terminal=True, width=80, highlight=False)
    with reporter:
        reporter.progress(0.5, "nll 2.00-1.00  3,000 tokens/s  1:00 left")
        reporter.say("runs/[a]/model")
    assert "50%" in shown.getvalue()
    assert "1:00 left" in shown.getvalue()
    assert "runs/[a]/model" in shown.getvalue()
