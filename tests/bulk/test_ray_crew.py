"""Actors of a Ray cluster, with a cluster that is none: which are taken over, replaced and given up."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bulk.naps import NapJob

from anydepth.bulk import ray_crew
from anydepth.bulk.crew import MOST_FALSE_STARTS
from anydepth.bulk.inputs import Shard
from anydepth.bulk.ray_crew import NAMESPACE, RayCrew, prefix_of
from anydepth.bulk.rows import RowFormat
from anydepth.bulk.shard_work import ShardJob
from anydepth.errors import AnydepthError, Interrupted, UsageError

SHARD = Shard("in", "text", 1, 1, (b"x",))


class ActorLostError(Exception):
    """What Ray raises for an actor that is gone."""


class FakeRay:
    """Actors by number, which answer at once; `is_lost` says which are gone when they are asked."""

    def __init__(self, cores: list[int], is_lost: Callable[[int], bool] = lambda number: False) -> None:
        self.cores, self.is_lost, self.started = cores, is_lost, 0
        self.named: dict[str, Any] = {}
        self.greetings = 0
        self.exceptions = SimpleNamespace(RayError=ActorLostError)
        self.util = SimpleNamespace(list_named_actors=self.list_named_actors)
        self.killed: list[Any] = []

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": float(each)} if each else {}} for each in self.cores]

    def list_named_actors(self, *, all_namespaces: bool) -> list[dict[str, str]]:
        return [{"namespace": NAMESPACE, "name": each} for each in self.named]

    def get_actor(self, name: str, *, namespace: str) -> Any:
        if self.named[name] is None:
            raise ValueError(f"Failed to look up actor with name {name!r}")
        return self.named[name]

    def remote(self, kind: type) -> Any:
        return SimpleNamespace(options=lambda **options: SimpleNamespace(remote=lambda job: self.actor()))

    def actor(self) -> Any:
        self.started += 1
        number = self.started

        def greet() -> tuple[int, str]:
            self.greetings += 1
            return number, "greeting"

        asked = SimpleNamespace(remote=lambda shard: (number, "shard"))
        return SimpleNamespace(number=number, greet=SimpleNamespace(remote=greet), do=asked)

    def wait(self, waiting: list[Any], *, num_returns: int, timeout: float) -> tuple[list[Any], list[Any]]:
        return waiting[:1], waiting[1:]

    def get(self, asked: tuple[int, str]) -> int:
        if self.is_lost(asked[0]) or asked[1] == "shard":
            raise ActorLostError("The actor died.")
        return asked[0]

    def kill(self, actor: Any) -> None:
        self.killed.append(actor)


def job(threads: int = 1) -> ShardJob:
    return ShardJob(
        run=Path("run"),
        folder=Path("job"),
        engine="native",
        int8=False,
        policy="full",
        beam=None,
        length_penalty=None,
        batch_tokens=None,
        best=None,
        vocabulary=None,
        form=RowFormat(),
        version="1",
        model={"weights": "w"},
        threads=threads,
    )


def test_room_is_counted_machine_by_machine_and_workers_that_fit_none_are_refused() -> None:
    assert len(RayCrew(FakeRay([3, 3, 0, 1]), job(threads=2), workers=None, pieces=9).members) == 2
    assert len(RayCrew(FakeRay([3, 3]), job(), workers=None, pieces=4).members) == 4, "one for each piece"
    assert len(RayCrew(FakeRay([3, 3]), job(), workers=5, pieces=1).members) == 1
    with pytest.raises(UsageError, match="--threads 4 is more than the 3 CPUs of the largest machine of the Ray clus"):
        RayCrew(FakeRay([3, 3]), job(threads=4), workers=None, pieces=9)
    with pytest.raises(UsageError, match="no machine of the Ray cluster has a core for workers"):
        RayCrew(FakeRay([0]), job(), workers=None, pieces=9)


def test_a_worker_that_never_starts_is_given_up_where_others_work_and_ends_the_job_where_none_does() -> None:
    said: list[str] = []
    ray = FakeRay([1, 1, 1], is_lost=lambda number: number > 2)
    crew = RayCrew(ray, job(), workers=None, pieces=9, say=said.append)
    for _ in range(40):
        crew.wait(0.0)
    assert crew.workers == 2 == len(crew.members)
    assert said == ["a worker cannot be started on the Ray cluster: The actor died.; going on with 2"]
    assert ray.started == 2 + MOST_FALSE_STARTS * 3 + 1
    hopeless = RayCrew(FakeRay([1, 1], is_lost=lambda number: True), job(), workers=None, pieces=9)
    with pytest.raises(AnydepthError, match="no worker could be started on the Ray cluster: The actor died"):
        for _ in range(40):
            hopeless.wait(0.0)


def test_own_actors_are_taken_over_and_one_that_ends_meanwhile_is_passed_over() -> None:
    ray = FakeRay([1, 1])
    own = prefix_of(job())
    ray.named = {f"{own}-1": ray.actor(), f"{own}-2": None, f"{prefix_of(job(threads=2))}-3": ray.actor()}
    crew = RayCrew(ray, job(), workers=None, pieces=9)
    assert [each.actor.number for each in crew.members] == [1, 3], "one is taken over, and one is new"


def test_actors_whose_product_nobody_would_receive_are_ended_and_others_started() -> None:
    ray, naps = FakeRay([1, 1]), NapJob()
    own = prefix_of(naps)
    ray.named = {f"{own}-1": ray.actor(), f"{own}-2": None, f"{prefix_of(job())}-3": ray.actor()}
    crew = RayCrew(ray, naps, workers=None, pieces=9)
    assert [each.number for each in ray.killed] == [1]
    assert [each.actor.number for each in crew.members] == [3, 4]


def test_a_lost_actor_is_told_from_a_failed_shard_and_those_that_wait_are_greeted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = FakeRay([1])
    crew = RayCrew(ray, job(), workers=None, pieces=9)
    assert crew.wait(0.0) == [] and crew.idle == 1
    crew.give(SHARD)
    (outcome,) = crew.wait(0.0)
    assert outcome.is_lost and outcome.reason == "its worker was lost: The actor died."
    crew.wait(0.0)
    before = ray.greetings
    crew.keep()
    assert ray.greetings == before, "a moment ago they were"
    monkeypatch.setattr(ray_crew, "GREETING", -1.0)
    crew.keep()
    assert ray.greetings == before + 1


@pytest.mark.parametrize("call", ["wait", "get"])
@pytest.mark.parametrize("kind", [SystemError, ActorLostError])
def test_who_stops_the_command_while_ray_is_asked_loses_no_worker(
    call: str, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: object, **options: object) -> None:
        cause = RuntimeError("in Ray")
        cause.__cause__ = Interrupted("stopped")
        raise kind("error return without exception set") from cause

    ray = FakeRay([1])
    crew = RayCrew(ray, job(), workers=None, pieces=9)
    monkeypatch.setattr(ray, call, interrupted)
    with pytest.raises(Interrupted, match=r"^stopped$"):
        crew.wait(0.0)
    assert ray.killed == []
