"""Prepared data that has changed is refused where it is first used, and a manifest that tells what
cannot be where it is opened."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from damages import flip
from tiny import prepare_tiny

from anydepth.errors import CorpusError
from anydepth.files import checksums
from anydepth.files.checksums import checked_object, with_checksum
from anydepth.text import prepare as prepare_module
from anydepth.text import prepared, tokens
from anydepth.text.prepared import PreparedData


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    return prepare_tiny(tmp_path_factory.mktemp("prepared"))


def test_prepared_files_are_checked_where_they_are_first_used(data: PreparedData, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(data.folder, tmp_path / "data"))
    opened = PreparedData.open(folder)
    for name, use in (("train.en.offsets", opened.pairs), ("valid.en", opened.references)):
        flip(folder / name)
        with pytest.raises(CorpusError, match=rf"{name} has changed since it was prepared"):
            use(name.partition(".")[0])
    flip(folder / "tokenizer.en.model")
    with pytest.raises(CorpusError, match=r"tokenizer\.en\.model has changed since it was prepared"):
        PreparedData.open(folder)


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PreparedData:
    """Data whose token files count as large, with blocks of 64 bytes."""
    monkeypatch.setattr(prepare_module, "CHECKED_AT_ONCE", 100)
    for module in (checksums, tokens, prepared):
        monkeypatch.setattr(module, "BLOCK", 64)
    return prepare_tiny(tmp_path)


def test_a_block_of_a_large_file_is_checked_when_it_is_first_read(large: PreparedData, data: PreparedData) -> None:
    whole = data.pairs("train")
    file = large.folder / "train.de.tokens"
    assert file.stat().st_size > 4 * 64
    assert {f"train.de.{kind}.sums" for kind in ("tokens", "offsets")} <= set(large.manifest.sums)
    assert large.fingerprint == data.fingerprint
    contents = bytearray(file.read_bytes())
    contents[-1] ^= 1
    file.write_bytes(contents)
    pairs = PreparedData.open(large.folder).pairs("train")
    for number in range(10):
        assert pairs.source(number).tolist() == whole.source(number).tolist()
    with pytest.raises(
        CorpusError,
        match=r"train\.de\.tokens has changed since it was prepared \(the checksum of its bytes from \d+ on differs\); "
        "prepare the data again",
    ):
        pairs.source(39)
    with pytest.raises(CorpusError, match=r"train\.de\.tokens has changed since"):
        _ = PreparedData.open(large.folder).pairs("train").source_side.tokens
    PreparedData.open(large.folder).verify_for_use()  # which does not wait for large files
    with pytest.raises(CorpusError, match=r"train\.de\.tokens has changed since .*SHA-256"):
        PreparedData.open(large.folder).verify()


@pytest.mark.parametrize("name", ["train.en.offsets", "train.en.offsets.sums"])
def test_a_changed_offset_or_checksum_of_a_large_file_is_refused(large: PreparedData, name: str) -> None:
    flip(large.folder / name)
    with pytest.raises(CorpusError, match=rf"{re.escape(name)} has changed since it was prepared"):
        PreparedData.open(large.folder).pairs("train").lengths(0, 40)


def test_a_file_that_became_shorter_while_it_is_open_is_refused(large: PreparedData, data: PreparedData) -> None:
    for opened in (large, PreparedData.open(Path(shutil.copytree(data.folder, large.folder.parent / "small")))):
        pairs = opened.pairs("train")
        os.truncate(opened.folder / "train.en.tokens", 10)
        with pytest.raises(
            CorpusError,
            match=r"train\.en\.tokens was cut short while it was in use; prepare the data again",
        ):
            pairs.target(39)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"files": {"../train.de.tokens": {"size": 1, "sha256": "0"}}},
            r"'\.\./train\.de\.tokens' is not the name of a file",
        ),
        ({"files": {"/etc/passwd": {"size": 1, "sha256": "0"}}}, r"'/etc/passwd' is not the name of a file"),
        ({"files": {}}, r"it does not list tokenizer\.de\.model"),
        ({"files": {"a": {"size": "1", "sha256": "0"}}}, r"files\.a\.size: Input should be a valid integer"),
        ({"source_lang": "../de"}, r"its languages are '\.\./de' and 'en'"),
        ({"source_lang": "en"}, r"its languages are 'en' and 'en'"),
        ({"vocab_sizes": {"de": 300}}, r"it has vocabulary sizes of de"),
        ({"vocab_sizes": {"de": 300, "en": 100_000}}, r"train\.en\.tokens must have .* bytes"),
        (
            {"splits": {"train": {"pairs": 41, "dropped": {}, "tokens": {"de": 1, "en": 1}}}},
            r"train\.de\.offsets must have 336 bytes",
        ),
        (
            {"sums": {"train.de.tokens.sums": {"size": 1, "sha256": "0"}}},
            r"train\.de\.tokens\.sums cannot have 1 bytes for a file of",
        ),
        ({"sums": {"x.sums": {"size": 1, "sha256": "0"}}}, "it does not list x"),
        ({"splits": 3}, r"splits: Input should be an object"),
        ({"joint": None}, r"joint: Input should be a valid boolean"),
    ],
    ids=str,
)
def test_a_manifest_that_tells_what_cannot_be_is_refused_in_one_line(
    data: PreparedData, tmp_path: Path, change: dict[str, object], problem: str
) -> None:
    folder = Path(shutil.copytree(data.folder, tmp_path / "data"))
    values = checked_object((folder / "manifest.json").read_bytes())
    (folder / "manifest.json").write_text(json.dumps(with_checksum(values | change)), encoding="utf-8")
    with pytest.raises(
        CorpusError, match=rf"^{re.escape(str(folder))}/manifest\.json is damaged: {problem}.*; prepare the data again$"
    ) as told:
        PreparedData.open(folder)
    assert "\n" not in str(told.value)


def test_a_manifest_with_a_flipped_bit_is_refused_or_the_same(data: PreparedData, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(data.folder, tmp_path / "data"))
    whole = (folder / "manifest.json").read_bytes()
    refused = 0
    for place in range(0, len(whole), 7):
        (folder / "manifest.json").write_bytes(
            whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :]
        )
        try:
            assert PreparedData.open(folder).manifest == data.manifest
        except CorpusError as error:
            assert "manifest.json" in str(error)
            refused += 1
    assert refused > len(whole) / 7 * 0.7
