"""Prepared data that has changed is refused where it is first used, and a manifest that tells what
cannot be where it is opened."""

import json
import re
import shutil
from pathlib import Path

import pytest
from damages import flip
from tiny import prepare_tiny

from anydepth.errors import CorpusError
from anydepth.files.checksums import checked_object, with_checksum
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
