"""The process of a server: its connections, its signals and its end."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from anydepth.errors import AnydepthError
from anydepth.server.gate import RawAnswer
from anydepth.server.logs import FIELDS
from anydepth.server.serving_limits import ServingLimits

LOG = logging.getLogger(__name__)
KEPT_ALIVE = 15  # seconds that a connection may be idle
LARGEST_HEAD = 16 * 1024  # bytes of the lines before the body
MOST_HELD = 64 * 1024  # bytes that wait for others to be written with
TOO_MANY = RawAnswer("503 Service Unavailable", "the server has more connections than it can; try again soon")


@dataclass(frozen=True)
class ServingPlace:
    """Where a server listens, and whose word it takes for the address of a client."""

    host: str
    port: int
    proxies: Sequence[str] = ()


class JoinedWrites(asyncio.Transport):
    """A connection on which what is written in one turn of the loop goes out together: the head of
    an answer and its body are one packet."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.transport, self.loop = transport, loop
        self.held = bytearray()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Sends `data` at the end of this turn, or at once where it is much: then the other side's
        pace is what counts."""
        if data and not self.held:
            self.loop.call_soon(self.flush)
        self.held += data
        if len(self.held) > MOST_HELD:
            self.flush()

    def flush(self) -> None:
        """Sends what is held."""
        if self.held:
            held, self.held = self.held, bytearray()
            self.transport.write(held)

    def close(self) -> None:
        """Closes the connection once all that was written has gone out."""
        self.flush()
        self.transport.close()

    def abort(self) -> None:
        """Closes the connection at once."""
        self.held.clear()
        self.transport.abort()

    def is_closing(self) -> bool:
        """Whether nothing more can be written."""
        return self.transport.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the connection tells of itself, such as the address of the other side."""
        return self.transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Has what comes wait."""
        self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Has what comes be read again."""
        self.transport.resume_reading()


def patient_protocol(limits: ServingLimits) -> type[H11Protocol]:
    """HTTP for clients of all kinds: a connection too many is refused, and one whose request does
    not come, or whose answer is not read, is closed."""

    class PatientProtocol(H11Protocol):
        """HTTP/1.1 over one connection."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(JoinedWrites(transport, self.loop))
            self.slow: asyncio.TimerHandle | None = None
            if len(self.connections) > limits.connections:
                transport.write(TOO_MANY.to_bytes())
                transport.close()
                return
            self.watch()

        def watch(self) -> None:
            """Closes the connection unless something happens in time."""
            self.unwatch()
            self.slow = self.loop.call_later(limits.body_seconds, self.transport.abort)

        def unwatch(self) -> None:
            if self.slow is not None:
                self.slow.cancel()
            self.slow = None

        def handle_events(self) -> None:
            known = self.cycle
            super().handle_events()
            if self.cycle is not known:  # the head of a request has come
                self.unwatch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.slow is None and (self.cycle is None or self.cycle.response_complete):
                self.watch()  # the next request of this connection has begun, and its head is not whole

        def pause_writing(self) -> None:
            super().pause_writing()
            self.watch()

        def resume_writing(self) -> None:
            self.unwatch()
            super().resume_writing()

        def connection_lost(self, exc: Exception | None) -> None:
            self.unwatch()
            super().connection_lost(exc)

    return PatientProtocol


class DrainingServer(uvicorn.Server):
    """A server that a signal asks to answer what it has accepted, and then to end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Lets SIGTERM and SIGINT drain the server while inside; a second SIGINT ends it at once."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run_server(app: ASGIApp, place: ServingPlace, limits: ServingLimits) -> None:
    """Serves until a signal comes; every request that was accepted is answered."""
    config = uvicorn.Config(
        app,
        http=patient_protocol(limits),
        loop="asyncio",  # the same everywhere, whatever else is installed
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(place.proxies),
        forwarded_allow_ips=list(place.proxies),
        timeout_keep_alive=KEPT_ALIVE,
        timeout_graceful_shutdown=round(limits.seconds + limits.body_seconds) + 1,
        h11_max_incomplete_event_size=LARGEST_HEAD,
    )
    with listening(place) as sock:
        own: tuple[Any, ...] = sock.getsockname()
        LOG.info("listening", extra={FIELDS: {"host": own[0], "port": own[1]}})
        DrainingServer(config).run(sockets=[sock])
    LOG.info("stopped")


@contextlib.contextmanager
def listening(place: ServingPlace) -> Iterator[socket.socket]:
    """A socket that takes connections at the place; one that is taken or not ours is refused."""
    try:
        family, *_, address = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0]
        sock = socket.create_server(address[:2], family=family, backlog=1024)
    except OSError as error:
        raise AnydepthError(
            f"cannot listen at {place.host} port {place.port}: {error.strerror or error}; choose another --host or "
            "--port"
        ) from error
    with sock:
        # Connections inherit it. asyncio sets it for sockets of its own making alone; without it the body of
        # an answer waits until the client has acknowledged the head, which clients put off for 40 ms.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sock
