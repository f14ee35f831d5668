"""A bulk job: the bytes of `translate`, whatever the input is packed in, and however often the job is
killed, damaged or begun with something else."""

import gzip
import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bulk.crews import SAMPLES, SMALL, Killed, expected, inline, joined, lines_of, settings_with

from anydepth.bulk.inputs import SHARD_BYTES, BulkInput, Shard, find_inputs
from anydepth.bulk.job import translate_bulk
from anydepth.bulk.job_folder import JobFolder
from anydepth.bulk.planning import BulkSettings
from anydepth.bulk.rows import RowFormat
from anydepth.errors import AnydepthError, CorpusError, UsageError
from anydepth.inference.translator import Translation, Translator
from anydepth.search.decoding import DecodingOptions
from anydepth.text.corpus import LONGEST_LINE

STRANGE = b"\xef\xbb\xbfein Hund\r\n\n \t \nein Hund\nein\xe2\x80\xa8Mann\x0b\nEin Mann\rim Park\nletzte Zeile"


@pytest.fixture(scope="module")
def translator() -> Iterator[Translator]:
    yield Translator.load(SAMPLES / "runs" / "exits", threads=1)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """11 lines with duplicates and line ends of every kind."""
    file = tmp_path / "in.de"
    own = (SAMPLES / "text" / "test.de").read_bytes().splitlines(keepends=True)[:4]
    file.write_bytes(STRANGE + b"\n" + b"".join(own).rstrip(b"\n"))
    return file


def test_joined_shards_are_the_bytes_of_translate_however_the_text_is_packed(
    translator: Translator, text: Path, tmp_path: Path
) -> None:
    zstandard = pytest.importorskip("zstandard")
    raw, half = text.read_bytes(), len(text.read_bytes()) // 2
    (tmp_path / "in.gz").write_bytes(gzip.compress(raw))
    frames = zstandard.compress(raw[:half]) + zstandard.compress(raw[half:])
    (tmp_path / "in.zst").write_bytes(frames)
    result = translate_bulk(translator, [text, str(tmp_path / "in.*z*")], tmp_path / "job", SMALL, muster=inline())
    assert result.inputs == ["in.de", "in.gz", "in.zst"]
    whole = expected(translator, lines_of(text))
    assert joined(result, "in.de") == joined(result, "in.gz") == joined(result, "in.zst") == whole
    assert len(whole.split(b"\n")) == 12 and len(result.outputs("in.de")) == 3
    assert result.unique < result.records == 33


def test_a_job_killed_at_any_shard_goes_on_with_what_is_missing_and_a_finished_one_does_nothing(
    translator: Translator, text: Path, tmp_path: Path
) -> None:
    seen: list[str] = []

    def accident(shard: Shard) -> str | None:
        if shard.first == 5 and not seen:
            seen.append(shard.name)
            raise Killed
        return None

    done: list[str] = []
    with pytest.raises(Killed):
        translate_bulk(translator, [text], tmp_path / "job", SMALL, muster=inline(accident, done))
    said: list[str] = []
    result = translate_bulk(translator, [text], tmp_path / "job", SMALL, muster=inline(accident, done), say=said.append)
    assert said[0] == "1 shards are done already; going on with the rest"
    assert joined(result, "in.de") == expected(translator, lines_of(text))
    assert len(done) == len(set(done)) == 3 and set(JobFolder(tmp_path / "job").attempts().values()) == {1}
    again = translate_bulk(translator, [text], tmp_path / "job", SMALL, muster=inline(done=done), say=said.append)
    assert again.records == 0 and len(done) == 3
    assert said[-1].endswith("has all of its 3 shards already; there is nothing to do")


def test_a_lost_worker_costs_a_try_and_a_shard_that_fails_every_time_is_named_and_the_rest_is_done(
    translator: Translator, text: Path, tmp_path: Path
) -> None:
    lost: list[int] = []

    def accident(shard: Shard) -> str | None:
        lost.append(shard.first)
        return "its worker was ended by signal 9" if shard.first == 9 or lost == [1] else None

    said: list[str] = []
    result = translate_bulk(translator, [text], tmp_path / "job", SMALL, muster=inline(accident), say=said.append)
    assert lost.count(1) == 2 and lost.count(9) == SMALL.retries and lost.count(5) == 1
    assert result.failed_shards == {"in.de lines 9 to 11": "its worker was ended by signal 9"}
    assert len(result.outputs("in.de")) == 2 and result.has_failed
    assert "in.de lines 9 to 11 FAILED: its worker was ended by signal 9; the others continue" in said
    assert not translate_bulk(translator, [text], tmp_path / "job", SMALL, muster=inline()).has_failed


