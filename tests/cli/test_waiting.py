import os
import subprocess
import sys
from pathlib import Path

import pytest

from anydepth.cli import waiting
from anydepth.cli.waiting import LOOKS, USERS_OWN, busy_others, choose_waiting


@pytest.fixture(autouse=True)
def two_free_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of the user's, two cores, and an environment that is put back."""
    for name in (*USERS_OWN, "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "")  # so that what a test sets is undone, too
        monkeypatch.delenv(name)
    monkeypatch.setattr(waiting, "usable_cores", lambda: 2)


def load_file(folder: Path, running: str) -> Path:
    file = folder / "loadavg"
    file.write_text(f"0.10 0.20 0.30 {running}/345 6789\n")
    return file


def test_threads_look_before_they_sleep_on_a_quiet_machine(tmp_path: Path) -> None:
    choose_waiting(load_file(tmp_path, "1"))
    assert os.environ["GOMP_SPINCOUNT"] == str(LOOKS) and "OMP_WAIT_POLICY" not in os.environ


def test_threads_sleep_beside_a_busy_process(tmp_path: Path) -> None:
    choose_waiting(load_file(tmp_path, "2"))
    assert os.environ["OMP_WAIT_POLICY"] == "passive" and "GOMP_SPINCOUNT" not in os.environ


def test_a_busy_process_with_a_core_of_its_own_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    choose_waiting(load_file(tmp_path, "2"))
    assert "OMP_WAIT_POLICY" not in os.environ


@pytest.mark.parametrize("name", USERS_OWN)
def test_a_users_own_setting_wins(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "own")
    choose_waiting(load_file(tmp_path, "9"))
    assert {each: os.environ[each] for each in USERS_OWN if each in os.environ} == {name: "own"}


@pytest.mark.parametrize(
    "text", ["", "0.1 0.2 0.3", "0.1 0.2 0.3 many/5 6", "0.1 0.2 0.3 0/5 6"], ids=["empty", "short", "words", "none"]
)
def test_a_system_that_does_not_tell_counts_as_quiet(text: str, tmp_path: Path) -> None:
    (tmp_path / "loadavg").write_text(text)
    assert busy_others(tmp_path / "loadavg") == 0 == busy_others(tmp_path / "missing")


def test_the_command_chooses_before_torch_is_imported() -> None:
    code = """if True:
        import sys
        from anydepth.cli import main as cli
        cli.choose_waiting = lambda: sys.exit(0 if "torch" not in sys.modules else 3)
        cli.main()
        sys.exit(4)"""
    assert subprocess.run([sys.executable, "-c", code, "--version"], check=False).returncode == 0
