"""A server in a process of its own: unmodified clients, slow and rude ones, and its end."""

import asyncio
import json
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import deepl
import pytest
from libretranslatepy import LibreTranslateAPI
from server.serving import SOURCES, ServerProcess, asked, sample_run, serving

from anydepth.server.key_file import add_key
from anydepth.server.pairs import ServedPair
from anydepth.server.process import MOST_HELD, JoinedWrites, ServingPlace, listening
from anydepth.server.shared_search import TOGETHER

PATIENCE = 60.0
SLOW_BEAM = 100  # with it, hundreds of sentences take seconds: clients leave long before they are all found


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A file with one key, and the key."""
    file = tmp_path_factory.mktemp("keys") / "keys.json"
    return file, add_key(file, "anna", requests_per_minute=0)


@pytest.fixture(scope="module")
def server(runs: list[Path], key: tuple[Path, str]) -> Iterator[ServerProcess]:
    """A server of both runs that wants a key, is impatient and has room for few."""
    limits = ["--body-seconds", 1.0, "--connections", 20, "--body-bytes", 5000]
    with serving(*runs, "--keys", key[0], *limits) as server:
        yield server


def posted(server: ServerProcess, question: dict[str, object], key: str) -> tuple[int, dict[str, object]]:
    """The status and the answer of a question."""
    body = json.dumps(question | {"api_key": key}).encode()
    request = urllib.request.Request(f"{server.url}/translate", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def connected(server: ServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)


def raw_request(body: bytes, *, length: int | None = None) -> bytes:
    """A question as it goes over the line, which says that its body has `length` bytes."""
    size = len(body) if length is None else length
    head = f"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
    return head.encode() + body


def all_of(connection: socket.socket) -> bytes:
    """What comes until the other side closes; nothing more where it was reset."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def test_libretranslatepy_works_as_it_is(server: ServerProcess, key: tuple[Path, str], pair: ServedPair) -> None:
    client = LibreTranslateAPI(server.url, api_key=key[1])
    assert client.translate("katze hund", "de", "en") == pair.translator.translate(["katze hund"])[0].line
    assert [language["code"] for language in client.languages()] == ["de", "en", "fr"]
    assert client.detect("Wo ist der Hund?")[0]["language"] == "de"
    with pytest.raises(urllib.error.HTTPError) as refused:
        LibreTranslateAPI(server.url, api_key="wrong").translate("katze", "de", "en")
    assert refused.value.code == 403
    refused.value.close()


def test_the_official_deepl_client_works_as_it_is(
    server: ServerProcess, key: tuple[Path, str], pair: ServedPair
) -> None:
    client, stranger = (deepl.Translator(each, server_url=server.url) for each in (key[1], "wrong"))
    with closing(client), closing(stranger):
        counted = client.get_usage().character.count or 0
        texts = client.translate_text(SOURCES[:3], source_lang="DE", target_lang="EN-GB")
        assert [each.text for each in texts] == [each.line for each in pair.translator.translate(SOURCES[:3])]
        assert [each.code for each in client.get_source_languages()] == ["DE", "FR"]
        assert [each.code for each in client.get_target_languages()] == ["DE", "EN"]
        assert client.get_usage().character.count == counted + sum(map(len, SOURCES[:3]))
        with pytest.raises(deepl.AuthorizationException):
            stranger.translate_text("katze", target_lang="EN-GB")


def test_clients_side_by_side_get_their_own_answers(
    server: ServerProcess, key: tuple[Path, str], pair: ServedPair
) -> None:
    expected = [each.line for each in pair.translator.translate(SOURCES, policy="fixed:2")]
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda text: posted(server, asked(text, policy="fixed:2"), key[1]), SOURCES * 4))
    assert [answer["translatedText"] for _, answer in answers] == expected * 4