def test_a_poisoned_line_is_named_keeps_its_place_and_spoils_no_other(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "in.de"
    file.write_bytes(b"ein Hund\nGift\n\xff\xfe\nein Mann\n" + b"x" * (LONGEST_LINE + 5) + b"\nletzte Zeile\n")
    plain = Translator.translate_lines

    def poisoned(self: Translator, lines: list[str], *rest: object) -> list[Translation]:
        if "Gift" in lines:
            raise RuntimeError("a poisoned line")
        return plain(self, lines, *rest)  # type: ignore[arg-type]

    whole = expected(translator, ["ein Hund", "", "", "ein Mann", "", "letzte Zeile"])
    monkeypatch.setattr(Translator, "translate_lines", poisoned)
    result = translate_bulk(translator, [file], tmp_path / "job", SMALL, muster=inline())
    assert joined(result, "in.de") == whole
    assert list(result.failed_lines) == ["in.de line 2", "in.de line 3", "in.de line 5"]
    reasons = " ".join(result.failed_lines.values())
    assert "a poisoned line" in reasons and "not valid UTF-8" in reasons and "more than 16,777,216 bytes" in reasons
    later = translate_bulk(translator, [file], tmp_path / "job", SMALL, muster=inline())
    assert later.records == 0 and later.failed_lines == result.failed_lines, "a finished job still tells what failed"


def test_a_shard_of_which_every_line_fails_is_given_up_with_the_first_reason(
    translator: Translator, tmp_path: Path
) -> None:
    (tmp_path / "in.de").write_bytes(b"\xff\n" * 30)
    result = translate_bulk(translator, [tmp_path / "in.de"], tmp_path / "job", BulkSettings(), muster=inline())
    (reason,) = result.failed_shards.values()
    assert reason.startswith("more than 20 of its lines fail, the first because in.de line 1 is not valid UTF-8")


def test_rows_of_json_lines_are_kept_letter_by_letter_and_get_one_field_more(
    translator: Translator, tmp_path: Path
) -> None:
    file = tmp_path / "in.jsonl"
    rows = ['{"n": 1.50, "text": "ein Hund"}', "", '{"text":"ein Mann" }', '{"other": 1}', "no", '{"text": "\\ud800"}']
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    result = translate_bulk(translator, [file], tmp_path / "job", SMALL, muster=inline())
    out = joined(result, "in.jsonl").decode().split("\n")
    dog, man = (json.dumps(text, ensure_ascii=False) for text in texts(translator, ["ein Hund", "ein Mann"]))
    assert out[0] == f'{{"n": 1.50, "text": "ein Hund", "translation": {dog}}}'
    assert out[1] == "" and out[2] == f'{{"text":"ein Mann", "translation": {man}}}'
    assert json.loads(out[3]) == {"other": 1, "translation": None, "error": result.failed_lines["in.jsonl line 4"]}
    assert json.loads(out[4])["translation"] is None and len(out) == 7
    assert "has no text in the field text; name another with --field" in result.failed_lines["in.jsonl line 4"]
    assert "is not JSON" in result.failed_lines["in.jsonl line 5"]


def test_every_line_that_json_lines_give_is_json_and_no_field_comes_twice(
    translator: Translator, tmp_path: Path
) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text('{bad}\n{"text": 1, "error": "own"}\n{"error": "own", "translation": 1}\n{}\n', encoding="utf-8")
    result = translate_bulk(translator, [file], tmp_path / "job", SMALL, muster=inline())
    pairs = [json.loads(line, object_pairs_hook=list) for line in joined(result, "in.jsonl").decode().splitlines()]
    reasons = list(result.failed_lines.values())
    assert "is not JSON" in reasons[0] and len(reasons) == 4
    assert pairs[0] == [("translation", None), ("error", reasons[0])]
    assert pairs[1] == [("text", 1), ("error", "own"), ("translation", None)]
    assert pairs[2] == [("translation", None), ("error", reasons[2])]
    assert pairs[3] == [("translation", None), ("error", reasons[3])]


def texts(translator: Translator, lines: list[str]) -> list[str]:
    return [each.text for each in translator.translate_lines(lines, SMALL.policy, SMALL.decoding)]


def test_rows_of_parquet_get_a_column_whatever_their_row_groups(translator: Translator, tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    sources = ["ein Hund", None, "ein Mann", "", "ein Hund", "ein Park", "Leute"]
    table = pyarrow.table({"id": list(range(7)), "de": sources})
    parquet.write_table(table, tmp_path / "in.parquet", row_group_size=3)
    settings = settings_with(form=RowFormat(field="de", into="en", as_json=True))
    result = translate_bulk(translator, [tmp_path / "in.parquet"], tmp_path / "job", settings, muster=inline())
    found = pyarrow.concat_tables([parquet.read_table(each) for each in result.outputs("in.parquet")])
    assert [each.name for each in result.outputs("in.parquet")] == [
        "000000000001-000000000004.parquet",
        "000000000005-000000000007.parquet",
    ]
    assert found.select(["id", "de"]).equals(table)
    objects = [None if each is None else json.loads(each) for each in found.column("en").to_pylist()]
    assert objects[1] is None and objects[0] == objects[4] and objects[0]["exits"]
    assert objects[2]["text"] == texts(translator, ["ein Mann"])[0]
    for form, match in (
        (RowFormat(field="id", into="en"), "the column id of in.parquet holds int64, not text"),
        (RowFormat(field="fr"), "in.parquet has no column fr, but id, de; name one with --field"),
        (RowFormat(field="de", into="id"), "in.parquet has a column id already; name another with --into"),
    ):
        with pytest.raises(UsageError, match=match):
            translate_bulk(translator, [tmp_path / "in.parquet"], tmp_path / "no", settings_with(form=form))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (settings_with(policy="fixed:1"), "was begun with policy = fixed:2, and this is fixed:1"),
        (settings_with(decoding=DecodingOptions(beam=3)), "was begun with beam = 2, and this is 3"),
        (settings_with(shard_lines=5), "was begun with shard-lines = 4, and this is 5"),
        (settings_with(form=RowFormat(as_json=True)), "was begun with json = False, and this is True"),
    ],
)
def test_other_settings_are_refused_and_not_mixed(
    translator: Translator, text: Path, tmp_path: Path, change: BulkSettings, match: str
) -> None:
    translate_bulk(translator, [text], tmp_path / "job", SMALL, muster=inline())
    with pytest.raises(UsageError, match=match):
        translate_bulk(translator, [text], tmp_path / "job", change, muster=inline())


