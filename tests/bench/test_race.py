"""Several runs in one benchmark, and their picture: BLEU against the clock."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from evaluation.translators import make_run, quiet, training_pairs, write_pairs
from tiny import tiny_config

from anydepth.bench.bench_table import bench_table
from anydepth.bench.benchmark import Bench, bench_run, bench_shape
from anydepth.bench.contestants import CTRANSLATE2
from anydepth.bench.field import BenchSettings
from anydepth.bench.shape import Sizes
from anydepth.errors import UsageError
from anydepth.figures.race import plot_race
from anydepth.figures.speed import plot_bench
from anydepth.figures.style import save_figure
from anydepth.model.checkpoint import load_tensors, save_tensors
from anydepth.runs.run import Run

FAST = BenchSettings(
    engines=("torch",), precisions=("fp32",), batches=(1, 2), beams=(1,), rounds=2, against=("ctranslate2",)
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(tmp_path_factory.mktemp("race"), "decoding.length_ratio=0.5")


@pytest.fixture(scope="module")
def other(run: Run) -> Path:
    """A run with the same vocabulary and other weights."""
    folder = run.folder.parent / "other"
    shutil.copytree(run.folder, folder)
    tensors, _ = load_tensors(run.weights_file)
    save_tensors(Run(folder).weights_file, {name: -tensor for name, tensor in tensors.items()})
    return folder


@pytest.fixture(scope="module")
def text(run: Run) -> str:
    return write_pairs(run.folder.parent / "text", training_pairs(run)[:4])


@pytest.fixture(scope="module")
def measured(run: Run, other: Path, text: str) -> Bench:
    settings = replace(FAST, beside=(other,))
    return bench_run(run.folder, text, ["each", "confidence:0.2"], settings, say=quiet)


def test_other_runs_take_part_at_full_depth_with_every_program(measured: Bench, run: Run) -> None:
    cell = [result for result in measured.results if result.batch == 1]
    own = run.folder.name
    assert [(each.system, each.model, each.policy) for each in cell] == [
        (CTRANSLATE2, own, "fixed:4"),
        (CTRANSLATE2, "other", "fixed:4"),
        *(("torch", own, policy) for policy in ("fixed:4", "fixed:1", "fixed:2", "fixed:3", "confidence:0.2")),
        ("torch", "other", "fixed:4"),
    ]
    assert [each.is_full_depth for each in cell] == [True, True, True, False, False, False, False, True]
    by_model = {(each.system, each.model): (each.bleu, each.tokens) for each in cell if each.is_full_depth}
    assert by_model["torch", own] == by_model[CTRANSLATE2, own]
    assert by_model["torch", "other"] == by_model[CTRANSLATE2, "other"] != by_model["torch", own]
    vocab = run.tokenizers()[1].size
    assert {(each.vocabulary, each.mean_words) for each in cell} == {("full", vocab)}


def test_the_table_names_models_and_the_recipe_their_weights(measured: Bench, other: Path, run: Run) -> None:
    table = bench_table(measured)
    assert f"beside {other} " in table
    assert any(line.startswith("torch") and "  other  " in line for line in table.splitlines())
    assert f"full depth of {run.folder.name} is fixed:4" in table


def test_the_picture_joins_our_points_and_names_the_others(measured: Bench, tmp_path: Path) -> None:
    figure = plot_race(measured.results)
    assert [axis.get_title() for axis in figure.axes] == ["fp32, beam 1, batch 1", "fp32, beam 1, batch 2"]
    for axis, batch in zip(figure.axes, (1, 2), strict=True):
        drawn = {line.get_label(): len(line.get_xdata()) for line in axis.get_lines() if len(line.get_xdata()) != 2}
        assert drawn == {"fixed exits": 4, "confidence": 1, "other models": 1}
        results = {each.policy: each for each in measured.results if each.batch == batch and each.system == "torch"}
        (fixed,) = (line for line in axis.get_lines() if line.get_label() == "fixed exits")
        at = dict(zip(fixed.get_xdata(), fixed.get_ydata(), strict=True))
        one = results["fixed:1"]
        assert at[1000 / one.sentences_per_second.median] == one.bleu
        assert "other" in [note.get_text() for note in axis.texts]
    for name, drawing in (("curve.png", figure), ("bars.svg", plot_bench(measured.results))):
        save_figure(drawing, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 5000


def test_refusals(run: Run, other: Path, text: str, tmp_path: Path) -> None:
    fast = replace(FAST, batches=(2,), rounds=1)
    with pytest.raises(UsageError, match=r"--rival has CTranslate2 take one other model and --beside all; leave out"):
        replace(fast, rival=other, beside=(other,))
    with pytest.raises(UsageError, match=r"two of the runs have the same name; rename the folder of one"):
        bench_run(run.folder, text, [], replace(fast, beside=(other, other)), say=quiet)
    foreign = tmp_path / "foreign"
    shutil.copytree(other, foreign)
    (foreign / "tokenizer.source.model").write_bytes((foreign / "tokenizer.target.model").read_bytes())
    Run(foreign).seal.make()
    with pytest.raises(UsageError, match=r"--beside .*foreign has another vocabulary; prepare its data with"):
        bench_run(run.folder, text, [], replace(fast, beside=(foreign,)), say=quiet)
    with pytest.raises(UsageError, match=r"a curve of BLEU against time needs translations of real text"):
        plot_race([])


def test_a_shape_alone_has_no_words_to_select() -> None:
    settings = replace(FAST, vocabulary="table:20", against=())
    sizes = Sizes(vocab=30, source_length=5, output_length=6)
    with pytest.raises(UsageError, match=r"--vocabulary selects the words of a RUN, and a --shape alone has none"):
        bench_shape(tiny_config(), "tiny.toml", sizes, [0.25] * 4, settings, units=0, say=quiet)
