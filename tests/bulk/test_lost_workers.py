"""Workers that are lost before they begin, or never start: no shard and no job pays for them while
others work."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bulk.crews import SAMPLES, SMALL, InlineCrew, Killed, expected, joined, lines_of
from bulk.naps import Nap, NapJob, NotedNapJob, give_nap, is_alive, wait_until
from tiny import in_own_process

from anydepth.bulk.crew import CrewJob, Made, Work
from anydepth.bulk.inputs import Shard
from anydepth.bulk.job import BulkResult, translate_bulk
from anydepth.bulk.local_crew import LocalCrew, LocalWorker, Said
from anydepth.errors import AnydepthError
from anydepth.inference.translator import Translator


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "in.de"
    file.write_bytes(b"".join((SAMPLES / "text" / "test.de").read_bytes().splitlines(keepends=True)[:11]))
    return file


def job_with(
    accident: Callable[[Shard], str | None], text: Path
) -> tuple[BulkResult, InlineCrew[Any, Any], Translator]:
    """A job whose worker is lost before it begins the shards that have an accident."""
    translator, crews = Translator.load(SAMPLES / "runs" / "exits", threads=1), list[InlineCrew[Any, Any]]()

    @contextmanager
    def muster(job: CrewJob[Work, Made], pieces: int) -> Iterator[InlineCrew[Work, Made]]:
        crews.append(InlineCrew(job.worker(), accident, is_lost=True))
        yield crews[0]

    return translate_bulk(translator, [text], text.parent / "job", SMALL, muster=muster), crews[0], translator


def test_a_worker_that_was_gone_before_it_began_costs_no_try_and_yet_not_without_end(
    text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: Counter[int] = Counter()

    def accident(shard: Shard) -> str | None:
        given[shard.first] += 1
        return "gone" if shard.first == 9 or given[shard.first] <= 6 else None

    monkeypatch.setattr("anydepth.bulk.job.MOST_UNBEGUN", 6)
    assert SMALL.retries == 3
    result, _, _ = job_with(accident, text)
    assert given == {1: 7, 5: 7, 9: 9}
    assert result.failed_shards == {"in.de lines 9 to 11": "gone"} and len(result.outputs("in.de")) == 2


def test_workers_are_kept_while_done_shards_are_passed_over(text: Path) -> None:
    def kill_at_last(shard: Shard) -> str | None:
        if shard.first == 9:
            raise Killed
        return None

    with pytest.raises(Killed):
        job_with(kill_at_last, text)
    result, crew, translator = job_with(lambda shard: None, text)
    assert crew.kept == 2 and len(crew.done) == 1
    assert joined(result, "in.de") == expected(translator, lines_of(text))


@pytest.mark.parametrize("job", [NapJob(), NotedNapJob()], ids=["sent back", "left"])
def test_a_worker_whose_giver_is_killed_finishes_its_piece_only_if_it_leaves_what_it_makes(
    job: NapJob, tmp_path: Path
) -> None:
    asleep, awake = tmp_path / "asleep", tmp_path / "awake"
    giver = in_own_process(give_nap, job, Nap(tmp_path, seconds=1.5 if job.leaves_product else 600.0))
    wait_until(asleep.exists)
    giver.kill()
    giver.join()
    worker = int(asleep.read_text())
    wait_until(lambda: not is_alive(worker))
    assert awake.exists() == job.leaves_product


class StartsLike(LocalCrew[Any, Any]):
    """Processes that are none: each says what is next in `words`, the last again and again, or ends
    without a word at None."""

    words: tuple[Said | None, ...] = ()
    started = 0

    def _start(self) -> LocalWorker[Any]:
        here, there = Pipe()
        said = self.words[min(self.started, len(self.words) - 1)]
        self.started += 1
        if said is not None:
            there.send(said)
        if said is None or not said.is_ready:
            there.close()
        process = SimpleNamespace(join=lambda: None, exitcode=-9, other_end=there)
        return LocalWorker(process, here)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "match"),
    [(None, "a worker could not be started: its worker was ended by signal 9"), (Said(reason="no run"), "no run")],
)
def test_a_process_that_does_not_start_is_given_up_where_others_work_and_ends_the_job_where_none_does(
    word: Said | None, match: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(StartsLike, "words", (Said(is_ready=True), word))
    crew = StartsLike(None, workers=2, say=said.append)  # type: ignore[arg-type]
    for _ in range(20):
        crew.wait(0.01)
    assert crew.workers == 1 == len(crew.members)
    assert len(said) == 1 and said[0].startswith(match) and said[0].endswith("; going on with 1 workers")
    monkeypatch.setattr(StartsLike, "words", (word,))
    hopeless = StartsLike(None, workers=2)  # type: ignore[arg-type]
    with pytest.raises(AnydepthError, match=match):
        for _ in range(20):
            hopeless.wait(0.01)
