"""score-exits: a table or JSON on standard output, talk on standard error, and a run that learns
from the scores."""

import json
from pathlib import Path

from cli.commands import anydepth, assert_refused, done

TEACH = ["--set", "exits.halting=sequence", "--set", "exits.oracle=bleu", "--set", "training.updates=5"]


def test_scores_are_made_summarised_and_learned_from(own_run: Path, text: Path, tmp_path: Path) -> None:
    assert_refused(
        anydepth("train", "--from", own_run, "--to", tmp_path / "taught", *TEACH),
        'exits.oracle = "bleu" learns from the scores of the exits of',
        f"`anydepth score-exits {own_run}`",
    )
    made = done("score-exits", own_run, "--sentences", 20)
    head, fixed, *_, recipe = made.out.splitlines()
    assert head.split() == ["bleu", "AE", "exit", "1", "exit", "2", "exit", "3"]
    assert fixed.startswith("every exit")
    assert recipe.startswith("mean sentence bleu of 20 training pairs, beam 1, nrefs:1|")
    assert made.err.splitlines()[-1].startswith(
        f"{own_run}/exit_scores.safetensors has the bleu of 20 training and 6 validation pairs"
    )
    again = done("score-exits", own_run, "--sentences", 20)
    assert again.out == made.out
    assert "there is nothing to do" in again.err
    done("train", "--from", own_run, "--to", tmp_path / "taught", *TEACH)
    shown = json.loads(
        done("evaluate", tmp_path / "taught", "--test", text / "test", "--policy", "sequence", "--json").out
    )
    assert shown["results"][0]["policy"] == "sequence"


def test_json_has_the_figures_of_the_table(own_run: Path) -> None:
    values = json.loads(done("score-exits", own_run, "--sentences", 9, "--metric", "chrf", "--beam", 2, "--json").out)
    assert (values["metric"], values["beam"], values["sentences"], len(values["exit_scores"])) == ("chrf", 2, 9, 3)
    assert all(sum(choice["exit_counts"]) == 9 for choice in values["choices"])


def test_wrong_wishes_are_refused(own_run: Path) -> None:
    assert_refused(anydepth("score-exits", own_run, "--metric", "ter"), "--metric ter is unknown; use bleu or chrf")
    done("score-exits", own_run, "--sentences", 3)
    assert_refused(
        anydepth("score-exits", own_run, "--sentences", 3, "--metric", "chrf"), "metric = bleu, now chrf", "--overwrite"
    )
