"""evaluate: figures that carry their recipe, the same in the table, in JSON and from the
translations themselves."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import sacrebleu
from cli.commands import Outcome, anydepth, assert_refused, done
from cli.conftest import SPLITS

COLUMNS = ["policy", "BLEU", "tokenized", "chrF", "AE", "MFLOPs/token", "% of full depth", "tokens/s"]


@pytest.fixture(scope="module")
def each_exit(run: Path, text: Path) -> Outcome:
    return done("evaluate", run, "--test", text / "test", "--each-exit")


def table_rows(out: str, *, columns: list[str] = COLUMNS) -> list[list[str]]:
    """The rows of the table, headings left out."""
    head, *lines = out.splitlines()
    assert [heading.strip() for heading in head.split("  ") if heading.strip()] == columns
    return [line.split() for line in lines if line.startswith(("fixed", "uniform", "geometric"))]


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
    for part in (
        f"weights {weights}",
        f"test {text / 'test'} (de-en, {SPLITS['test']} sentences)",
        "beam 2",
        "length penalty 1",
    ):
        assert part in notes["recipe"]


def test_a_deeper_exit_costs_more_up_to_the_whole(each_exit: Outcome) -> None:
    shares = [float(row[6]) for row in table_rows(each_exit.out)]
    assert shares[0] < shares[1] < shares[2] == 100
    assert shares[0] < shares[3] < 100


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
            f"{row['mflops_per_token']:.3f}",
            f"{100 * row['flops_share']:.1f}",
        ]
        for row in evaluation["results"]
    ]
    assert rows == [row[:7] for row in table_rows(each_exit.out)]
    assert evaluation["recipe"]["languages"] == "de-en"
    assert all("tok:13a" in row["scores"]["bleu"]["signature"] for row in evaluation["results"])


def test_policies_are_measured_in_the_order_of_the_request_and_the_output_is_the_last(
    run: Path, text: Path, tmp_path: Path
) -> None:
    options = ["--policy", "fixed:3", "--policy", "fixed:1", "--beam", 1, "--json"]
    results = json.loads(done("evaluate", run, "--test", text / "test", *options, "--output", tmp_path / "out.en").out)[
        "results"
    ]
    assert [(row["policy"], row["average_exit"], row["beam"]) for row in results] == [
        ("fixed:3", 3.0, 1),
        ("fixed:1", 1.0, 1),
    ]
    written = (tmp_path / "out.en").read_text(encoding="utf-8")
    assert written == done("translate", run, text / "test.de", "--policy", "fixed:1", "--beam", 1).out
    references = (text / "test.en").read_text(encoding="utf-8").splitlines()
    bleu = sacrebleu.corpus_bleu(written.split("\n")[:-1], [references])
    assert results[1]["scores"]["bleu"]["value"] == pytest.approx(bleu.score)


def test_without_a_policy_every_token_takes_full_depth(run: Path, text: Path) -> None:
    (row,) = table_rows(done("evaluate", run, "--test", text / "test").out)
    assert (row[0], row[4], row[6]) == ("fixed:3", "3.00", "100.0")


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_translated(
    run: Path, text: Path, tmp_path: Path
) -> None:
    outcome = anydepth("evaluate", run, "--test", text / "test", "--output", tmp_path / "none" / "out.en")
    assert_refused(outcome, str(tmp_path / "none"))
    assert "translating" not in outcome.err


def test_a_test_set_that_is_missing_or_out_of_step_is_refused(run: Path, own_text: Path) -> None:
    assert_refused(anydepth("evaluate", run, "--test", own_text / "tset"), "there is neither", "tset.de")
    with open(own_text / "test.de", "a", encoding="utf-8") as file:
        file.write("hund\n")
    assert_refused(anydepth("evaluate", run, "--test", own_text / "test"), "test.de has 9 lines but test.en has 8")


def test_json_has_everything_that_was_measured_and_its_recipe(exits_run: Path, text: Path) -> None:
    options = ["--policy", "geometric", "--against", "fixed:1", "--executed", "--beam", 1, "--json"]
    evaluation = json.loads(done("evaluate", exits_run, "--test", text / "test", *options).out)
    assert evaluation.keys() == {"recipe", "results"}
    assert evaluation["recipe"].keys() == {
        "run",
        "weights",
        "test",
        "languages",
        "anydepth",
        "torch",
        "threads",
        "engine",
        "against",
        "wish",
    }
    assert evaluation["recipe"]["against"] == "fixed:1"
    (row,) = evaluation["results"]
    assert row.keys() == {
        *("policy", "scores", "average_exit", "exit_counts", "mflops_per_token", "flops_share", "tokens_per_second"),
        *("executed_mflops_per_token", "comparison", "sentences", "tokens", "beam", "length_penalty"),
        *("vocabulary", "words"),
    }
    assert row["comparison"].keys() == {"difference", "low", "high", "p_value", "samples", "seed", "signature"}
    assert row["policy"] == "geometric:0.5"
    assert sum(row["exit_counts"]) == row["tokens"]
    assert row["average_exit"] == pytest.approx(
        sum(n * count for n, count in enumerate(row["exit_counts"], 1)) / row["tokens"]
    )


def test_executed_flops_have_a_column_and_without_padding_are_those_of_the_formula(run: Path, text: Path) -> None:
    options = ["--policy", "fixed:2", "--policy", "uniform", "--executed", "--beam", 1, "--batch-tokens", 1]
    rows = table_rows(
        done("evaluate", run, "--test", text / "test", *options).out, columns=[*COLUMNS, "executed MFLOPs/token"]
    )
    assert [row[8] for row in rows] == [row[5] for row in rows]
    assert len({row[5] for row in rows}) == 2


def test_a_policy_is_compared_with_another_sentence_by_sentence(run: Path, text: Path) -> None:
    options = ["--policy", "fixed:1", "--policy", "fixed:3", "--beam", 1]
    outcome = done("evaluate", run, "--test", text / "test", *options, "--against", "fixed:3")
    rows = table_rows(outcome.out, columns=[*COLUMNS, "BLEU against fixed:3"])
    assert outcome.err.splitlines()[0] == "translating 8 sentences with fixed:3, to compare with"
    assert rows[1][8:] == ["+0.00", "[+0.00,", "+0.00]", "p=1.000"]
    assert float(rows[0][8]) == pytest.approx(float(rows[0][1]) - float(rows[1][1]), abs=0.011)


def test_lines_of_another_system_are_compared_as_its_policy_would_be(run: Path, text: Path, tmp_path: Path) -> None:
    rival = tmp_path / "rival.en"
    rival.write_text(done("translate", run, text / "test.de", "--policy", "fixed:1", "--beam", 1).out, encoding="utf-8")
    by_file, by_policy = (
        json.loads(done("evaluate", run, "--test", text / "test", "--beam", 1, "--json", "--against", against).out)
        for against in (rival, "fixed:1")
    )
    assert by_file["results"][0]["comparison"] == by_policy["results"][0]["comparison"]
    assert by_file["recipe"]["against"] == str(rival)


@pytest.mark.parametrize(
    ("against", "words"),
    [
        ("short.en", ["short.en has 2 lines, but the test set has 8 sentences"]),
        ("none.en", ["none.en is no file, and as a policy: there is no policy"]),
        ("geometric", ["not trained with the geometric halting module"]),
    ],
)
def test_a_rival_that_cannot_be_compared_with_is_refused(
    run: Path, text: Path, tmp_path: Path, against: str, words: list[str]
) -> None:
    (tmp_path / "short.en").write_text("one\ntwo\n", encoding="utf-8")
    place = tmp_path / against if "." in against else against
    outcome = anydepth("evaluate", run, "--test", text / "test", "--against", place)
    assert_refused(outcome, *words)
    assert "translating" not in outcome.err


@pytest.mark.parametrize("name", ["test.de", "test.en", "link", "against", "config.toml"])
def test_output_never_goes_over_what_is_measured(own_run: Path, text: Path, tmp_path: Path, name: str) -> None:
    for language in ("de", "en"):
        shutil.copy(text / f"test.{language}", tmp_path)
    (tmp_path / "link").symlink_to("test.en")
    shutil.copy(tmp_path / "test.en", tmp_path / "against")
    output = own_run / name if name == "config.toml" else tmp_path / name
    before = output.read_bytes()
    outcome = anydepth(
        "evaluate", own_run, "--test", tmp_path / "test", "--against", tmp_path / "against", "--output", output
    )
    assert_refused(outcome, f"--output {output} is a file", "choose another")
    if name != "against":
        assert_refused(
            anydepth("bench", own_run, "--test", tmp_path / "test", "--to", output), f"--to {output} is a file"
        )
    assert output.read_bytes() == before