def test_changed_inputs_another_model_and_foreign_folders_are_refused(
    translator: Translator, text: Path, tmp_path: Path
) -> None:
    job, other = tmp_path / "job", tmp_path / "other.de"
    translate_bulk(translator, [text], job, SMALL, muster=inline())
    other.write_bytes(b"ein Hund\n")
    with pytest.raises(UsageError, match=r"was begun with the inputs in\.de, not in\.de, other\.de"):
        translate_bulk(translator, [text, other], job, SMALL, muster=inline())
    aligned = Translator.load(SAMPLES / "runs" / "aligned", threads=1)
    with pytest.raises(UsageError, match=r"was begun with another model \(its weights differs\)"):
        translate_bulk(aligned, [text], job, SMALL, muster=inline())
    text.write_bytes(text.read_bytes().replace(b"Hund", b"Mund"))
    with pytest.raises(UsageError, match=r"in\.de was changed since .* was begun \(its checksum differs\)"):
        translate_bulk(translator, [text], job, SMALL, muster=inline())
    with pytest.raises(UsageError, match="is there and is no folder of a bulk job; name another with --to"):
        translate_bulk(translator, [text], tmp_path, SMALL, muster=inline())


def test_what_a_kill_left_of_writing_the_manifest_makes_no_folder_a_foreign_one(
    translator: Translator, text: Path, tmp_path: Path
) -> None:
    job = tmp_path / "job"
    job.mkdir()
    (job / ".manifest.json.x.tmp").write_bytes(b"{")
    assert joined(translate_bulk(translator, [text], job, SMALL, muster=inline()), "in.de")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


