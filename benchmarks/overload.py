"""Twice as many requests as a server can answer, for ten minutes, and what became of them.

    python benchmarks/overload.py --run runs/demo/exits --source-file runs/demo/corpus/test.de

The server is a process of one thread of search; the clients are this process, on loopback alone.
First --clients of them ask as often as they are answered, which tells the capacity. Then requests
come at twice that rate, whether or not answers come. Then the clients ask as before, until they are
answered as fast as before. The last line is the verdict: held, or what was not, with exit code 1.
"""

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from server_load import MET, Connections, RunningServer, Turn, ask_all, question_of, served

MOST_ON_THEIR_WAY = 800  # requests of an overload
REFUSED = (429, 503)
RECOVERED = 0.9  # of the throughput before
PROBE = 4  # requests of each client, again and again, to see whether the server has recovered
LEAST_SENT = 0.9  # of the requests that an overload is to have
LOOKS_AT_MEMORY = 40


@dataclass(frozen=True)
class Overload:
    """What became of an overload."""

    turn: Turn
    memory: Sequence[int]  # bytes that the server took, from time to time
    recovery: float | None  # seconds from the last request to a throughput as before; None: not in time
    intended: float  # how many requests there were to be

    @property
    def settled(self) -> int:
        """The memory after a quarter of the time: by then every buffer has been used."""
        return self.memory[len(self.memory) // 4]

    @property
    def drift(self) -> float:
        """How much more memory, in percent, the server took afterwards at most."""
        return 100 * (max(self.memory[len(self.memory) // 4 :]) / self.settled - 1)

    def broken(self, options: argparse.Namespace) -> list[str]:
        """What was not as it should be."""
        others = sum(len(own) for status, own in self.turn.latencies.items() if status not in (MET, *REFUSED))
        found = [f"{others} requests were answered by none of {MET}, {REFUSED[0]}, {REFUSED[1]}"] if others else []
        answered = sum(len(own) for own in self.turn.latencies.values())
        if answered < LEAST_SENT * self.intended:
            found.append(f"only {answered} of {self.intended:.0f} requests were sent")
        if not self.turn.latencies.get(MET):
            found.append("none was met")
        if not any(self.turn.latencies.get(status) for status in REFUSED):
            found.append("none was refused, so it was no overload")
        if self.turn.percentile(99) > 1000 * options.p99:
            found.append(f"p99 of those that were met is above {options.p99:g} s")
        if self.drift > options.drift:
            found.append(f"memory grew by more than {options.drift:g}%")
        if self.recovery is None:
            found.append(f"no recovery within {options.recovery:g} s")
        return found


def main() -> int:
    """Prints what became of the requests, and the verdict."""
    options = parse_options()
    sentences = options.source_file.read_text(encoding="utf-8").splitlines()[: options.sentences]
    questions = [question_of(each) for each in sentences]
    with served(options.run) as server:
        ask_all(server, questions, options.clients)  # once without a look at the clock
        before = ask_all(server, questions, options.clients)
        rate = 2 * before.per_second
        print(f"capacity: {before.per_second:.1f} requests/s, p99 {before.percentile(99):.0f} ms", flush=True)
        turn, memory = asyncio.run(flood(server, questions, rate=rate, seconds=options.seconds))
        ended = time.perf_counter() - (turn.seconds - options.seconds)
        recovery = seconds_to_recover(server, questions, before, ended, options)
    return told(options, rate, Overload(turn, memory, recovery, rate * options.seconds))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--source-file", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=600.0, help="of the overload")
    parser.add_argument("--p99", type=float, default=5.0, help="seconds within which 99%% of the met must be met")
    parser.add_argument("--drift", type=float, default=5.0, help="percent by which the memory may grow")
    parser.add_argument("--recovery", type=float, default=10.0, help="seconds within which it must have recovered")
    return parser.parse_args()


async def flood(
    server: RunningServer, questions: Sequence[bytes], *, rate: float, seconds: float
) -> tuple[Turn, list[int]]:
    """Requests at a rate, whether or not answers come, and the server's memory from time to time."""
    turn, connections, running = Turn(), Connections(server.port), set[asyncio.Task[None]]()
    memory = list[int]()
    begun, sent = time.perf_counter(), 0
    while (now := time.perf_counter() - begun) < seconds:
        while sent < now * rate and len(running) < MOST_ON_THEIR_WAY:
            task = asyncio.create_task(connections.ask(questions[sent % len(questions)], turn))
            running.add(task)
            task.add_done_callback(running.discard)
            sent += 1
        if now >= len(memory) * seconds / LOOKS_AT_MEMORY:
            memory.append(server.resident_bytes())
        await asyncio.sleep(0.002)
    await asyncio.gather(*running)
    memory.append(server.resident_bytes())
    turn.seconds = time.perf_counter() - begun
    connections.close()
    return turn, memory


def seconds_to_recover(
    server: RunningServer, questions: Sequence[bytes], before: Turn, ended: float, options: argparse.Namespace
) -> float | None:
    """Seconds from `ended`, when the last request of the overload was sent, to the first probe that
    is met as fast as before; None where that takes too long."""
    waiting = cycle(questions)
    while (now := time.perf_counter() - ended) <= options.recovery:
        probe = ask_all(server, list(islice(waiting, PROBE * options.clients)), options.clients)
        if set(probe.latencies) == {MET} and probe.per_second >= RECOVERED * before.per_second:
            return now
    return None


def told(options: argparse.Namespace, rate: float, found: Overload) -> int:
    """Prints what was found; the exit code."""
    turn, broken = found.turn, found.broken(options)
    counts = ", ".join(f"{len(own)} x {status or 'none'}" for status, own in sorted(turn.latencies.items()))
    recovery = "not in time" if found.recovery is None else f"{found.recovery:.1f} s after the last request"
    print(f"overload: {rate:.0f} requests/s for {options.seconds:.0f} s; answers by status: {counts}")
    print(f"  met: {turn.per_second:.1f}/s, p50 {turn.percentile(50):.0f} ms, p99 {turn.percentile(99):.0f} ms")
    print(f"  memory: {found.settled / 2**20:.0f} MiB after a quarter, {found.drift:+.1f}% at most from then on")
    print(f"  recovery: {recovery}, to {RECOVERED:g} of the throughput before")
    print(f"verdict: not held: {'; '.join(broken)}" if broken else "verdict: held")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
