"""Whose work a shard is: that of one job, one model, one version, and of the lines that the input has."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from bulk.crews import SAMPLES, SMALL, expected, inline, joined, lines_of, settings_with

from anydepth.bulk.inputs import BulkInput, Shard, find_inputs
from anydepth.bulk.job import translate_bulk
from anydepth.bulk.job_folder import JobFolder
from anydepth.bulk.planning import make_plan
from anydepth.bulk.ray_crew import prefix_of
from anydepth.bulk.shard_work import ShardJob, ShardWorker
from anydepth.errors import AnydepthError
from anydepth.inference.translator import Translator


@pytest.fixture(scope="module")
def translator() -> Iterator[Translator]:
    yield Translator.load(SAMPLES / "runs" / "exits", threads=1)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """11 lines, which are 3 shards."""
    file = tmp_path / "in.de"
    file.write_bytes(b"".join((SAMPLES / "text" / "test.de").read_bytes().splitlines(keepends=True)[:11]))
    return file


def job_of(translator: Translator, text: Path, to: Path, **changes: object) -> ShardJob:
    return make_plan(translator, find_inputs([text]), to, settings_with(**changes)).job


def test_a_worker_refuses_another_model_and_another_version(translator: Translator, text: Path, tmp_path: Path) -> None:
    job = job_of(translator, text, tmp_path / "job")
    job.worker()
    with pytest.raises(AnydepthError, match=r"the job is of anydepth 0\.0\.0 and a worker has"):
        replace(job, version="0.0.0").worker()
    with pytest.raises(AnydepthError, match="aligned is another model for a worker than for the job"):
        replace(job, run=SAMPLES / "runs" / "aligned").worker()


def test_actors_of_another_job_at_the_same_folder_have_another_name(
    translator: Translator, text: Path, tmp_path: Path
) -> None:
    to, aligned = tmp_path / "job", Translator.load(SAMPLES / "runs" / "aligned", threads=1)
    job = job_of(translator, text, to)
    jobs = [job, job_of(aligned, text, to), job_of(translator, text, to, policy="fixed:1"), replace(job, version="0")]
    text.write_bytes(text.read_bytes()[:-1])
    jobs += [job_of(translator, text, to), job_of(translator, text, tmp_path / "other"), replace(job, threads=2)]
    assert len({prefix_of(each) for each in jobs}) == len(jobs)


def test_a_worker_of_a_job_that_is_gone_writes_nothing_and_its_receipts_are_not_believed(
    translator: Translator, text: Path, tmp_path: Path
) -> None:
    to, old = tmp_path / "job", tmp_path / "old"
    shard = next(find_inputs([text])[0].shards(shard_lines=4))
    worker = ShardWorker(job_of(translator, text, to, policy="fixed:1"))
    with pytest.raises(AnydepthError, match="is not of this job any more"):
        worker.do(shard)
    assert not to.exists()
    translate_bulk(translator, [text], old, settings_with(policy="fixed:1"), muster=inline())
    translate_bulk(translator, [text], to, SMALL, muster=inline())
    with pytest.raises(AnydepthError, match="is not of this job any more"):
        worker.do(shard)
    for part in (JobFolder.receipt_file, lambda folder, each: folder.output_file(each, ".txt")):
        part(JobFolder(to), shard).write_bytes(part(JobFolder(old), shard).read_bytes())
    said: list[str] = []
    result = translate_bulk(translator, [text], to, SMALL, muster=inline(), say=said.append)
    assert "is the receipt of another job; in.de lines 1 to 4 are translated again" in said[0]
    assert joined(result, "in.de") == expected(translator, lines_of(text))


def test_shards_of_an_input_that_was_edited_and_restored_are_done_again(
    translator: Translator, text: Path, tmp_path: Path
) -> None:
    right = text.read_bytes()
    lines = right.splitlines(keepends=True)
    edited = b"".join([*lines[:5], b"ein Hund\n", *lines[6:]])
    seen: list[int] = []

    def edit(shard: Shard) -> None:
        if not seen:
            text.write_bytes(edited)
        seen.append(shard.first)

    class Slow(BulkInput):
        """Reads the input anew for each shard, as a file larger than any buffer is."""

        def shards(self, *, shard_lines: int) -> Iterator[Shard]:
            count = sum(1 for _ in super().shards(shard_lines=shard_lines))
            for number in range(count):
                yield list(super().shards(shard_lines=shard_lines))[number]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anydepth.bulk.inputs.BulkInput", Slow)
        with pytest.raises(AnydepthError, match="was changed while it was translated"):
            translate_bulk(translator, [text], tmp_path / "job", SMALL, muster=inline(edit))
    text.write_bytes(right)
    said: list[str] = []
    result = translate_bulk(translator, [text], tmp_path / "job", SMALL, muster=inline(), say=said.append)
    assert any("is the receipt of other lines than the input has; in.de lines 5 to 8" in each for each in said)
    assert joined(result, "in.de") == expected(translator, lines_of(text))


def test_rows_are_known_by_their_values_and_not_by_how_arrow_holds_them(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    times = pyarrow.array([1, None, 3], pyarrow.timestamp("ns"))
    table = pyarrow.table({"text": ["ein Hund", None, "x"], "at": times, "more": [[1.5], [], None]})
    changed = table.set_column(0, "text", pyarrow.array(["ein Hund", "", "x"]))
    sums = []
    for number, (each, groups) in enumerate([(table, 3), (table, 1), (changed, 3)]):
        file = tmp_path / f"{number}.parquet"
        parquet.write_table(each, file, row_group_size=groups, compression="none" if groups == 1 else "snappy")
        (shard,) = BulkInput(file, "in.parquet").shards(shard_lines=4)
        sums.append(shard.source)
    assert sums[0] == sums[1] != sums[2]
