"""What is damaged or foreign is refused in one sentence that names the file."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from report.studies import change, read_json

from anydepth.errors import UsageError
from anydepth.report.study_records import read_study

RUN = "records/runs/aligned.json"
SAMPLE = {"source": "\uffff and \x7f", "reference": "", "tokens": ["a"], "exits": [1], "scores": [0.5]}


@pytest.fixture
def study(pristine: Path, tmp_path: Path) -> Path:
    """One file of each kind."""
    for name in [
        "study.json",
        RUN,
        *(str(path.relative_to(pristine)) for path in (pristine / "records").glob("*.json")),
    ]:
        (tmp_path / "study" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(pristine / name, tmp_path / "study" / name)
    return tmp_path / "study"


def refusal(folder: Path) -> str:
    with pytest.raises(UsageError) as caught:
        read_study(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_folder_without_a_plan_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape(f"{tmp_path} is no study: it has no study.json; give the folder")):
        read_study(tmp_path)


def test_a_study_without_records_is_read_as_one_where_all_is_missing(study: Path) -> None:
    for path in (study / "records").rglob("*.json"):
        path.unlink()
    found = read_study(study)
    assert (found.runs, found.trends, found.comparisons, found.tokens, found.positions, found.scores, found.cost) == (
        {},
        *[None] * 6,
    )
    assert found.blocks == 2  # from the configuration


@pytest.mark.parametrize(
    "name",
    [
        "study.json",
        RUN,
        *(f"records/{kind}.json" for kind in ("trends", "comparisons", "tokens", "positions", "scores", "cost")),
    ],
)
@pytest.mark.parametrize("damage", ["cut", "list", "format", "nan", "bytes"])
def test_a_damaged_file_is_named(study: Path, name: str, damage: str) -> None:
    path = study / name
    whole = read_json(path)
    if damage == "cut":
        path.write_text(json.dumps(whole)[:-9], encoding="utf-8")
    elif damage == "list":
        path.write_text(json.dumps([whole]), encoding="utf-8")
    elif damage == "format":
        path.write_text(json.dumps(whole | {"format": 2}), encoding="utf-8")
    elif damage == "nan":
        path.write_text(json.dumps(whole | {"other": float("nan")}), encoding="utf-8")
    else:
        path.write_bytes(b"\xff\xfe{}")
    message = refusal(study)
    assert message.startswith(str(path))
    expected = {
        "cut": "is no record of a study: it is not JSON",
        "list": "is no record of a study: it should hold one JSON object; restore it from a copy or make the study "
        "again in a new folder",
        "format": "has format 2 but this version reads format 1",
        "nan": "it has NaN, which is no number",
        "bytes": "is no record of a study: it is not",
    }[damage]
    assert expected in message


@pytest.mark.parametrize(
    ("name", "keys", "value", "match"),
    [
        (RUN, ("measurements", 0, "bleu"), "26", "measurements.0.bleu: input should be a valid number"),
        (RUN, ("measurements", 0, "bleu"), 1e999, "is no record of a study"),
        (RUN, ("measurements", 0, "low"), 99.0, "the interval of fixed:1 goes from 99 down to"),
        (RUN, ("measurements", 0, "low"), None, "fixed:1 has not all of bleu, low and high"),
        (
            RUN,
            ("measurements", 0),
            {"split": "test", "kind": "fixed", "policy": "fixed:1", "family": "fixed"},
            "neither bleu nor average",
        ),
        (RUN, ("measurements", 0, "exit_counts"), [1, 2, 3], "fixed:1 counts 3 exits but the model has 2"),
        (
            RUN,
            ("measurements", 0, "average_exit"),
            -50.0,
            "exit of fixed:1 is -50 and must lie between 1 and 2",
        ),
        (RUN, ("measurements", 0, "average_exit"), 2.5, "exit of fixed:1 is 2.5 and must lie between 1 and 2"),
        (RUN, ("role",), "friend", "role: input should be 'aligned', 'mixed'"),
        (RUN, ("measurements", 0, "valid_bleu"), "26", "measurements.0.valid_bleu: input should be a valid number"),
        (RUN, ("training_seed",), "one", "training_seed: input should be a valid integer"),
        (RUN, ("threads",), 1.5, "threads: input should be a valid integer"),
        (RUN, ("revision",), 7, "revision: input should be a valid string"),
        (RUN, ("run",), "mixed-1", r'holds the run "mixed-1" and should be mixed-1.json; rename it'),
        ("records/tokens.json", ("samples", 0, "exits"), [1], "13 tokens have 1 exits and 13 scores"),
        ("records/tokens.json", ("samples", 0, "exits"), [3] * 13, "exit 3 does not lie between 1 and 2"),
        ("records/tokens.json", ("samples", 0, "scores"), [-0.5] * 13, "greater than or equal to 0"),
        ("records/tokens.json", ("samples",), [], "at least 1 item"),
        (
            "records/positions.json",
            ("models", 1, "end"),
            [100.0],
            "a model of 2 blocks has 2 shares at the start and 1 at the end",
        ),
        ("records/scores.json", ("models", 0, "counts"), [[1] * 10], "are not 2 rows of 10"),
        ("records/scores.json", ("models", 0, "counts"), [[0] * 10] * 2, "are all 0"),
        ("records/trends.json", ("trends", 0, "verdict"), "perhaps", "trends.0.verdict"),
        ("study.json", ("steps", 0, "state"), "lost", "steps.0.state"),
        ("study.json", ("seeds",), [], "seeds: list should have at least 1 item"),
    ],
)
def test_a_value_that_cannot_be_is_refused(
    study: Path, name: str, keys: tuple[Any, ...], value: Any, match: str
) -> None:
    change(study / name, *keys, to=value)
    message = refusal(study)
    assert message.startswith(str(study / name))
    assert re.search(match, message), message


def test_a_record_that_cannot_be_opened_is_named(study: Path) -> None:
    path = study / "records" / "cost.json"
    path.unlink()
    path.mkdir()
    with pytest.raises(UsageError, match=re.escape(f"cannot read {path}: ")):
        read_study(study)


def test_characters_that_no_page_can_hold_are_replaced(study: Path) -> None:
    path = study / "records" / "tokens.json"
    path.write_text(
        path.read_text(encoding="utf-8").replace("Three children", r"\ud800 \u0000 \u000b \uffff"), encoding="utf-8"
    )
    found = read_study(study)
    assert found.tokens is not None
    assert found.tokens.samples[0].reference.startswith("\ufffd \ufffd \ufffd \ufffd")


def test_such_characters_are_replaced_where_they_are_not_escaped(study: Path) -> None:
    path = study / "records" / "tokens.json"
    whole = json.dumps({"format": 1, "run": "r", "policy": "p", "blocks": 1, "samples": [SAMPLE]}, ensure_ascii=False)
    assert "\\" not in whole
    path.write_text(whole, encoding="utf-8")
    found = read_study(study)
    assert found.tokens is not None and found.tokens.samples[0].source == "\ufffd and \ufffd"


def test_a_variant_with_a_dot_in_its_name_has_its_seeds(pristine_seeds: Path) -> None:
    study = read_study(pristine_seeds)
    assert [run.run for run in study.of("gamma-0.3")] == ["gamma-0.3", "gamma-0.3.2"]
    found = [study.variant_of(name) for name in ("gamma-0.3", "gamma-0.3.2", "unknown")]
    assert found == ["gamma-0.3", "gamma-0.3", "unknown"]
