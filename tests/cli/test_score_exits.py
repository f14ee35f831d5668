"""score-exits: a table or JSON on standard output, talk on standard error, and a run that learns
from the scores."""

import json
import sys
from pathlib import Path

import pytest
from bulk.crews import inline
from cli.commands import anydepth, assert_refused, done

from anydepth.bleu_oracle.score_work import ScorePart
from anydepth.bleu_oracle.store import ScoreStore
from anydepth.bleu_oracle.table import ScoreTable
from anydepth.errors import Interrupted
from anydepth.model.checkpoint import load_tensors

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


def test_the_number_of_workers_and_threads_changes_no_score(
    own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outs, found, parts = [], [], []
    add = ScoreStore.add

    def counting(store: ScoreStore, split: str, table: ScoreTable) -> None:
        parts.append(split)
        add(store, split, table)

    monkeypatch.setattr(ScoreStore, "add", counting)
    for options in ((), ("--workers", 1), ("--workers", 2, "--threads", 2)):
        outs.append(done("score-exits", own_run, "--sentences", 30, "--json", *options).out)
        found.append(load_tensors(own_run / "exit_scores.safetensors"))
        (own_run / "exit_scores.safetensors").replace(tmp_path / f"{len(outs)}")
        done("seal", own_run)
    assert sorted(parts) == ["train"] * 6 + ["valid"] * 3, "three parts each time"
    assert outs[0] == outs[1] == outs[2]
    (tensors, notes), *others = found
    assert tensors["train.scores"].unique().numel() > 1, "scores differ, or this shows little"
    for mine, own_notes in others:
        assert own_notes == notes and list(mine) == list(tensors)
        assert all(mine[name].equal(tensors[name]) for name in tensors)


def test_a_part_that_fails_is_named_with_exit_code_1_and_ctrl_c_leaves_a_sentence(
    own_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(part: ScorePart) -> str | None:
        if part.split == "valid":
            raise Interrupted("stopped")
        return None

    def crew_with(accident: object) -> None:
        monkeypatch.setattr("anydepth.bulk.local_crew.on_this_machine", lambda **options: inline(accident))  # type: ignore[arg-type]

    crew_with(lambda part: "its worker was ended by signal 9" if part.split == "train" else None)
    outcome = anydepth("score-exits", own_run, "--sentences", 9, "--retries", 2)
    assert_refused(outcome, "1 part could not be scored: 9 train pairs between ", "ended by signal 9; ", code=1)
    assert outcome.err.count("; trying again") == 1
    crew_with(interrupted)
    stopped = anydepth("score-exits", own_run, "--sentences", 8, "--metric", "chrf", "--overwrite")
    assert stopped.code == 130 and stopped.out == ""
    assert stopped.err.splitlines()[-1] == (
        f"stopped; what is scored stays in {own_run}, and the same command goes on with the rest"
    )
    crew_with(lambda part: None)
    again = done("score-exits", own_run, "--sentences", 8, "--metric", "chrf")
    assert "8 training and 0 validation pairs are scored already; going on with the rest" in again.err


def test_a_cluster_without_ray_and_ray_where_it_is_missing_are_refused_before_a_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["score-exits", tmp_path / "no-run"]
    assert_refused(anydepth(*command, "--address", "here:1"), "--address here:1 is of a Ray cluster; give --on ray")
    monkeypatch.setitem(sys.modules, "ray", None)
    assert_refused(anydepth(*command, "--on", "ray"), "pip install 'anydepth[ray]'")


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
