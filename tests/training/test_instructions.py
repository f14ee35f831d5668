"""Products of bfloat16 on a processor that names AMX and does not have it."""

import os
import sys
from pathlib import Path

import pytest

from anydepth.training.instructions import LIMIT, WITHOUT_AMX, avoid_missing_instructions

DIES = (sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
LIVES = (sys.executable, "-c", "")


@pytest.mark.parametrize(
    ("flags", "command", "expected"),
    [
        ("flags : fma amx_bf16 amx_tile", DIES, WITHOUT_AMX),
        ("flags : fma amx_bf16 amx_tile", LIVES, None),
        ("flags : fma avx512_bf16", DIES, None),
    ],
    ids=["named-and-missing", "there", "not-named"],
)
def test_amx_is_avoided_only_where_it_is_named_and_missing(
    flags: str, command: tuple[str, ...], expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LIMIT, "")
    monkeypatch.delenv(LIMIT)
    (cpuinfo := tmp_path / "cpuinfo").write_text(flags + "\n", encoding="utf-8")
    avoid_missing_instructions(cpuinfo, command)
    assert os.environ.get(LIMIT) == expected


def test_what_the_user_has_set_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, "AVX2")
    (cpuinfo := tmp_path / "cpuinfo").write_text("flags : amx_bf16\n", encoding="utf-8")
    avoid_missing_instructions(cpuinfo, DIES)
    assert os.environ[LIMIT] == "AVX2"


def test_where_the_system_tells_nothing_nothing_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, "")
    monkeypatch.delenv(LIMIT)
    avoid_missing_instructions(tmp_path / "none", DIES)
    assert LIMIT not in os.environ