def test_the_body_of_an_answer_does_not_wait_for_its_head_to_be_acknowledged() -> None:
    with listening(ServingPlace("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


class RecordedWrites(asyncio.Transport):
    """A connection that keeps what goes out."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.sent.append(b"closed")

    abort = close


def test_what_is_written_in_one_turn_goes_out_together_and_before_the_end() -> None:
    async def written() -> list[bytes]:
        recorded = RecordedWrites()
        joined = JoinedWrites(recorded, asyncio.get_running_loop())
        for data in (b"head ", b"", b"body"):
            joined.write(data)
        await asyncio.sleep(0)
        joined.write(large := b"x" * (MOST_HELD + 1))
        assert recorded.sent == [b"head body", large]
        joined.write(b"last")
        joined.close()
        await asyncio.sleep(0)
        joined.write(b"never")
        joined.abort()
        await asyncio.sleep(0)
        return recorded.sent[2:]

    assert asyncio.run(written()) == [b"last", b"closed", b"closed"]


def test_a_body_that_comes_too_slowly_is_refused(server: ServerProcess) -> None:
    with connected(server) as slow:
        slow.sendall(
            b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
        )
        answer = all_of(slow)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"took longer than 1 seconds to come" in answer


@pytest.mark.parametrize("head", ["", "GET /health HTTP/1.1\r\nX: "], ids=["nothing", "half"])
def test_a_request_that_does_not_come_is_not_waited_for(server: ServerProcess, head: str) -> None:
    started = time.monotonic()
    with connected(server) as slow:
        slow.sendall(head.encode())
        assert all_of(slow) == b""
    assert time.monotonic() - started < PATIENCE / 2


def test_a_body_that_is_too_large_is_refused_before_it_comes(server: ServerProcess) -> None:
    with connected(server) as large:
        large.sendall(raw_request(b"", length=10**9))
        assert all_of(large).startswith(b"HTTP/1.1 413 ")


def test_a_head_that_is_too_large_is_refused(server: ServerProcess) -> None:
    with connected(server) as large:
        try:
            large.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 100_000)
        except (ConnectionResetError, BrokenPipeError):
            return
        answer = all_of(large)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")


def test_a_connection_too_many_is_answered_503_at_once(server: ServerProcess) -> None:
    with ExitStack() as stack:
        many = [stack.enter_context(connected(server)) for _ in range(30)]
        answers = [all_of(connection) for connection in many]
    refused = [answer for answer in answers if answer.startswith(b"HTTP/1.1 503 ")]
    assert len(refused) >= 10
    assert all(b"Retry-After: 1" in answer for answer in refused)


def test_a_client_that_leaves_takes_its_sentences_along(tmp_path: Path) -> None:
    body = json.dumps(asked(["katze hund der"] * 100)).encode()
    with serving(sample_run("exits", tmp_path / "run"), "--beam", SLOW_BEAM) as server:
        with ExitStack() as stack:
            for _ in range(3):
                stack.enter_context(connected(server)).sendall(raw_request(body))
            for _ in range(2):
                with connected(server) as rude:
                    rude.sendall(raw_request(body))
            page_when(server, lambda page: figure(page, "waiting_sentences") > TOGETHER)
        page = page_when(server, lambda page: figure(page, 'requests_total{route="/translate"') == 5)
        assert figure(page, 'requests_total{route="/translate",status="499"') == 5, "all have left before their answers"
        assert figure(page, "waiting_sentences") <= TOGETHER, "no more than what is being searched"
        page_when(server, lambda page: figure(page, "waiting_sentences") == 0)
        assert posted(server, asked("katze"), "")[0] == 200


def page_when(server: ServerProcess, holds: Callable[[str], bool]) -> str:
    """The page of /metrics as soon as it `holds`."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=PATIENCE) as answer:
            page = str(answer.read().decode())
        if holds(page):
            return page
        assert time.monotonic() < deadline, page
        time.sleep(0.02)


def figure(page: str, name: str) -> float:
    """A figure of /metrics, summed over its labels; those that `name` ends with are given."""
    return sum(map(float, re.findall(rf"^anydepth_{re.escape(name)}\S* (\S+)", page, flags=re.MULTILINE)))


def test_sigterm_answers_every_request_that_was_accepted(tmp_path: Path) -> None:
    run = sample_run("exits", tmp_path / "run")
    body = json.dumps(asked([f"{text} {number}" for number in range(90) for text in SOURCES[:1]])).encode()
    options = ["--engine", "torch", "--requests-per-minute", 0, "--proxies", "127.0.0.1"]
    with serving(run, *options) as server, ExitStack() as stack:
        connections = [stack.enter_context(connected(server)) for _ in range(8)]
        for connection in connections:
            connection.sendall(raw_request(body).replace(b"Host: a", b"Host: a\r\nX-Forwarded-For: 192.0.2.7"))
        wait_until_accepted(server, 8)
        server.process.send_signal(signal.SIGTERM)
        answers = [all_of(connection) for connection in connections]
        assert server.process.wait(PATIENCE) == 0
        with pytest.raises(OSError):
            connected(server).close()
    assert [answer[:15] for answer in answers] == [b"HTTP/1.1 200 OK"] * 8
    assert all(len(json.loads(answer.partition(b"\r\n\r\n")[2])["translatedText"]) == 90 for answer in answers)
    assert '"event": "stopped"' in server.log[-1]
    assert sum('"client": "192.0.2.7"' in line for line in server.log) == 8, "the proxy is believed"


def wait_until_accepted(server: ServerProcess, requests: int) -> None:
    """Waits until so many requests are being worked on or done, beside the one that asks."""

    def are_accepted(page: str) -> bool:
        done = figure(page, 'requests_total{route="/translate",status="200"')
        return figure(page, "requests_in_flight") - 1 + done >= requests

    page_when(server, are_accepted)
