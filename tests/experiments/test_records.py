"""The files of a study: what was loaded is written as it was, value by value and key by key."""

import json
from pathlib import Path

import pytest
from experiments.studies import small_study

from anydepth.bench.bench_recipe import versions
from anydepth.errors import UsageError
from anydepth.experiments.race_records import HeatRecord, RaceRecord
from anydepth.experiments.records import (
    FORMAT,
    ComparisonsRecord,
    CostRecord,
    MeasurementRecord,
    PlanRecord,
    PositionsRecord,
    RunRecord,
    ScoresRecord,
    StoredFile,
    TokensRecord,
    TrendsRecord,
    VersionsRecord,
    read_record,
    write_record,
    written,
)
from anydepth.experiments.study_folder import StudyFolder

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def kinds_of(folder: StudyFolder) -> dict[Path, type[StoredFile]]:
    """The type of every file of a study that is there."""
    kinds: dict[Path, type[StoredFile]] = {
        folder.study_file: PlanRecord,
        folder.trends_file: TrendsRecord,
        folder.comparisons_file: ComparisonsRecord,
        folder.tokens_file: TokensRecord,
        folder.positions_file: PositionsRecord,
        folder.scores_file: ScoresRecord,
        folder.cost_file: CostRecord,
        folder.race_file: RaceRecord,
        **dict.fromkeys(folder.heat_records(), HeatRecord),
        **dict.fromkeys(folder.run_records(), RunRecord),
    }
    return {file: kind for file, kind in kinds.items() if file.exists()}


@pytest.mark.parametrize("study", ["demo", "multi30k", "race"])
def test_the_committed_files_are_written_again_byte_for_byte(study: str) -> None:
    kinds = kinds_of(StudyFolder(RESULTS / study))
    assert len(kinds) > 50 or study != "demo"
    assert set(kinds) == {RESULTS / study / "study.json", *(RESULTS / study / "records").rglob("*.json")}
    for file, kind in kinds.items():
        assert written(read_record(file, kind)) == file.read_text(encoding="utf-8"), file


def test_a_value_that_was_not_given_is_not_written(tmp_path: Path) -> None:
    measurement = MeasurementRecord(
        average_exit=2.5, valid_bleu=None, split="test", kind="fixed", policy="fixed:1", family="fixed"
    )
    record = RunRecord(
        format=FORMAT, run="a", variant="a", seed=1, role="aligned", blocks=4, measurements=[measurement]
    )
    write_record(tmp_path / "new" / "a.json", record)
    stored = json.loads((tmp_path / "new" / "a.json").read_text(encoding="utf-8"))
    assert list(stored) == ["format", "run", "variant", "seed", "role", "blocks", "measurements"]
    assert list(stored["measurements"][0]) == ["split", "kind", "policy", "family", "valid_bleu", "average_exit"]
    assert read_record(tmp_path / "new" / "a.json", RunRecord) == record


def test_a_record_of_another_format_is_refused(tmp_path: Path) -> None:
    stored = json.loads(written(small_study("table1").record([])))
    (tmp_path / "study.json").write_text(json.dumps(stored | {"format": 2}), encoding="utf-8")
    with pytest.raises(UsageError, match=r"study\.json is no record of a study \(format: input should be 1\)"):
        read_record(tmp_path / "study.json", PlanRecord)


def test_every_version_that_is_told_has_a_field() -> None:
    assert set(versions()) <= set(VersionsRecord.model_fields)
