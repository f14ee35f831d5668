"""A folder's seal: every file is known by its checksum, whenever a write is killed."""

import json
import signal
from pathlib import Path

import pytest
from tiny import exit_code_of, in_own_process, signal_at_write

from anydepth.errors import RunError
from anydepth.files.checksums import checked_object, file_hash, with_checksum
from anydepth.files.seal import ABSENT, Seal, is_sealed


def write_and_be_killed(folder: Path, name: str, write: int) -> None:
    signal_at_write(signal.SIGKILL, write)
    with Seal(folder).replacing(folder / name) as temporary:
        temporary.write_bytes(b"new")


@pytest.mark.parametrize("old", [b"old", None], ids=["replaced", "new"])
def test_a_write_that_is_killed_anywhere_leaves_a_file_that_the_seal_lists(tmp_path: Path, old: bytes | None) -> None:
    path = tmp_path / "origin.json"
    if old is not None:
        path.write_bytes(old)
    seal = Seal(tmp_path)
    seal.make()
    seen = []
    for write in range(1, 8):
        code = exit_code_of(in_own_process(write_and_be_killed, tmp_path, path.name, write))
        assert code == (0 if write == 7 else -signal.SIGKILL)
        seen.append(seal.read(path) if seal.has(path) else None)
    assert seen == [old] * 4 + [b"new"] * 3
    assert seal.contents().files == {path.name: [file_hash(path)]}, "nothing of the old contents is left"


def remove_and_be_killed(folder: Path, name: str, write: int) -> None:
    signal_at_write(signal.SIGKILL, write)
    Seal(folder).remove([folder / name])


def test_a_removal_that_is_killed_anywhere_leaves_the_file_or_none(tmp_path: Path) -> None:
    seal, path = Seal(tmp_path), tmp_path / "best.safetensors"
    path.write_bytes(b"old")
    seal.make()
    seen = []
    for write in range(1, 7):
        code = exit_code_of(in_own_process(remove_and_be_killed, tmp_path, path.name, write))
        seen.append((code == 0, seal.has(path)))
    assert seen == [*[(False, True)] * 3, *[(False, False)] * 2, (True, False)]
    assert seal.contents().files == {}


def test_a_file_from_elsewhere_is_refused(tmp_path: Path) -> None:
    seal, path = Seal(tmp_path), tmp_path / "operating_points.json"
    seal.make()
    path.write_text("{}", encoding="utf-8")
    for use in (seal.has, seal.check, seal.read):
        with pytest.raises(
            RunError, match=r"operating_points\.json was not written by this run; remove it, or vouch for it"
        ):
            use(path)


def test_a_reader_follows_a_writer_that_replaces_the_file_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal, path = Seal(tmp_path), tmp_path / "origin.json"
    path.write_bytes(b"old")
    seal.make()
    stale = seal.contents()
    with seal.replacing(path) as temporary:
        temporary.write_bytes(b"new")
    contents = [stale]
    fresh = Seal.contents
    monkeypatch.setattr(Seal, "contents", lambda self: contents.pop() if contents else fresh(self))
    assert seal.read(path) == b"new"


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"files": []},
        {"files": {"a": "b"}},
        {"files": {"a": []}},
        {"metrics": [1]},
        {"metrics": [-1, "a"]},
        {"metrics": None},
    ],
    ids=str,
)
def test_a_seal_that_says_what_cannot_be_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    seal = Seal(tmp_path)
    seal.make()
    seal.file.write_text(json.dumps(with_checksum(checked_object(seal.file.read_bytes()) | change)), encoding="utf-8")
    with pytest.raises(RunError, match=r"seal\.json is damaged \(.*\)"):
        seal.contents()


def test_what_is_sealed_is_what_a_verb_reads() -> None:
    sealed = [
        "config.toml",
        "data.json",
        "tokenizer.model",
        "state.safetensors",
        "checkpoints/update-0000003.safetensors",
    ]
    loose = [
        "seal.json",
        "train.log",
        "metrics.jsonl",
        "tuning.jsonl",
        ".state.safetensors.tmp",
        "export/onnx/manifest.json",
    ]
    assert [is_sealed(name) for name in sealed + loose] == [True] * len(sealed) + [False] * len(loose)
    assert file_hash(Path(__file__)) != ABSENT
