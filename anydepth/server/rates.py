"""How often each client may ask."""

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache

from anydepth.server.refusals import slow_down

MOST_CLIENTS = 10_000  # that are remembered; who has not asked for longest is forgotten


class RequestRates:
    """Lets each client ask so many times a minute, a minute's worth of them at once."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """0 a minute is no limit."""
        self.per_minute, self.clock = per_minute, clock
        self.left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests left, and when that was so

    def take(self, client: str, *, per_minute: int | None = None) -> None:
        """Counts a request of `client`; one too many is refused with the seconds to wait."""
        most = self.per_minute if per_minute is None else per_minute
        if most == 0:
            return
        now = self.clock()
        left, since = self.left.pop(client, (float(most), now))
        left = min(float(most), left + (now - since) * most / 60)
        is_over = left < 1
        self.left[client] = (left if is_over else left - 1, now)
        if len(self.left) > MOST_CLIENTS:
            self.left.popitem(last=False)
        if is_over:
            raise slow_down(f"{most} per 1 minute", max(1, math.ceil((1 - left) * 60 / most)))


@lru_cache(maxsize=MOST_CLIENTS)
def client_of(address: str) -> str:
    """The client behind an address: an IPv4 address, or the network of an IPv6 address, of which
    one client has billions."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
