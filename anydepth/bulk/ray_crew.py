"""Workers that are actors of a Ray cluster.

They are detached: when the process that gives them work is killed, each finishes the piece that it
has, and a job that goes on takes them over, or ends them where it cannot have what they make. Without
a word from anybody they end by themselves.
"""

import json
import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic

from anydepth.bulk.crew import MOST_FALSE_STARTS, CrewJob, Made, Muster, Work, WorkOutcome
from anydepth.bulk.local_crew import Said, outcome_of
from anydepth.bulk.ray_cluster import raise_interruption, ray_cluster
from anydepth.errors import AnydepthError, UsageError
from anydepth.files.checksums import bytes_hash
from anydepth.messages.say import Say, say_nothing

NAMESPACE = "anydepth-bulk"
GREETING = 5.0  # seconds between two words to every actor, and looks at how large the cluster is
PATIENCE = 60.0  # seconds without a word, after which an actor that has nothing to do ends


class RayWorker(Generic[Work, Made]):
    """An actor: a worker, and a watch over whether anybody still wants it."""

    def __init__(self, job: CrewJob[Work, Made]) -> None:
        self.work = job.worker()
        self.heard, self.at_work = time.monotonic(), threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def do(self, piece: Work) -> Said:
        """What came of a piece; one that was given by a job that was killed is finished before."""
        with self.at_work:
            try:
                return outcome_of(self.work, piece)
            finally:
                self.heard = time.monotonic()

    def greet(self) -> int:
        """Keeps the actor alive; the answer comes once it has loaded the model."""
        self.heard = time.monotonic()
        return os.getpid()

    def _watch(self) -> None:
        while self.at_work.locked() or time.monotonic() - self.heard < PATIENCE:
            time.sleep(1.0)
        os._exit(0)


@dataclass
class RayMember(Generic[Work]):
    """An actor, what it was asked last and has not answered, and the piece that it has."""

    actor: Any
    asked: Any
    piece: Work | None = None
    is_ready: bool = False


