"""Workers that score: the same scores whoever does it, what fails is tried again and named, and what
was killed goes on."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from bleu_oracle.scored import SMALL, TRAIN, VALID, same, scored
from bulk.crews import Killed, inline

from anydepth.bleu_oracle.score_work import ScoreJob, ScorePart, score_job
from anydepth.bleu_oracle.table import load_scores
from anydepth.bulk.crew import Crew, CrewJob, Made, Work
from anydepth.bulk.local_crew import LocalCrew, on_this_machine
from anydepth.bulk.own_process import OwnCrew
from anydepth.bulk.ray_crew import prefix_of
from anydepth.errors import AnydepthError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.model.checkpoint import load_tensors
from anydepth.runs.models import load_model
from anydepth.runs.run import Run, training_data
from anydepth.search.decoding import GREEDY, DecodingOptions

PARTS = -(-TRAIN // SMALL.part) + -(-VALID // SMALL.part)


def job_of(run: Run, *, metric: str = "chrf", decoding: DecodingOptions = GREEDY) -> ScoreJob:
    return score_job(run, training_data(run), metric=metric, decoding=decoding)


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_of_this_machine_leave_the_file_that_this_process_leaves(own: Run, whole: Run, workers: int) -> None:
    @contextmanager
    def all_ready(job: CrewJob[Work, Made], pieces: int) -> Iterator[Crew[Work, Made]]:
        with on_this_machine(workers=workers)(job, pieces) as crew:
            while crew.workers < workers:
                crew.wait(1.0)
            yield crew

    found, said = scored(own, muster=all_ready)
    assert same(found, load_scores(whole.scores_file))
    (mine, notes), (theirs, expected) = load_tensors(own.scores_file), load_tensors(whole.scores_file)
    assert notes == expected and list(mine) == list(theirs)
    assert all(mine[name].equal(theirs[name]) for name in theirs)
    assert any(f"{workers} workers  0 failures" in each for each in said)
    assert not (own.folder / "exit_scores").exists()


def test_there_are_no_more_processes_than_parts_and_few_parts_need_none(own: Run) -> None:
    job = job_of(own)
    with on_this_machine(workers=3)(job, 2) as crew:
        assert isinstance(crew, LocalCrew) and len(crew.members) == 2
    with on_this_machine(workers=1, own=2)(job, 2) as crew:
        assert isinstance(crew, LocalCrew) and len(crew.members) == 1, "as asked for"
    with on_this_machine(own=2)(job, 2) as crew:
        assert isinstance(crew, OwnCrew)


def test_a_part_that_fails_is_tried_again_and_then_named_and_the_others_are_kept(own: Run, whole: Run) -> None:
    tries, unlucky = Counter[str](), "7 train pairs between 8 and 14"

    def accident(part: ScorePart) -> str | None:
        tries[part.place] += 1
        once = part.place == "5 valid pairs between 1 and 5" and tries[part.place] == 1
        return "it was unlucky" if once or part.place == unlucky else None

    done: list[str] = []
    with pytest.raises(
        AnydepthError,
        match=f"^1 part could not be scored: {unlucky}, because it was unlucky; what is scored is kept in "
        r".*exit_scores, and the same command goes on with what is missing$",
    ) as raised:
        scored(own, muster=inline(accident, done))
    assert raised.value.exit_code == 1
    assert tries[unlucky] == SMALL.retries == 3 and tries["5 valid pairs between 1 and 5"] == 2
    assert len(done) == PARTS - 1 and not own.scores_file.exists()
    found, said = scored(own, muster=inline(done=done))
    assert said[0] == "33 training and 5 validation pairs are scored already; going on with the rest"
    assert done[-1] == unlucky and len(done) == len(set(done)) == PARTS
    assert same(found, load_scores(whole.scores_file))


def test_an_error_in_a_worker_is_the_reason_that_is_told(own: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> None:
        raise ZeroDivisionError("no such thing")

    monkeypatch.setattr("anydepth.bleu_oracle.score_work.SentenceScorer.scores", broken)
    with pytest.raises(
        AnydepthError,
        match=f"^{PARTS} parts could not be scored, the first: 7 train pairs between 1 and 7, because no such thing; "
        "the same command goes on with what is missing$",
    ):
        scored(own, replace(SMALL, retries=1), muster=inline())


def test_a_killed_command_goes_on_with_what_is_missing_and_no_part_is_done_twice(own: Run, whole: Run) -> None:
    done: list[str] = []
    for _ in range(PARTS):
        allowed = iter([None])

        def accident(part: ScorePart, allowed=allowed) -> str | None:  # type: ignore[no-untyped-def]
            if next(allowed, "none") == "none":
                raise Killed
            return None

        if len(done) < PARTS - 1:
            with pytest.raises(Killed):
                scored(own, muster=inline(accident, done))
        else:
            assert same(scored(own, muster=inline(accident, done))[0], load_scores(whole.scores_file))
    assert len(done) == len(set(done)) == PARTS


def test_a_worker_refuses_another_version_other_weights_and_another_metric(own: Run) -> None:
    job = job_of(own)
    assert len(job.worker()(ScorePart("valid", (0, 3)))) == 2
    with pytest.raises(AnydepthError, match=r"the job is of anydepth 0\.0\.0 and a worker has"):
        replace(job, version="0.0.0").worker()
    for name in ("weights", "signature"):
        other = replace(job, recipe=replace(job.recipe, **{name: "other"}))
        with pytest.raises(AnydepthError, match=rf"another for a worker than for the command \({name} differs\)"):
            other.worker()


def test_a_call_loads_the_model_once_and_a_finished_one_not_at_all(own: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Run] = []

    def counting(run: Run) -> AdaptiveTransformer:
        loaded.append(run)
        return load_model(run)

    monkeypatch.setattr("anydepth.bleu_oracle.score_work.load_model", counting)
    scored(own)
    assert len(loaded) == 1
    scored(own)
    assert len(loaded) == 1


def test_actors_of_other_scores_have_another_name(own: Run, whole: Run) -> None:
    job = job_of(own)
    jobs = [job, job_of(whole), job_of(own, metric="bleu"), job_of(own, decoding=DecodingOptions(beam=2))]
    jobs += [replace(job, threads=2), replace(job, data=Path("elsewhere"))]
    assert len({prefix_of(each) for each in jobs}) == len(jobs)
    assert prefix_of(job_of(own)) == prefix_of(job)


def test_a_part_is_named_as_people_count_and_becomes_a_table() -> None:
    part = ScorePart("train", (4, 7, 1999))
    assert (part.place, part.records) == ("3 train pairs between 5 and 2,000", 3)
    assert ScorePart("valid", (1233,)).place == "valid pair 1,234"
    table = part.table([[1.0, 2.0], [3.0, 4.0], [0.1, 0.2]])
    assert table.pairs.tolist() == [4, 7, 1999]
    assert table.scores.dtype == torch.float64 and table.scores[2].tolist() == [0.1, 0.2]
