"""The folder that a run was adopted from in a benchmark: CTranslate2's own conversion and
transformers translate it as we do, and a folder that is another now is not believed."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from evaluation.translators import make_run, quiet
from marian_folders import changed_json, save_marian, save_opus, small_pairs

from anydepth.bench.bench_table import bench_table
from anydepth.bench.benchmark import bench_run, check_packages, takes_conversion
from anydepth.bench.contestants import CTRANSLATE2
from anydepth.bench.field import BenchSettings
from anydepth.bench.original_model import TRANSFORMERS, find_original, odd_for_conversion, read_original
from anydepth.errors import UsageError
from anydepth.inference.adopt.adoption import adopt
from anydepth.runs.run import Run

BOTH = BenchSettings(
    engines=("torch",),
    precisions=("fp32",),
    batches=(1, 3),
    beams=(1,),
    rounds=1,
    sentences=7,
    against=(CTRANSLATE2, TRANSFORMERS),
)


@pytest.fixture(scope="module")
def adopted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, the run that was adopted from it, and a test set."""
    place = tmp_path_factory.mktemp("adopted")
    save_opus(place / "opus", search={"num_beams": 2, "max_length": 30})
    adopt(place / "opus", place / "run", say=quiet)
    for side, language in enumerate(("de", "en")):
        text = "".join(f"{pair[side]}\n" for pair in small_pairs()[:9])
        (place / f"test.{language}").write_text(text, encoding="utf-8")
    return place


def test_everyone_translates_the_original_alike_in_the_same_rounds(adopted: Path) -> None:
    said: list[str] = []
    settings = replace(BOTH, precisions=("fp32", "int8"))
    bench = bench_run(adopted / "run", str(adopted / "test"), [], settings, say=said.append)
    assert [(each.system, each.precision) for each in bench.results[:4]] == [
        (CTRANSLATE2, "fp32"),
        (CTRANSLATE2, "int8"),
        (TRANSFORMERS, "fp32"),
        ("torch", "fp32"),
    ]
    assert "transformers takes part in fp32 alone: it has no 8-bit products on a CPU" in said
    exact = [each for each in bench.results if each.precision == "fp32"]
    assert len({(each.tokens, each.bleu) for each in exact}) == 1 and len(exact) == 6
    assert all(each.exit_counts == [0, 0, each.tokens] and len(each.seconds) == 1 for each in exact)
    assert exact[0].tokens > 2 * BOTH.sentences, "else little was translated"
    assert bench.recipe.original == str(adopted / "opus") and "transformers" in bench.recipe.versions
    assert f"others run {adopted / 'opus'}" in bench_table(bench)


def test_a_folder_that_is_gone_or_another_now_is_told_and_not_believed(adopted: Path, tmp_path: Path) -> None:
    shutil.copytree(adopted / "opus", tmp_path / "opus")
    run, said = adopt(tmp_path / "opus", tmp_path / "run", say=quiet), list[str]()
    changed_json(tmp_path / "opus" / "generation_config.json", num_beams=3)
    changed = r"opus is not as it was when .*run was adopted from it"
    with pytest.raises(UsageError, match=rf"{changed}; give the folder of the MarianMT model with --original DIR"):
        find_original(run, None, is_needed=True, say=quiet)
    assert find_original(run, tmp_path / "opus", is_needed=True, say=quiet) is not None, "told, it is taken"
    shutil.rmtree(tmp_path / "opus")
    with pytest.raises(UsageError, match=r"opus, which .*run was adopted from, is no longer there; give the folder"):
        find_original(run, None, is_needed=True, say=quiet)
    assert find_original(run, None, is_needed=False, say=said.append) is None
    assert said[0].endswith("so CTranslate2 takes the run's own model; --original DIR names the folder")


def test_a_run_that_was_not_adopted_has_no_original_and_none_of_another_vocabulary(
    adopted: Path, tmp_path: Path
) -> None:
    own, said = make_run(tmp_path), list[str]()
    assert find_original(own, None, is_needed=False, say=said.append) is None and said == []
    with pytest.raises(UsageError, match=r"does not tell from which folder it was adopted; give the folder"):
        find_original(own, None, is_needed=True, say=quiet)
    with pytest.raises(UsageError, match=r"--original .*opus has another vocabulary than .*; give the folder that it"):
        read_original(own, adopted / "opus")


def test_a_conversion_that_would_be_wrong_is_taken_only_when_it_is_asked_for(adopted: Path) -> None:
    original, said = read_original(Run(adopted / "run"), adopted / "opus"), list[str]()
    assert odd_for_conversion(original) is None and takes_conversion(original, BOTH, quiet)
    assert not takes_conversion(original, replace(BOTH, against=(TRANSFORMERS,)), quiet)
    words = replace(original.target, pieces=("</s>", "<pad>", "word"), start=1)
    odd = replace(original, source=words, target=words)
    assert not takes_conversion(odd, BOTH, said.append)
    assert takes_conversion(odd, replace(BOTH, original=odd.folder), said.append)
    assert "its last word is 'word', which CTranslate2's conversion takes for the start" in said[0]
    assert said[1].startswith("warning: CTranslate2's translations of ")
    assert not takes_conversion(original, replace(BOTH, rival=adopted / "run"), quiet), "it was told to take a run"
    assert not takes_conversion(original, replace(BOTH, beside=(adopted / "run",)), quiet)


def test_two_vocabularies_and_a_start_that_is_not_zero_are_told_apart_from_opus(tmp_path: Path) -> None:
    found = []
    for name, options in (("one", {}), ("two", {"is_separate": True})):
        save_marian(tmp_path / name, **options)
        run = adopt(tmp_path / name, tmp_path / f"run-{name}", say=quiet)
        found.append(odd_for_conversion(read_original(run, tmp_path / name)))
    assert found == [
        "its decoder starts from an embedding that is not zero, as CTranslate2's conversion takes it to be",
        "it has two vocabularies, of which CTranslate2's conversion knows one",
    ]


def test_without_transformers_ctranslate2_takes_the_run_unless_the_folder_was_named(
    adopted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, said = read_original(Run(adopted / "run"), adopted / "opus"), list[str]()
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert not takes_conversion(original, replace(BOTH, against=(CTRANSLATE2,)), said.append)
    assert (
        "CTranslate2 takes the run's own model in place of" in said[0] and "needs the package transformers" in said[0]
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"precisions": ("int8",)}, r"--against transformers takes part in float32 alone; leave out --int8, or it"),
        ({"against": (), "original": Path("x")}, r"--original is the folder that others run; write --against"),
        ({"original": Path("x"), "rival": Path("y")}, r"--original and --rival name different models for CTranslate2"),
        ({"original": Path("x"), "beside": (Path("y"),)}, r"--original and --beside name different models"),
    ],
)
def test_rivals_that_do_not_go_together_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(BOTH, **wrong)  # type: ignore[arg-type]


def test_without_transformers_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(
        UsageError, match=r"needs the package transformers; get it with `pip install 'anydepth\[hugging"
    ):
        check_packages(BOTH)
    check_packages(replace(BOTH, against=(CTRANSLATE2,)))
