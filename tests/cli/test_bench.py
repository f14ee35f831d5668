"""bench: a table, JSON and a picture of the same figures, and requests that measure nothing refused
in one sentence."""

import json
from pathlib import Path

import pytest
from cli.commands import anydepth, assert_refused, done
from cli.conftest import Tuned
from inference.native_searches import needs_native

QUICK = ["--engine", "torch", "--fp32", "--batch", 2, "--beam", 1, "--rounds", 1, "--sentences", 3]


def test_a_run_is_timed_against_ctranslate2(tuned: Tuned, text: Path, tmp_path: Path) -> None:
    files = ["--to", tmp_path / "bench.json", "--picture", tmp_path / "bench.png"]
    outcome = done(
        "bench", tuned.run, "--test", text / "test", "--average-exit", 3, "--against", "ctranslate2", *QUICK, *files
    )
    assert outcome.out.startswith("fp32, beam 1, batch 2: BLEU ")
    assert "ctranslate2  full depth" in outcome.out and "recipe     run " in outcome.out
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
    stored = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    assert [result["system"] for result in stored["results"]] == ["ctranslate2", "torch", "torch"]
    assert stored["results"][2]["policy"] in {point.policy for point in tuned.points}


def test_a_shape_is_timed_with_the_exits_of_a_run_or_with_given_ones(
    exits_run: Path, text: Path, settings: Path
) -> None:
    shape = ["--shape", settings, "--vocab", 30, "--source-length", 4, "--output-length", 3, "--json", *QUICK]
    by_run = json.loads(done("bench", exits_run, "--test", text / "test", "--policy", "fixed:2", *shape).out)
    given = json.loads(done("bench", *shape, "--exits-histogram", "0,1,0").out)
    assert by_run["recipe"]["exit_shares"] == given["recipe"]["exit_shares"] == [0, 1, 0]
    for bench in (by_run, given):
        assert [(result["policy"], result["average_exit"]) for result in bench["results"]] == [
            ("fixed:3", 3),
            ("forced", 2),
        ]


@needs_native
def test_phases_tell_the_shares_of_the_native_engine_with_the_looks_first(run: Path, text: Path) -> None:
    quick = [*QUICK, "--engine", "native", "--policy", "confidence:0.5", "--phases"]
    outcome = done("bench", run, "--test", text / "test", *quick, "--json")
    results = json.loads(outcome.out)["results"]
    assert {result["system"] for result in results if result["phases"] is None} == {"torch"}
    told = [result["phases"] for result in results if result["phases"] is not None]
    assert len(told) == 2, "full depth and confidence"
    for shares in told:
        parts = {phase: share["median"] for phase, share in shares.items()}  # one round, so all of one turn
        looks = parts.pop("looks")
        assert sum(parts.values()) == pytest.approx(1)
        assert looks == pytest.approx(parts["classifiers"] + parts["decisions"]) and 0 < looks < 1
    table = done("bench", run, "--test", text / "test", *quick).out
    assert "share of the time" in table and "native confidence" in table
    assert "share of the time" not in done("bench", run, "--test", text / "test", *quick[:-1]).out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--words-per-piece", 3], "--words-per-piece is of a model with random weights; write --shape CONFIG, too"),
        (["--set", "model.blocks=2"], "--set is of a model with random weights; write --shape CONFIG, too"),
        ([], "a benchmark needs RUN and --test PREFIX, or --shape CONFIG"),
        (["RUN"], "a benchmark needs RUN and --test PREFIX"),
        (["RUN", "--test", "TEST", "--engine", "torhc"], "there is no engine 'torhc'; did you mean torch?"),
        (["RUN", "--test", "TEST", "--batch", "0"], "--batch 0 leaves nothing to measure"),
        (["RUN", "--test", "TEST", "--rounds", "0"], "--rounds 0 leaves nothing to measure"),
        (
            ["RUN", "--test", "TEST", "--against", "marian"],
            "--against marian: a benchmark compares with ctranslate2 and transformers",
        ),
        (["RUN", "--test", "TEST", "--picture", "bench.gif"], "a figure is written as .png, .svg or .pdf"),
        (["RUN", "--test", "TEST", "--to", "/none/bench.json"], "must be a file in a folder that exists"),
        (
            ["RUN", "--test", "TEST", "--engine", "torch", "--phases"],
            "--engine torch leaves it out; write --engine native",
        ),
        (["RUN", "--test", "SOURCE"], "alone.en.gz; give the path without the language ending"),
        (["--shape", "SHAPE"], "--shape draws exits from what a policy does: give RUN, --test PREFIX and one --policy"),
        (["--shape", "SHAPE", "--exits-histogram", "1,2"], "--exits-histogram has 2 shares but the shape has 3 exits"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    run: Path, text: Path, settings: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    (tmp_path / "alone.de").write_text("der hund\n", encoding="utf-8")
    places = {"RUN": run, "TEST": text / "test", "SOURCE": tmp_path / "alone", "SHAPE": settings}
    assert_refused(anydepth("bench", *(places.get(each, each) for each in arguments)), words)