def change(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("damage", [cut, change, Path.unlink, lambda file: file.write_bytes(b"")])
@pytest.mark.parametrize("folder", ["output", "done"])
def test_a_damaged_output_or_receipt_is_named_and_done_again(
    translator: Translator, text: Path, tmp_path: Path, folder: str, damage: Callable[[Path], None]
) -> None:
    job = tmp_path / "job"
    translate_bulk(translator, [text], job, SMALL, muster=inline())
    damaged = sorted((job / folder / "in.de").iterdir())[1]
    damage(damaged)
    said: list[str] = []
    result = translate_bulk(translator, [text], job, SMALL, muster=inline(), say=said.append)
    assert damaged.stem in said[0] and said[0].endswith("; in.de lines 5 to 8 are translated again")
    assert result.records == 4 and joined(result, "in.de") == expected(translator, lines_of(text))


@pytest.mark.parametrize("damage", [cut, change, lambda file: file.write_bytes(b"")])
def test_a_damaged_manifest_and_a_foreign_shard_are_refused_by_name(
    translator: Translator, text: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    job = tmp_path / "job"
    translate_bulk(translator, [text], job, SMALL, muster=inline())
    (job / "output" / "in.de" / "more.txt").write_text("no\n")
    with pytest.raises(UsageError, match=r"more\.txt is no output shard of this job; move it elsewhere"):
        translate_bulk(translator, [text], job, SMALL, muster=inline())
    damage(job / "manifest.json")
    with pytest.raises(UsageError, match=r"manifest\.json is damaged .*; restore it from a copy"):
        translate_bulk(translator, [text], job, SMALL, muster=inline())


def test_a_shard_that_another_process_holds_is_told_waited_for_and_not_done_twice(
    translator: Translator, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, done = tmp_path / "job", list[str]()
    held = next(iter(find_inputs([text])[0].shards(shard_lines=4)))
    orphan = JobFolder(job).beginning(held)

    def accident(shard: Shard) -> str | None:
        if shard.first == 9:  # by then the first was put aside
            orphan.__exit__(None, None, None)
        return None

    with pytest.raises(Killed):
        translate_bulk(translator, [text], job, SMALL, muster=inline(lambda shard: (_ for _ in ()).throw(Killed())))
    assert orphan.__enter__() == 1
    said: list[str] = []
    monkeypatch.setattr("anydepth.bulk.job.REMINDER", 0.0)
    result = translate_bulk(translator, [text], job, SMALL, muster=inline(accident, done), say=said.append)
    told = [each for each in said if "held by" in each]
    assert told[0].startswith(f"in.de lines 1 to 4 are held by process {os.getpid()} on {socket.gethostname()} since 2")
    assert len(told) > 1, "it is said again"
    assert done == ["in.de lines 5 to 8", "in.de lines 9 to 11", "in.de lines 1 to 4"]
    assert joined(result, "in.de") == expected(translator, lines_of(text))


def test_shards_of_very_long_lines_end_early(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes((b"x" * (SHARD_BYTES // 2) + b"\n") * 3)
    sizes = [each.records for each in BulkInput(tmp_path / "in", "in").shards(shard_lines=5000)]
    assert sizes == [2, 1]


def test_a_first_line_that_is_too_long_keeps_its_byte_order_mark_and_so_its_length(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"\xef\xbb\xbf" + b"x" * LONGEST_LINE + b"\n")
    (shard,) = BulkInput(tmp_path / "in", "in").shards(shard_lines=5000)
    assert len(shard.lines[0]) > LONGEST_LINE, "as translate counts it"


def test_parquet_rows_that_are_very_long_make_smaller_shards_whatever_their_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("anydepth.bulk.inputs.SHARD_BYTES", 1000)
    sizes = [600, 600, 10, 10, 2000, 10, 10, 10, 10, 10, 300]
    table = pyarrow.table({"text": ["x" * size for size in sizes]})
    for groups in (11, 4, 1):
        parquet.write_table(table, tmp_path / "in.parquet", row_group_size=groups)
        shards = list(BulkInput(tmp_path / "in.parquet", "in").shards(shard_lines=5))
        assert [(each.first, each.records) for each in shards] == [(1, 2), (3, 3), (6, 5), (11, 1)]


def test_inputs_that_cannot_be_used_are_refused(translator: Translator, tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.de").write_text("ein Hund\n" * 9)
    found = find_inputs([str(tmp_path / "*" / "x.de")])
    assert [each.name for each in found] == ["a/x.de", "b/x.de"]
    for given, match in (
        ([], "there is nothing to translate"),
        ([tmp_path / "no*"], "there is no file .*no"),
        ([tmp_path / "a"], "is a folder; name its files"),
        ([tmp_path / "a" / "x.de"] * 2, "is given twice"),
        (["/dev/null"], "is not a regular file"),
    ):
        with pytest.raises(UsageError, match=match):
            find_inputs(given)
    packed = zstandard.compress((tmp_path / "a" / "x.de").read_bytes() * 1000)
    (tmp_path / "cut.zst").write_bytes(packed[:-4])
    (tmp_path / "no.zst").write_bytes(b"no frame at all")
    (tmp_path / "half.zst").write_bytes(packed + packed[: len(packed) // 2])
    (tmp_path / "head.zst").write_bytes(packed + packed[:5])
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"ein Hund\n" * 99)[:-4])
    for name, match in (
        ("cut.zst", "truncated or not zstd"),
        ("half.zst", "truncated or not zstd"),
        ("head.zst", "truncated or not zstd"),
        ("no.zst", "not zstd"),
        ("cut.gz", "not gzip"),
    ):
        with pytest.raises(CorpusError, match=match):
            translate_bulk(translator, [tmp_path / name], tmp_path / "job", SMALL, muster=inline())
        assert not (tmp_path / "job").exists(), "a refused job leaves nothing"


def test_an_input_that_changes_while_it_is_read_ends_the_job(
    translator: Translator, text: Path, tmp_path: Path
) -> None:
    def accident(shard: Shard) -> str | None:
        if shard.first == 5:
            text.write_bytes(b"something else\n")
        return None

    with pytest.raises(AnydepthError, match=r"in\.de was changed while it was translated"):
        translate_bulk(translator, [text], tmp_path / "job", SMALL, muster=inline(accident))
