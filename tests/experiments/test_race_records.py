"""The files of a race: written as they were read, and refused where they cannot be."""

from pathlib import Path

import pytest
from experiments.races import Invented, record_of, write_heat

from anydepth.errors import UsageError
from anydepth.experiments.race_findings import race_findings
from anydepth.experiments.race_records import HeatRecord, RaceRecord, ratios
from anydepth.experiments.records import read_record, write_record, written
from anydepth.experiments.study_folder import StudyFolder

FULL = Invented("fixed", "fixed:4", 30, (10.0, 11.0, 9.0), 90.0)
TUNED = Invented("tuned", "confidence:0.5", 30, (4.0, 5.0, 3.0), 90.0, decoding=-0.1)


def test_what_was_loaded_is_written_as_it_was(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    heat = write_heat(folder, FULL, TUNED, batches=(1, 32))
    write_record(folder.race_file, race_findings(folder))
    (file,) = folder.heat_records()
    assert file == folder.heat_record("fp32-beam-1")
    assert read_record(file, HeatRecord) == heat
    assert written(read_record(file, HeatRecord)) == file.read_text(encoding="utf-8")
    assert written(read_record(folder.race_file, RaceRecord)) == folder.race_file.read_text(encoding="utf-8")


def test_a_time_that_is_none_is_refused_but_decoding_alone_may_be_lost_in_noise(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    write_heat(folder, TUNED)
    assert (
        read_record(folder.heat_record("fp32-beam-1"), HeatRecord).contestants[0].laps[0].decoding_milliseconds[0] < 0
    )
    with pytest.raises(ValueError, match=r"milliseconds\.0\n +Input should be greater than 0"):
        write_heat(folder, Invented("fixed", "fixed:4", 30, (0.0, 1.0), 90.0))


def test_another_file_is_no_heat(tmp_path: Path) -> None:
    folder = StudyFolder(tmp_path)
    write_heat(folder, FULL)
    write_record(folder.race_file, race_findings(folder))
    with pytest.raises(UsageError, match=r"race\.json is no record of a study \(precision: field required"):
        read_record(folder.race_file, HeatRecord)


def test_a_contestant_is_called_what_it_is() -> None:
    others = [
        Invented("fixed", "fixed:2", 3, (1.0,), 1.0),
        Invented("plain", "fixed:1", 3, (1.0,), 1.0, blocks=1),
        Invented("plain", "fixed:3", 3, (1.0,), 1.0, blocks=3, system="ctranslate2"),
        Invented("deep encoder", "fixed:1", 3, (1.0,), 1.0, blocks=1),
    ]
    labels = [record_of(each, [1]).label for each in (FULL, TUNED, *others)]
    assert labels == ["full depth", "confidence", "fixed exit 2", "1 block", "3 blocks, CTranslate2", "deep encoder"]


def test_a_ratio_is_taken_within_rounds_and_not_of_what_may_be_nothing() -> None:
    assert ratios([1.0, 4.0], [2.0, 2.0]) == [0.5, 2.0]
    assert ratios([1.0, 0.0], [2.0, 2.0]) is None
    assert ratios([1.0, 1.0], [2.0, -0.1]) is None