class RayCrew(Generic[Work, Made]):
    """Actors of a cluster: so many, or as many as it has room for, also when it grows; never more than
    there are `pieces`."""

    def __init__(
        self, ray: Any, job: CrewJob[Work, Made], *, workers: int | None, pieces: int, say: Say = say_nothing
    ) -> None:
        self.ray, self.job, self.wanted, self.pieces, self.say = ray, job, workers, pieces, say
        check_threads(job.threads, node_cores(ray))
        self.prefix = prefix_of(job)
        self.false_starts, self.given_up, self.greeted = 0, 0, 0.0
        self.kind = ray.remote(RayWorker)
        self.options = {"namespace": NAMESPACE, "lifetime": "detached", "num_cpus": job.threads}
        self.options |= {"max_restarts": 0, "max_concurrency": 4}  # one at work, one queued, and greetings
        self.members: list[RayMember[Work]] = self._taken_over()
        self._grow()

    def _taken_over(self) -> list[RayMember[Work]]:
        """The actors of a job that was killed; they are ended where this one cannot have what they make."""
        listed = self.ray.util.list_named_actors(all_namespaces=True)
        adopted = [self._adopted(each["name"]) for each in listed if self._is_own(each)]
        found = [each for each in adopted if each is not None]
        if self.job.leaves_product:
            return found
        for each in found:
            self._dismiss(each)
        return []

    def _is_own(self, named: dict[str, str]) -> bool:
        return named["namespace"] == NAMESPACE and named["name"].startswith(self.prefix)

    @property
    def workers(self) -> int:
        return sum(each.is_ready for each in self.members)

    @property
    def idle(self) -> int:
        return sum(each.is_ready and each.piece is None for each in self.members)

    def give(self, piece: Work) -> None:
        """Hands a piece to an actor that waits."""
        member = next(each for each in self.members if each.is_ready and each.piece is None)
        member.piece, member.asked = piece, member.actor.do.remote(piece)

    def wait(self, seconds: float) -> list[WorkOutcome[Work, Made]]:
        """What the actors answered, and the pieces of those that were lost."""
        self.keep()
        waiting = [each.asked for each in self.members if each.asked is not None]
        if not waiting:
            time.sleep(seconds)
            return []
        ready = self._answered(waiting, seconds)
        found = [self._heard(each) for each in list(self.members) if each.asked in ready]
        return [each for each in found if each is not None]

    def _answered(self, waiting: list[Any], seconds: float) -> list[Any]:
        """Those that are there now or, if there are none, the next one within so many seconds."""
        try:
            ready, _ = self.ray.wait(waiting, num_returns=len(waiting), timeout=0)
            return list(ready or self.ray.wait(waiting, num_returns=1, timeout=seconds)[0])
        except Exception as error:
            raise_interruption(error)
            raise

    def _heard(self, member: RayMember[Work]) -> WorkOutcome[Work, Made] | None:
        try:
            said = self.ray.get(member.asked)
        except Exception as error:
            raise_interruption(error)
            if not isinstance(error, self.ray.exceptions.RayError):
                raise
            return self._lost(member, error)
        member.asked = None
        if not member.is_ready:
            member.is_ready, self.false_starts = True, 0
            return None
        piece, member.piece = member.piece, None
        assert piece is not None and isinstance(said, Said)
        return WorkOutcome(piece, said.made, said.reason, said.is_held)

    def _lost(self, member: RayMember[Work], error: Exception) -> WorkOutcome[Work, Made] | None:
        reason = str(error).strip().split("\n")[-1].strip() or type(error).__name__
        if not member.is_ready:
            self.false_starts += 1
            if self.false_starts > MOST_FALSE_STARTS * max(1, len(self.members)):
                self._give_up(reason)
        self._dismiss(member)
        self.members.remove(member)
        self._grow()
        if member.piece is None:
            return None
        return WorkOutcome(member.piece, reason=f"its worker was lost: {reason}", is_lost=True)

    def _give_up(self, reason: str) -> None:
        """Goes on with one worker less, unless none has ever started."""
        if not self.workers:
            raise AnydepthError(f"no worker could be started on the Ray cluster: {reason}")
        self.false_starts, self.given_up = 0, self.given_up + 1
        self.say(f"a worker cannot be started on the Ray cluster: {reason}; going on with {len(self.members) - 1}")

    def _grow(self) -> None:
        room = self.wanted or sum(cores // self.job.threads for cores in node_cores(self.ray))
        while len(self.members) < max(1, min(room - self.given_up, self.pieces)):
            name = f"{self.prefix}-{uuid.uuid4().hex}"
            actor = self.kind.options(name=name, **self.options).remote(self.job)
            self.members.append(RayMember(actor, actor.greet.remote()))

    def _adopted(self, name: str) -> RayMember[Work] | None:
        try:
            actor = self.ray.get_actor(name, namespace=NAMESPACE)
        except ValueError:  # it has ended since it was listed
            return None
        return RayMember(actor, actor.greet.remote())

    def keep(self) -> None:
        """Greets all actors and takes what room there is, every few seconds."""
        if time.monotonic() - self.greeted <= GREETING:
            return
        self.greeted = time.monotonic()
        for each in self.members:
            if each.is_ready:
                each.actor.greet.remote()
        self._grow()

    def _dismiss(self, member: RayMember[Work]) -> None:
        with suppress(self.ray.exceptions.RayError, ValueError):
            self.ray.kill(member.actor)

    def end(self) -> None:
        """Ends all actors, whatever they do."""
        for each in self.members:
            self._dismiss(each)


def node_cores(ray: Any) -> list[int]:
    """The CPUs of each machine of the cluster that has any."""
    found = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    return [cores for cores in found if cores]


def check_threads(threads: int, cores: list[int]) -> None:
    """Refuses workers for which no machine has the room: Ray would wait for one for ever."""
    if not cores:
        raise UsageError("no machine of the Ray cluster has a core for workers; start Ray on one with --num-cpus")
    if threads > max(cores):
        raise UsageError(
            f"--threads {threads} is more than the {max(cores)} CPUs of the largest machine of the Ray cluster; "
            f"give {max(cores)} or fewer, or add a larger machine"
        )


def prefix_of(job: CrewJob[Work, Made]) -> str:
    """How the names of a job's actors begin: by all that they were started with, so that no other job
    takes them over."""
    values = {"kind": type(job).__name__, **asdict(job)}
    return bytes_hash(json.dumps(values, sort_keys=True, default=str).encode())[:16]


def on_ray(
    *, address: str | None = None, workers: int | None = None, threads: int = 1, say: Say = say_nothing
) -> Muster:
    """Actors of the Ray cluster at `address`, or of one that is started for the job."""

    @contextmanager
    def muster(job: CrewJob[Work, Made], pieces: int) -> Iterator[RayCrew[Work, Made]]:
        cores = None if workers is None else workers * threads
        with ray_cluster(address, cores=cores, namespace=NAMESPACE) as ray:
            crew = RayCrew(ray, replace(job, threads=threads), workers=workers, pieces=pieces, say=say)
            try:
                yield crew
            finally:
                crew.end()

    return muster
