"""The verb serve: what it refuses before it listens. How it serves is tested in tests/server."""

import inspect
import shutil
import socket
from dataclasses import fields
from importlib import util
from pathlib import Path

import pytest
from cli.commands import ROOT, anydepth, assert_refused

from anydepth.cli import serve
from anydepth.server.serving_limits import ServingLimits

SAMPLE = ROOT / "tests" / "samples" / "runs" / "exits"


def test_the_defaults_of_the_options_are_those_of_the_limits() -> None:
    options = inspect.signature(serve.serve).parameters
    own = ServingLimits()
    assert {each.name: options[each.name].default for each in fields(own)} == {
        each.name: getattr(own, each.name) for each in fields(own)
    }


def test_two_runs_of_one_pair_are_refused(tmp_path: Path) -> None:
    shutil.copytree(SAMPLE, tmp_path / "other")
    assert_refused(anydepth("serve", SAMPLE, tmp_path / "other"), str(tmp_path / "other"), "both translate de-en")


@pytest.mark.parametrize("kind", ["missing", "empty"])
def test_a_place_that_is_no_run_is_refused(tmp_path: Path, kind: str) -> None:
    if kind == "empty":
        (tmp_path / "place").mkdir()
    assert_refused(anydepth("serve", tmp_path / "place"), "place is not a run directory")


def test_keys_that_are_not_there_are_refused(tmp_path: Path) -> None:
    assert_refused(
        anydepth("serve", SAMPLE, "--keys", tmp_path / "no.json"), "no.json is not there", "anydepth keys add"
    )


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = anydepth("serve", SAMPLE, "--port", port)
    assert outcome.code == 1
    assert f"error: cannot listen at 127.0.0.1 port {port}: " in outcome.err


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "find_spec", lambda name: None if name == "uvicorn" else util.find_spec(name))
    assert_refused(anydepth("serve", SAMPLE), "needs uvicorn, which is not installed", "pip install 'anydepth[server]'")
