"""A Ray cluster to work on: one that is there, by its address, or one that is started here for a
while."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from anydepth.errors import AnydepthError, Interrupted, UsageError

PATIENCE = 5.0  # seconds that the address has to answer
OBJECT_STORE = 2**28  # bytes, of a cluster that is started here: what is handed over is small
# What a cluster that is started here does otherwise than Ray's default: it reports to nobody, and its
# workers have the priority of this process, where Ray would put them behind all else on the machine.
STARTED_WITH = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
ADDRESS_FORM = "HOST:PORT, as `ray start --head` prints it"


@contextmanager
def ray_cluster(address: str | None = None, *, cores: int | None = None, namespace: str | None = None) -> Iterator[Any]:
    """The module `ray`, connected to the cluster at `address`; without one, to a cluster of this
    machine with so many `cores` (all if None), which ends with the block.

    Actors and tasks of a cluster that was there already live on until they end or are killed.
    Who wants neither Ctrl-C nor SIGTERM caught by Ray keeps their own handlers: they are put back.
    """
    ray = require_ray()
    if address is not None:
        check_answers(address)
    handlers = own_handlers()
    for name, value in STARTED_WITH.items():
        os.environ.setdefault(name, value)
    options: dict[str, Any] = {"namespace": namespace, "log_to_driver": False, "logging_level": "CRITICAL"}
    if address is None:  # "local", or Ray would join whatever cluster it finds on this machine
        options |= {"include_dashboard": False, "num_cpus": cores, "object_store_memory": OBJECT_STORE}
    try:
        ray.init(address=address or "local", **options)
    except TypeError:  # a mistake in the options above
        raise
    except Exception as error:  # of any kind: that of a node that does not start in time is a bare Exception
        raise_interruption(error)
        kind = AnydepthError if address is None else UsageError
        raise kind(cannot_connect(address, error)) from error
    finally:
        put_handlers_back(handlers)
    try:
        yield ray
    finally:
        ray.shutdown()
        put_handlers_back(handlers)


def require_ray() -> Any:
    """The module `ray`; one sentence where it is not installed."""
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            f"--on ray needs Ray, which cannot be imported ({error}); install it with pip install 'anydepth[ray]', "
            "on every machine of the cluster"
        ) from error
    return ray


def check_answers(address: str) -> None:
    """Refuses an address at which nothing listens: Ray itself would try for many minutes."""
    host, _, port = address.rpartition(":")
    if "/" in address or not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 2**16):
        raise UsageError(f"--address {address} is no address of a Ray cluster; give {ADDRESS_FORM}")
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()
    except OSError as error:
        raise UsageError(cannot_connect(address, error)) from error


def cannot_connect(address: str | None, error: Exception) -> str:
    """Why there is no cluster to work on, and what to do."""
    reason = first_line(error)
    if address is None:
        return f"a Ray cluster cannot be started here: {reason}; start one with `ray start --head` and give --address"
    return (
        f"no Ray cluster answers at --address {address}: {reason}; start one with `ray start --head`, "
        "or leave --address out to start one for this command"
    )


def first_line(error: Exception) -> str:
    """What an error says, without what Ray tells of its causes in further lines."""
    text = str(getattr(error, "strerror", None) or error).strip() or type(error).__name__
    return text.split("\n")[0].rstrip(".")


def raise_interruption(error: BaseException) -> None:
    """Raises what a signal raised, where it is the error or anywhere among its causes: Ray may pass it
    on inside errors of its own."""
    chain: list[BaseException] = [error]
    for each in chain:
        if isinstance(each, Interrupted | KeyboardInterrupt):
            raise each from None
        chain += [more for more in (each.__cause__, each.__context__) if more is not None and more not in chain]


def own_handlers() -> dict[int, Any]:
    """What this process does on Ctrl-C and SIGTERM; only its main thread can tell and change it."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}


def put_handlers_back(handlers: dict[int, Any]) -> None:
    """Undoes what Ray did to the signals."""
    for number, handler in handlers.items():
        signal.signal(number, handler)
