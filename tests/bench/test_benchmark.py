"""Benchmarks: interleaved rounds, ratios within them, exits as drawn, and every contestant in every
cell."""

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from evaluation.translators import make_run, quiet, training_pairs, write_pairs
from tiny import BLOCKS, tiny_config

from anydepth.bench.bench_recipe import BenchRecipe
from anydepth.bench.bench_table import bench_json, bench_table, engines_table
from anydepth.bench.benchmark import Bench, bench_run, bench_shape, exit_shares, forced
from anydepth.bench.cells import CellFacts, Flops, Material, compare
from anydepth.bench.contestants import CTRANSLATE2, Contestant, CTranslate2Contestant, OwnContestant
from anydepth.bench.field import BenchSettings, engines
from anydepth.bench.shape import Sizes, drawn_exits, random_sentences, shaped_model
from anydepth.clock.calls import Call
from anydepth.clock.machine import Machine, cpu_name
from anydepth.clock.rounds import Spread, Turn, Work, decoding_speedup, interleave, latency, speedup
from anydepth.errors import UsageError
from anydepth.exits.flops import DecoderShape
from anydepth.exits.policies import FixedExit
from anydepth.figures.speed import plot_bench
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.model.checkpoint import load_tensors, save_tensors
from anydepth.runs.operating_points import Wish
from anydepth.runs.run import Run
from anydepth.search.decoding import SearchSettings

SIZES = Sizes(vocab=40, source_length=5, output_length=6)
SHARES = [0.5, 0.25, 0.125, 0.125]
FAST = BenchSettings(
    engines=("torch",), precisions=("fp32",), batches=(1, 3), beams=(1, 2), rounds=2, against=("ctranslate2",)
)


class FakeTime:
    """A clock that stands still but for the work done."""

    def __init__(self) -> None:
        self.now = 0.0
        self.log: list[str] = []

    def work(self, name: str, *seconds: float) -> list[Call]:
        """One call that takes the given seconds, the first time the first of them, and so on."""
        left = list(seconds)

        def run() -> Sequence[None]:
            self.log.append(name)
            self.now += left.pop(0)
            return []

        return [Call([], run)]


def test_every_round_runs_every_contestant_once_and_begins_with_another() -> None:
    fake = FakeTime()
    works = [Work(fake.work(name, 1, 2, 3), fake.work(name.lower(), 0.5, 0.5, 0.5)) for name in "ABC"]
    turns = interleave(works, rounds=3, clock=lambda: fake.now, tell=lambda number: None)
    assert "".join(fake.log) == "AaBbCc" + "BbCcAa" + "CcAaBb"
    assert [[(turn.seconds, turn.decoding_seconds) for turn in each] for each in turns] == [
        [(1, 0.5), (2, 1.5), (3, 2.5)]
    ] * 3


def test_ratios_are_taken_within_rounds() -> None:
    mine, other = ([Turn([whole], [1.0]) for whole in times] for times in ((2.0, 3.0, 5.0), (4.0, 9.0, 10.0)))
    assert speedup(mine, other, count=10, rival_count=10) == Spread(2.0, 2.0, 3.0)
    assert speedup(mine, other, count=20, rival_count=10) == Spread(4.0, 4.0, 6.0)
    assert decoding_speedup(mine, other, count=1, rival_count=1) == Spread(3.0, 9 / 4, 4.0)
    assert decoding_speedup([Turn([1.0], [1.0])] * 3, other, count=1, rival_count=1) is None


def test_latency_is_the_nearest_rank_of_a_round() -> None:
    turns = [Turn([number / 1000 for number in range(100, 0, -1)], [])]
    assert (latency(turns, 0.5), latency(turns, 0.95)) == (50, 95)
    assert latency([Turn([0.004], []), Turn([0.002], []), Turn([0.003], [])], 0.95) == 3


