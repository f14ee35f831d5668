"""Joining a Ray cluster: what is missing is said in one sentence, at once."""

import socket
import sys

import pytest

from anydepth.bulk.ray_cluster import check_answers, ray_cluster, require_ray
from anydepth.errors import UsageError


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
