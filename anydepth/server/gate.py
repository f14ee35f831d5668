"""What every request passes: the limits of its body, the counts, the log, and headers that keep
browsers careful."""

import asyncio
import json
import logging
import time
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anydepth.server.counters import ServerCounters
from anydepth.server.logs import FIELDS
from anydepth.server.refusals import Refusal
from anydepth.server.serving_limits import ServingLimits

LOG = logging.getLogger(__name__)
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]
FAILED = 500
OTHER = "other"  # the route of a path that there is not


class Gate:
    """The outermost layer of the app."""

    def __init__(self, app: ASGIApp, *, limits: ServingLimits, counters: ServerCounters, paths: frozenset[str]) -> None:
        """`paths` are those that there are: labels of the counts, which nobody else may make up."""
        self.app, self.limits, self.counters, self.paths = app, limits, counters, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request through, and counts and logs what became of it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        scope.setdefault("state", {})["log"] = notes = dict[str, Any]()

        async def answered(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
            await send(message)

        self.counters.in_flight.inc()
        try:
            await self.app(scope, LimitedBody(scope, receive, self.limits), answered)
        except Exception:
            status = status or FAILED  # the layer around this one answers
            raise
        finally:
            self.counters.in_flight.dec()
            seconds, route = time.perf_counter() - started, scope["path"] if scope["path"] in self.paths else OTHER
            self.counters.count_request(route, status, seconds)
            told = {"route": route, "status": status, "milliseconds": round(1000 * seconds, 2), **notes}
            LOG.info("request", extra={FIELDS: told})


class LimitedBody:
    """The body of a request: one that is too large, or comes too slowly, is refused."""

    def __init__(self, scope: Scope, receive: Receive, limits: ServingLimits) -> None:
        self.receive, self.limits = receive, limits
        self.deadline = asyncio.get_running_loop().time() + limits.body_seconds
        self.announced = announced_bytes(scope)
        self.size, self.is_complete = 0, False

    async def __call__(self) -> Message:
        """The next part of the body; after the last one, that the client has left."""
        if self.is_complete:
            return await self.receive()
        check_bytes(self.announced, self.limits)
        try:
            async with asyncio.timeout_at(self.deadline):
                message = await self.receive()
        except TimeoutError:
            raise Refusal(408, f"the request took longer than {self.limits.body_seconds:g} seconds to come") from None
        self.size += len(message.get("body", b""))
        check_bytes(self.size, self.limits)
        self.is_complete = not message.get("more_body", False)
        return message


def announced_bytes(scope: Scope) -> int:
    """The size of the body as the head of a request has it; 0 where it says nothing."""
    announced = dict(scope["headers"]).get(b"content-length", b"0")
    return int(announced) if announced.isdigit() else 0


def check_bytes(size: int, limits: ServingLimits) -> None:
    """Refuses a body that is too large."""
    if size > limits.body_bytes:
        raise Refusal(413, f"the request has more than {limits.body_bytes} bytes; send less at a time")


@dataclass(frozen=True)
class RawAnswer:
    """An answer that is written before there is a request to answer: to a connection too many."""

    status: str
    error: str

    def to_bytes(self) -> bytes:
        """The answer as it goes over the line."""
        body = json.dumps({"error": self.error}).encode()
        head = f"HTTP/1.1 {self.status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return head.encode() + b"Retry-After: 1\r\nConnection: close\r\n\r\n" + body