def test_efficiency_is_the_gain_in_time_over_the_gain_in_flops() -> None:
    shape, engine = (
        DecoderShape(BLOCKS, 12, 20, 16, 23),
        TorchEngine(shaped_model(tiny_config(), SIZES, units=0, seed=1)),
    )
    contestants: list[Contestant] = [
        CTranslate2Contestant(None, "fp32", shape, [], {}, 9),
        OwnContestant("torch", engine, "fp32", FixedExit(BLOCKS, BLOCKS), True),
        OwnContestant("torch", engine, "fp32", FixedExit(1, BLOCKS), False),
    ]
    full, early = (
        CellFacts(20, 4.0, [0, 0, 0, 20], 30.0, Flops(90, 10), Flops(170, 10)),
        CellFacts(10, 1.0, [10, 0, 0, 0], 29.0, Flops(50, 10), None),
    )
    turns = [[Turn([8.0], [1.0])] * 2, [Turn([10.0], [2.0])] * 2, [Turn([4.0], [2.0]), Turn([3.0], [1.0])]]
    material = Material([[5], [6]], SearchSettings(beam=3))
    result = compare(2, contestants, [full, full, early], turns, material, 1)
    assert result.decoding_flops_ratio == 2, "where one has no count the formula serves for both"
    assert result.efficiency == Spread(2.0, 2.0, 2.0)
    assert result.ratio == Spread((10 / 4 / (20 / 8) + 10 / 3 / (20 / 8)) / 2, 1.0, 10 / 3 / (20 / 8))
    assert result.own_decoding_speedup == Spread(*[(8 / 2) / (18 / 8)] * 3)
    own = compare(1, contestants, [full, full, early], turns, material, 1)
    assert (own.own_speedup, own.efficiency, own.executed_mflops_per_token) == (None, None, 170 / 20 / 1e6)
    assert compare(0, contestants, [full, full, early], turns, material, 1).ratio == Spread(1.0, 1.0, 1.0)


def test_engines_stand_side_by_side_with_medians_and_one_slow_round_changes_no_figure() -> None:
    engine = TorchEngine(shaped_model(tiny_config(), SIZES, units=0, seed=1))
    plain = OwnContestant("torch", engine, "fp32", FixedExit(BLOCKS, BLOCKS), True)
    contestants: list[Contestant] = [
        plain,
        replace(plain, system="native"),
        replace(plain, system="native", precision="int8"),
    ]
    facts = [CellFacts(1000, 4.0, [0, 0, 0, 1000], bleu, Flops(90, 10), None) for bleu in (30.0, 30.0, 29.5)]
    # busy in round 2 for all, in round 3 for the first alone
    neighbour = [
        [2.0, 4.0, 60.0],
        [1.0, 2.0, 1.0],
        [0.5, 1.0, 0.4],
    ]
    turns = [[Turn([seconds], [0.0]) for seconds in each] for each in neighbour]
    material = Material([[5], [6]], SearchSettings(beam=3))
    results = [compare(place, contestants, facts, turns, material, 7) for place in range(3)]
    recipe = BenchRecipe(Machine("a cpu", 2, "Linux", 0.5), {}, 2, 3, 1, 2, [3], [7], 1.0, "runs/x", "0123", "words")
    head, row, note = engines_table(Bench(recipe, results)).splitlines()
    titles = [
        "policy",
        "AE",
        "torch tokens/s",
        "BLEU",
        "native tokens/s",
        "times",
        "BLEU",
        "native-int8 tokens/s",
        "times",
        "BLEU",
    ]
    assert re.split(r"\s{2,}", head) == titles
    assert re.split(r"\s{2,}", row) == [
        *(f"fixed:{BLOCKS}", "4.00", "250 17-500", "30.00"),
        *("1,000 500-1,000", "2.0 2.0-60.0", "30.00"),
        *("2,000 1,000-2,500", "4.0 4.0-150.0", "29.50"),
    ]
    assert "medians of 3 interleaved rounds" in note and "2 sentences, beam 3, batches of 7, 2 threads" in note


@pytest.mark.parametrize("batch", [1, 3])
def test_forced_contestants_leave_where_the_table_says(batch: int) -> None:
    model, sentences = shaped_model(tiny_config(), SIZES, units=5, seed=1), random_sentences(SIZES, 5, seed=1)
    table = drawn_exits(SHARES, sentences=5, length=SIZES.output_length, seed=3)
    contestant = forced("torch", TorchEngine(model), "fp32", model, table)
    calls = contestant.calls(sentences, SearchSettings(beam=2, exact_length=SIZES.output_length), batch=batch)
    assert [list(call.numbers) for call in calls] == ([[0], [1], [2], [3], [4]] if batch == 1 else [[0, 1, 2], [3, 4]])
    exits = {
        number: contestant.read(result).exits
        for call in calls
        for number, result in zip(call.numbers, call.run(), strict=True)
    }
    assert [exits[number] for number in range(5)] == table.tolist()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return make_run(
        tmp_path_factory.mktemp("bench"),
        "exits.halting=geometric",
        "exits.halting_units=5",
        "decoding.length_ratio=0.5",
    )


@pytest.fixture(scope="module")
def small_text(run: Run) -> str:
    return write_pairs(run.folder.parent / "small", [*training_pairs(run)[:4], ("", "nothing")])


@pytest.fixture(scope="module")
def measured(run: Run, small_text: str) -> Bench:
    return bench_run(run.folder, small_text, ["geometric:0.5"], FAST, say=quiet)


