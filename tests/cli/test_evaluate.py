"""evaluate: figures that carry their recipe, the same in the table, in JSON and from the translations themselves."""

import hashlib
import json
from pathlib import Path

import pytest
import sacrebleu
from cli.commands import Outcome, anydepth, assert_refused, done
from cli.conftest import SPLITS

COLUMNS = ["policy", "BLEU", "tokenized", "chrF", "AE", "tokens/s"]


@pytest.fixture(scope="module")
def each_exit(run: Path, text: Path) -> Outcome:
    return done("evaluate", run, "--test", text / "test", "--each-exit")


def table_rows(out: str) -> list[list[str]]:
    """The rows of the table, headings left out."""
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == COLUMNS
    return [line for line in lines[1:] if line[0].startswith(("fixed", "uniform"))]


def test_each_exit_has_a_row_whose_average_exit_is_that_exit(each_exit: Outcome) -> None:
    rows = table_rows(each_exit.out)
    assert [row[0] for row in rows] == ["fixed:1", "fixed:2", "fixed:3", "uniform:seed=1"]
    assert [row[4] for row in rows[:3]] == ["1.00", "2.00", "3.00"]
    assert 1 < float(rows[3][4]) < 3


def test_the_table_names_the_settings_that_made_its_figures(each_exit: Outcome, run: Path, text: Path) -> None:
    notes = {line.split()[0]: line for line in each_exit.out.splitlines()[5:]}
    assert "tok:13a" in notes["BLEU"]
    assert "tok:none" in notes["tokenized"]
    assert "nc:6" in notes["chrF"]
    weights = hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()[:12]
    for part in (f"weights {weights}", f"test {text / 'test'} (de-en, {SPLITS['test']} sentences)", "beam 2", "length penalty 1"):
        assert part in notes["recipe"]


def test_talk_goes_to_standard_error_alone(each_exit: Outcome) -> None:
    assert each_exit.err.count("translating 8 sentences with ") == 4
    assert "translating" not in each_exit.out


def test_json_has_the_figures_of_the_table(each_exit: Outcome, run: Path, text: Path) -> None:
    evaluation = json.loads(done("evaluate", run, "--test", text / "test", "--each-exit", "--json").out)
    rows = [
        [
            row["policy"],
            *(f"{row['scores'][name]['value']:.2f}" for name in ("bleu", "tokenized_bleu", "chrf")),
            f"{row['average_exit']:.2f}",
        ]
        for row in evaluation["results"]
    ]
    assert rows == [row[:5] for row in table_rows(each_exit.out)]
    assert evaluation["recipe"]["languages"] == "de-en"
    assert all("tok:13a" in row["scores"]["bleu"]["signature"] for row in evaluation["results"])


def test_policies_are_measured_in_the_order_of_the_request_and_the_output_is_the_last(run: Path, text: Path, tmp_path: Path) -> None:
    options = ["--policy", "fixed:3", "--policy", "fixed:1", "--beam", 1, "--json"]
    results = json.loads(done("evaluate", run, "--test", text / "test", *options, "--output", tmp_path / "out.en").out)["results"]
    assert [(row["policy"], row["average_exit"], row["beam"]) for row in results] == [("fixed:3", 3.0, 1), ("fixed:1", 1.0, 1)]
    written = (tmp_path / "out.en").read_text(encoding="utf-8")
    assert written == done("translate", run, text / "test.de", "--policy", "fixed:1", "--beam", 1).out
    references = (text / "test.en").read_text(encoding="utf-8").splitlines()
    bleu = sacrebleu.corpus_bleu(written.split("\n")[:-1], [references])
    assert results[1]["scores"]["bleu"]["value"] == pytest.approx(bleu.score)


def test_without_a_policy_every_token_takes_full_depth(run: Path, text: Path) -> None:
    (row,) = table_rows(done("evaluate", run, "--test", text / "test").out)
    assert (row[0], row[4]) == ("fixed:3", "3.00")


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_translated(run: Path, text: Path, tmp_path: Path) -> None:
    outcome = anydepth("evaluate", run, "--test", text / "test", "--output", tmp_path / "none" / "out.en")
    assert_refused(outcome, str(tmp_path / "none"))
    assert "translating" not in outcome.err


def test_a_test_set_that_is_missing_or_out_of_step_is_refused(run: Path, own_text: Path) -> None:
    assert_refused(anydepth("evaluate", run, "--test", own_text / "tset"), "there is neither", "tset.de")
    with open(own_text / "test.de", "a", encoding="utf-8") as file:
        file.write("hund\n")
    assert_refused(anydepth("evaluate", run, "--test", own_text / "test"), "test.de has 9 lines but test.en has 8")
