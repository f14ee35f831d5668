"""What every request passes: limits of its body, counts, the log and headers."""

import json
import logging
import re
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from server.serving import asked, client_of_server

from anydepth.server.logs import JsonLines
from anydepth.server.pairs import ServedPair, ServedPairs
from anydepth.server.serving_limits import ServingLimits
from anydepth.server.web import PAGE


def test_a_body_that_is_too_large_is_refused_with_and_without_its_length(pairs: ServedPairs) -> None:
    client = client_of_server(pairs, ServingLimits(body_bytes=1000))

    def in_parts() -> Iterator[bytes]:
        yield from [b"x" * 400] * 3

    told, untold = client.post("/translate", content=b"x" * 1001), client.post("/translate", content=in_parts())
    for answer in (told, untold):
        assert answer.status_code == 413
        assert answer.json() == {"error": "the request has more than 1000 bytes; send less at a time"}
    assert client.post("/translate", json=asked("katze")).status_code == 200


def test_a_full_line_is_refused_at_once(pairs: ServedPairs) -> None:
    client = client_of_server(pairs, ServingLimits(waiting=4))
    own = client.post("/translate", json=asked("eins.\nzwei.\ndrei."))
    assert (own.status_code, own.headers["retry-after"]) == (429, "1")
    assert own.json()["error"] == "Slowdown: too many of your sentences are waiting"
    assert client.post("/translate", json=asked("eins.\nzwei.")).status_code == 200


def test_a_line_that_others_filled_is_refused_at_once(
    pairs: ServedPairs, pair: ServedPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = client_of_server(pairs, ServingLimits(waiting=4))
    monkeypatch.setattr(pair.desk, "waiting", 4)
    answer = client.post("/translate", json=asked("katze"))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json() == {"error": "the server has more to translate than it can; try again soon"}


def test_every_answer_tells_browsers_to_be_careful(client: TestClient) -> None:
    for path in ("/", "/health", "/nothing"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"


def test_the_page_and_its_files_are_served_with_a_strict_policy(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    names = [file.name for file in PAGE.iterdir() if file.name != "index.html"]
    assert any(name.endswith(".js") for name in names) and any(name.endswith(".css") for name in names)
    for path in ("/", *(f"/{name}" for name in names)):
        answer = client.get(path)
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
    assert client.get("/index.html").status_code == client.get("/..%2fweb.py").status_code == 404


def test_other_sites_may_ask_only_where_they_are_named(pairs: ServedPairs) -> None:
    origin = {"Origin": "https://example.org"}
    assert "access-control-allow-origin" not in client_of_server(pairs).get("/languages", headers=origin).headers
    client = client_of_server(pairs, origins=("https://example.org",))
    assert client.get("/languages", headers=origin).headers["access-control-allow-origin"] == "https://example.org"
    other = client.get("/languages", headers={"Origin": "https://example.com"})
    assert "access-control-allow-origin" not in other.headers


def test_requests_searches_and_exits_are_counted(pairs: ServedPairs) -> None:
    client = client_of_server(pairs)
    client.post("/translate", json=asked("katze hund", policy="fixed:1"))
    client.post("/translate", json=asked("katze hund", policy="fixed:3"))
    client.post("/translate", json={})
    client.get("/nothing/at/all")
    page = client.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain")
    figures = dict(re.findall(r"^(anydepth_\S+) (\S+)$", page.text, flags=re.MULTILINE))
    assert figures['anydepth_requests_total{route="/translate",status="200"}'] == "2.0"
    assert figures['anydepth_requests_total{route="/translate",status="400"}'] == "1.0"
    assert figures['anydepth_requests_total{route="other",status="404"}'] == "1.0"
    assert figures['anydepth_request_seconds_count{route="/translate"}'] == "3.0"
    assert figures["anydepth_requests_in_flight"] == "1.0"  # this one
    assert figures['anydepth_waiting_sentences{pair="de-en"}'] == "0.0"
    first, third = (float(figures[f'anydepth_exit_tokens_total{{exit="{n}",pair="de-en"}}']) for n in (1, 3))
    assert float(figures['anydepth_target_tokens_total{pair="de-en"}']) == first + third > 2
    assert float(figures['anydepth_saved_blocks_total{pair="de-en"}']) == 2 * first


def logged(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    """The lines that the log of a server would have."""
    return [json.loads(JsonLines().format(record)) for record in caplog.records if record.message == "request"]


def test_the_log_has_a_line_for_each_request_and_no_text(pairs: ServedPairs, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    client_of_server(pairs).post("/translate", json=asked("katze hund", policy="fixed:2", api_key="geheim"))
    (line,) = logged(caplog)
    assert {"time", "level", "event", "route", "status", "milliseconds", "client", "characters"} <= set(line)
    assert (line["route"], line["status"], line["policy"], line["characters"]) == ("/translate", 200, "fixed:2", 10)
    assert "katze" not in json.dumps(line) and "geheim" not in json.dumps(line)


def test_the_log_has_texts_where_that_was_asked_for(pairs: ServedPairs, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    answer = client_of_server(pairs, logs_text=True).post("/translate", json=asked("katze hund")).json()
    (line,) = logged(caplog)
    assert (line["texts"], line["translations"]) == (["katze hund"], [answer["translatedText"]])