def test_every_contestant_has_its_figures_in_every_cell(measured: Bench) -> None:
    found = {(result.system, result.policy, result.batch, result.beam) for result in measured.results}
    contestants = [(CTRANSLATE2, "fixed:4"), ("torch", "fixed:4"), ("torch", "geometric:0.5")]
    assert found == {(*each, batch, beam) for each in contestants for batch in FAST.batches for beam in FAST.beams}
    assert len(measured.results) == len(found)
    for result in measured.results:
        assert result.sentences == 4 and sum(result.exit_counts) == result.tokens
        assert (result.latency_p95_ms is not None) == (result.batch == 1)
        assert result.ratio is not None and result.bleu is not None
        assert len(result.seconds) == len(result.first_seconds) == FAST.rounds
    greedy = [result for result in measured.results if result.is_full_depth and result.beam == result.batch == 1]
    assert len(greedy) == 2
    assert len({(result.tokens, result.bleu, result.formula_mflops_per_token) for result in greedy}) == 1


def test_table_and_json_tell_all_of_it(measured: Bench) -> None:
    table = bench_table(measured).splitlines()
    for beam in FAST.beams:
        for batch in FAST.batches:
            (place,) = [
                number
                for number, line in enumerate(table)
                if line.startswith(f"fp32, beam {beam}, batch {batch}: BLEU ")
            ]
            assert re.search(r"BLEU [\d.]+ apart, (NOT )?within 0.3$", table[place])
            assert [line.split("  ")[0] for line in table[place + 2 : place + 5]] == [CTRANSLATE2, "torch", "torch"]
            assert ("p50/p95 ms" in table[place + 1]) == (batch == 1)
            assert all(len(line) <= 140 for line in table[place : place + 5])
    (head,) = [number for number, line in enumerate(table) if line.startswith("tokens that leave at exit")]
    chosen = next(
        result for result in measured.results if result.policy == "geometric:0.5" and result.beam == FAST.beams[0]
    )
    shares = [f"{100 * count / chosen.tokens:.1f}%" for count in chosen.exit_counts]
    assert table[head + 1].split() == [
        "fp32,",
        "beam",
        f"{FAST.beams[0]},",
        "torch",
        "geometric",
        *shares,
        f"{chosen.average_exit:.2f}",
    ]
    stored = json.loads(bench_json(measured))
    assert stored == json.loads(json.dumps(asdict(measured)))
    recipe = stored["recipe"]
    assert recipe["machine"]["cores"] >= 1 and {"torch", "ctranslate2", "anydepth"} <= recipe["versions"].keys()
    assert (recipe["rounds"], recipe["threads"], recipe["seed"], len(recipe["weights"])) == (2, 1, 1, 12)
    assert "exactly one output token" in recipe["decoding_alone"]


def test_a_picture_has_a_panel_for_each_cell_and_a_bar_for_each_contestant(measured: Bench) -> None:
    figure = plot_bench(measured.results)
    assert len(figure.axes) == len(FAST.batches) * len(FAST.beams)
    assert all(len(axis.patches) == 3 for axis in figure.axes)
    with pytest.raises(UsageError, match=r"needs at least one contestant but there is none"):
        plot_bench([])


def test_threads_of_torch_are_as_before_and_ctranslate2_keeps_the_faster_of_its_ways(run: Run, small_text: str) -> None:
    before = torch.get_num_threads()
    settings = replace(FAST, batches=(2,), beams=(1,), rounds=1, threads=2)
    rival, own = bench_run(run.folder, small_text, [], settings, say=quiet).results
    assert rival.threads in ("1x2", "2x1") and own.threads == ""
    assert torch.get_num_threads() == before


def test_a_shape_is_timed_with_exits_as_often_as_asked(run: Run, small_text: str) -> None:
    settings = BenchSettings(
        engines=("torch",),
        precisions=("fp32",),
        batches=(1, 2),
        beams=(1,),
        rounds=1,
        sentences=4,
        against=("ctranslate2",),
    )
    bench = bench_shape(
        tiny_config(), "tiny.toml", SIZES, SHARES, settings, units=5, run=run, test=small_text, say=quiet
    )
    table = drawn_exits(SHARES, sentences=4, length=SIZES.output_length, seed=1)
    for result in bench.results:
        assert result.tokens == 4 * SIZES.output_length and result.bleu is None
        if not result.is_full_depth:
            assert result.policy == "forced"
            assert result.exit_counts == table.flatten().bincount(minlength=BLOCKS + 1)[1:].tolist()
    assert [result.policy for result in bench.results] == ["fixed:4", "fixed:4", "forced"] * 2
    assert bench.recipe.exit_shares == SHARES
    assert "shape tiny.toml, source 5, output 6, shares of exits 0.500,0.250,0.125,0.125" in bench_table(bench)


