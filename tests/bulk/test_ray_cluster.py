"""Joining a Ray cluster: what is missing is said in one sentence, at once."""

import socket
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from anydepth.bulk.ray_cluster import check_answers, raise_interruption, ray_cluster, require_ray
from anydepth.errors import AnydepthError, Interrupted, UsageError


def test_without_ray_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)  # Python's way to say that it cannot be imported
    with pytest.raises(UsageError, match=r"--on ray needs Ray, .*pip install 'anydepth\[ray\]'"), ray_cluster():
        pass


@pytest.mark.parametrize("address", ["nonsense", "ray://localhost:10001", "localhost:", ":6379", "localhost:99999"])
def test_what_is_no_address_is_refused_with_its_form(address: str) -> None:
    with pytest.raises(UsageError, match="is no address of a Ray cluster; give HOST:PORT"):
        check_answers(address)


def test_an_address_where_nothing_listens_is_refused_before_ray_tries_it() -> None:
    pytest.importorskip("ray")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"no Ray cluster answers at --address {address}"), ray_cluster(address):
            pass


def test_ray_is_found_where_it_is_installed() -> None:
    ray = pytest.importorskip("ray")
    assert require_ray() is ray


class TooLateError(Exception):
    """What Ray raises of its own."""


def ray_that(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Has Ray raise an error while a cluster is started."""

    def init(**options: Any) -> None:
        raise error

    errors = SimpleNamespace(RayError=TooLateError)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init, shutdown=lambda: None, exceptions=errors))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            Exception("The current node timed out during startup. Why:\nmore"),
            "The current node timed out during startup.",
        ),
        (TooLateError("Failed to get node info"), "Failed to get node info; start one"),
        (TimeoutError(), "TimeoutError; start one"),
        (RuntimeError("no port"), "no port; start one"),
    ],
)
def test_a_cluster_that_does_not_start_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    ray_that(monkeypatch, error)
    with (
        pytest.raises(AnydepthError, match=f"^a Ray cluster cannot be started here: {reason}") as raised,
        ray_cluster(),
    ):
        pass
    assert raised.value.exit_code == 1 and "\n" not in str(raised.value)


def test_an_address_that_ray_cannot_join_is_refused_and_a_mistake_of_ours_is_none_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        ray_that(monkeypatch, ConnectionError("no cluster here"))
        match = f"^no Ray cluster answers at --address {address}: no cluster here; start one"
        with pytest.raises(UsageError, match=match) as raised, ray_cluster(address):
            pass
    assert raised.value.exit_code == 2
    ray_that(monkeypatch, TypeError("num_cpus must be a number"))
    with pytest.raises(TypeError, match="num_cpus must be a number"), ray_cluster():
        pass


def wrapped(*ways: str) -> Exception:
    """What a signal raised, inside errors that each lead to the next in one of these ways."""
    error: Exception = Interrupted("stopped")
    for way in ways:
        inner, error = error, SystemError("returned a result with an exception set")
        setattr(error, way, inner)
    return error


def test_who_stops_the_command_while_a_cluster_starts_hears_nothing_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for error in (Interrupted("stopped"), wrapped("__cause__"), wrapped("__context__", "__cause__")):
        ray_that(monkeypatch, error)
        with pytest.raises(Interrupted, match=r"^stopped$"), ray_cluster():
            pass


def test_an_error_without_an_interruption_raises_nothing_even_if_it_is_its_own_cause() -> None:
    first, second = ValueError("one"), ValueError("two")
    first.__cause__, second.__context__ = second, first
    raise_interruption(first)
    second.__cause__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        raise_interruption(first)
