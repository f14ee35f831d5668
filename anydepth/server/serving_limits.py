"""What a server takes from its clients at most; the defaults are safe on the open internet."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ServingLimits:
    """The limits of a server; each is an option of `anydepth serve`."""

    characters: int = 20_000  # of all texts of a request
    items: int = 100  # texts of a request
    body_bytes: int = 256 * 1024  # 20,000 characters as JSON escapes, and some
    alternatives: int = 3
    requests_per_minute: int = 300  # of a key, or of an address without one; 0: no limit
    waiting: int = 4_000  # sentences that wait for their search; an owner may have half of them
    seconds: float = 60.0  # until a request is answered or given up
    body_seconds: float = 10.0  # until the body of a request has come, and likewise its head
    connections: int = 500