def test_a_shape_is_timed_with_a_table_of_words_and_as_ctranslate2_can_run_it() -> None:
    sizes = replace(SIZES, words_per_piece=2)
    settings = replace(FAST, precisions=("fp32",), batches=(2,), beams=(1,), rounds=1, sentences=4)
    config = tiny_config('model.attended_states="first"')
    said: list[str] = []
    results = bench_shape(config, "tiny.toml", sizes, SHARES, settings, units=0, say=said.append).results
    assert [(result.system, result.policy, result.vocabulary) for result in results] == [
        ("ctranslate2", "fixed:4", "full"),
        ("ctranslate2", "fixed:4", "map"),
        ("torch", "fixed:4", "full"),
        ("torch", "forced", "full"),
        ("torch", "fixed:4 table:2", "table:2"),
        ("torch", "forced table:2", "table:2"),
    ]
    assert said[0].startswith('CTranslate2 takes the shape with model.attended_states = "below"')


def test_shares_of_exits_are_those_of_the_policy_on_the_test_set(run: Run, small_text: str) -> None:
    assert exit_shares(run.folder, small_text, "fixed:2", Wish(), FAST, say=quiet) == [0, 1, 0, 0]
    assert sum(exit_shares(run.folder, small_text, "uniform", Wish(), FAST, say=quiet)) == pytest.approx(1)


def test_an_engine_without_a_precision_is_left_out_unless_it_is_all_there_is() -> None:
    model, said = shaped_model(tiny_config(), SIZES, units=0, seed=1), []
    both = BenchSettings(engines=("torch",))
    assert [(name, precision) for name, precision, _ in engines(model, both, None, said.append)] == [("torch", "fp32")]
    assert len(said) == 1 and said[0].startswith("left out: ")
    with pytest.raises(UsageError):
        list(engines(model, BenchSettings(engines=("torch",), precisions=("int8",)), None, said.append))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"engines": ("torhc",)}, r"there is no engine 'torhc'; did you mean torch\? known: "),
        ({"batches": (1, 0)}, r"--batch 0 leaves nothing to measure; set it to 1 or more"),
        ({"beams": (0,)}, r"--beam 0 leaves nothing"),
        ({"rounds": 0}, r"--rounds 0 leaves nothing"),
        ({"threads": 0}, r"--threads 0 leaves nothing"),
        ({"sentences": 0}, r"--sentences 0 leaves nothing"),
        ({"against": ("marian",)}, r"--against marian: a benchmark compares with ctranslate2 and transformers; write"),
    ],
)
def test_settings_that_measure_nothing_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        BenchSettings(**wrong)  # type: ignore[arg-type]


def test_the_processor_has_a_name_with_and_without_a_system_that_tells_it(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU 7\n", encoding="utf-8")
    assert cpu_name(tmp_path / "cpuinfo") == "Some CPU 7"
    assert cpu_name(tmp_path / "none")


def test_a_text_without_a_sentence_is_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no sentence to translate; every source line is empty"):
        bench_run(run.folder, write_pairs(tmp_path / "empty", [("", "a"), (" ", "b")]), [], FAST, say=quiet)


def test_ctranslate2_takes_the_model_of_a_rival_with_the_same_vocabulary(
    run: Run, small_text: str, tmp_path: Path
) -> None:
    fast = replace(FAST, batches=(2,), beams=(1,), rounds=1)
    other = tmp_path / "other"
    shutil.copytree(run.folder, other)
    tensors, _ = load_tensors(run.weights_file)
    save_tensors(Run(other).weights_file, {name: -tensor for name, tensor in tensors.items()})
    own, against = (
        bench_run(run.folder, small_text, [], each, say=quiet) for each in (fast, replace(fast, rival=other))
    )
    assert own.results[1].bleu == against.results[1].bleu and own.results[1].tokens == against.results[1].tokens
    assert own.results[0].tokens != against.results[0].tokens or own.results[0].bleu != against.results[0].bleu
    assert f"CTranslate2 has the model of {other}" in bench_table(against)
    (other / "tokenizer.source.model").write_bytes((other / "tokenizer.target.model").read_bytes())
    Run(other).seal.make()
    with pytest.raises(UsageError, match=r"has another vocabulary; prepare its data with --tokenizer-from"):
        bench_run(run.folder, small_text, [], replace(fast, rival=other), say=quiet)
    with pytest.raises(
        UsageError, match=r"--rival names the model that CTranslate2 takes; write --against ctranslate2, too"
    ):
        replace(fast, rival=other, against=())
