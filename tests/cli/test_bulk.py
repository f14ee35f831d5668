"""bulk: the bytes of translate from processes of its own, and the refusals of its options."""

import sys
from pathlib import Path

import pytest
from cli.commands import anydepth, assert_refused, done


def test_processes_of_this_machine_give_the_bytes_of_translate_and_a_bad_line_gives_exit_code_1(
    run: Path, text: Path, tmp_path: Path
) -> None:
    source, to = tmp_path / "in.de", tmp_path / "job"
    source.write_bytes((text / "train.de").read_bytes() + b"\xff\nhund\n")
    outcome = anydepth("bulk", run, source, "--to", to, "--workers", 2, "--shard-lines", 20, "--policy", "fixed:2")
    assert outcome.code == 1 and outcome.out == ""
    assert outcome.err.splitlines()[-1].startswith(
        "error: 1 lines and 0 shards could not be translated, the first: in.de line 61, because in.de line 61 is not"
    )
    expected = done("translate", run, text / "train.de", "--policy", "fixed:2").out
    expected += "\n" + done("translate", run, "--policy", "fixed:2", stdin=b"hund\n").out
    assert "".join(file.read_text("utf-8") for file in sorted((to / "output" / "in.de").iterdir())) == expected
    assert [path.name for path in sorted(to.iterdir())] == ["begun", "done", "manifest.json", "output"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (["--best", 2], "--best 2 gives several translations per line, which needs --json"),
        (["--address", "here:1"], "--address here:1 is of a Ray cluster; give --on ray with it"),
        (["--field", "a", "--into", "a"], "--field and --into are both a"),
        (["--on", "ray", "--address", "nowhere"], "--address nowhere is no address of a Ray cluster"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    run: Path, text: Path, tmp_path: Path, options: list[object], match: str
) -> None:
    outcome = anydepth("bulk", run, text / "test.de", "--to", tmp_path / "job", *options)
    assert_refused(outcome, match)


def test_ray_that_is_not_installed_is_told_before_a_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    outcome = anydepth("bulk", tmp_path / "no-run", "x", "--to", tmp_path / "job", "--on", "ray")
    assert_refused(outcome, "pip install 'anydepth[ray]'")
