"""How often a client may ask."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from server.serving import asked, client_of_server

from anydepth.server.counters import ServerCounters
from anydepth.server.key_file import KeyRing, add_key
from anydepth.server.pairs import ServedPairs
from anydepth.server.rates import MOST_CLIENTS, RequestRates, client_of
from anydepth.server.refusals import Refusal
from anydepth.server.service import TranslationService
from anydepth.server.serving_limits import ServingLimits
from anydepth.server.web import make_web


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_client_has_a_minutes_worth_and_gets_it_back_over_time() -> None:
    clock = Clock()
    rates = RequestRates(6, clock=clock)
    for _ in range(6):
        rates.take("anna")
    with pytest.raises(Refusal, match="Slowdown: 6 per 1 minute") as refused:
        rates.take("anna")
    assert (refused.value.status, refused.value.retry_after) == (429, 10)
    rates.take("ben")
    clock.now = 10.0
    rates.take("anna")
    with pytest.raises(Refusal):
        rates.take("anna")


def test_no_limit_is_no_limit_and_a_key_may_have_its_own() -> None:
    free = RequestRates(0)
    for _ in range(1000):
        free.take("anna")
    limited = RequestRates(1, clock=Clock())
    limited.take("anna", per_minute=2)
    limited.take("anna", per_minute=2)
    with pytest.raises(Refusal, match="2 per 1 minute"):
        limited.take("anna", per_minute=2)


def test_memory_does_not_grow_with_the_number_of_clients() -> None:
    rates = RequestRates(1)
    for number in range(MOST_CLIENTS + 100):
        rates.take(str(number))
    assert len(rates.left) == MOST_CLIENTS


def test_an_ipv6_client_is_its_network() -> None:
    assert client_of("2001:db8:1:2::1") == client_of("2001:db8:1:2:ffff::9") != client_of("2001:db8:1:3::1")
    assert client_of("192.0.2.1") == "192.0.2.1" != client_of("192.0.2.2")
    assert client_of("x" * 500) == "x" * 64


def test_one_request_too_many_is_answered_429(pairs: ServedPairs) -> None:
    client = client_of_server(pairs, ServingLimits(requests_per_minute=2))
    answers = [client.post("/translate", json=asked("katze")) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert answers[2].json() == {"error": "Slowdown: 2 per 1 minute"}
    assert int(answers[2].headers["retry-after"]) in range(1, 31)
    assert client.get("/languages").status_code == 200


def test_guessing_keys_is_limited_by_address_and_does_not_lock_out_who_has_one(
    pairs: ServedPairs, tmp_path: Path
) -> None:
    key = add_key(tmp_path / "keys.json", "anna")
    client = client_of_server(pairs, ServingLimits(requests_per_minute=2), keys=tmp_path / "keys.json")
    guesses = [client.post("/translate", json=asked("a", api_key=str(number))).status_code for number in range(3)]
    assert guesses == [403, 403, 429]
    assert client.post("/translate", json=asked("katze", api_key=key)).status_code == 200


class BodyWasRead(Exception):  # noqa: N818
    """That somebody asked for the body of a request."""


def status_by_the_head(service: TranslationService, path: str, *, length: int = 100) -> int:
    """The status of a request whose body cannot be read, from the address 192.0.2.1."""
    sent: list[Any] = []

    async def receive() -> Any:
        raise BodyWasRead

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json"), (b"content-length", str(length).encode())]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    asyncio.run(make_web(service)(scope | {"client": ("192.0.2.1", 1)}, receive, send))
    return int(sent[0]["status"])


@pytest.mark.parametrize("path", ["/translate", "/detect", "/v2/translate"])
def test_what_the_head_tells_is_refused_before_the_body_is_read(pairs: ServedPairs, path: str) -> None:
    service = TranslationService(pairs, ServingLimits(requests_per_minute=1, body_bytes=1000), ServerCounters())
    with pytest.raises(BodyWasRead):
        status_by_the_head(service, path)
    assert status_by_the_head(service, path) == 429


@pytest.mark.parametrize("path", ["/translate", "/detect"])
def test_a_body_that_is_announced_too_large_is_refused_unread_and_uncounted(pairs: ServedPairs, path: str) -> None:
    service = TranslationService(pairs, ServingLimits(requests_per_minute=1, body_bytes=1000), ServerCounters())
    assert [status_by_the_head(service, path, length=1001) for _ in range(3)] == [413] * 3
    with pytest.raises(BodyWasRead):
        status_by_the_head(service, path)


def test_where_a_key_may_be_in_the_body_the_body_is_read_first(pairs: ServedPairs, tmp_path: Path) -> None:
    add_key(tmp_path / "keys.json", "anna")
    service = TranslationService(
        pairs, ServingLimits(requests_per_minute=1), ServerCounters(), KeyRing(tmp_path / "keys.json")
    )
    for _ in range(3):
        with pytest.raises(BodyWasRead):
            status_by_the_head(service, "/translate")
