"""`make soak`: every script runs, whatever fails before it, and the end says all that matters."""

from pathlib import Path

import pytest
from run_soak import MARKED, main, run_part

SCRIPT = "import sys\nprint('working')\nprint('{name}:', *sys.argv[1:])\nprint()\nsys.exit({code})\n"


def soak(folder: Path, **codes: int) -> int:
    for name, code in codes.items():
        (folder / f"{name}.py").write_text(SCRIPT.format(name=name, code=code), encoding="utf-8")
    return main(["--size", "0.5", "--seed", "7", "--scripts", str(folder), "--without-tests"])


def test_all_scripts_run_with_size_and_seed_and_a_failure_among_them_is_the_outcome(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert soak(tmp_path, a=0, b=3, c=0) == 1
    *_, title, first, second, third = capfd.readouterr().out.splitlines()
    assert title == "==> the soak at size 0.5"
    assert first.startswith("soak/a.py: ok in ") and first.endswith("minutes: a: --size 0.5 --seed 7")
    assert second.startswith("soak/b.py: FAILED with exit code 3 in ") and second.endswith("b: --size 0.5 --seed 7")
    assert third.startswith("soak/c.py: ok in ")


def test_a_soak_without_failures_succeeds(tmp_path: Path) -> None:
    assert soak(tmp_path, a=0) == 0


def test_what_a_soak_skips_is_listed_with_its_reason(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    skipping = tmp_path / "test_skipping.py"
    skipping.write_text(
        "import pytest\n\n\n@pytest.mark.soak\ndef test_a_page():\n    pytest.skip('there is no browser here')\n",
        encoding="utf-8",
    )
    assert run_part("tests marked soak", [*MARKED, str(skipping)]).code == 0
    assert "there is no browser here" in capfd.readouterr().out
