"""Scoring every exit: the figures of `fixed:n` and sacreBLEU by hand; parts that outlive a kill;
scores that do not belong; the summary."""

import json
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest
import torch
from bleu_oracle.scored import TRAIN, VALID, same, scored
from evaluation.translators import make_run
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from tiny import BLOCKS, exit_code_of, in_own_process, prepare_tiny, short_training, signal_at_write, train

from anydepth.bleu_oracle.score_work import PartScorer, ScorePart, ScoreRows, SentenceScorer
from anydepth.bleu_oracle.scoring import ScoreSettings, missing_pairs, part_size, score_exits
from anydepth.bleu_oracle.store import ScoreStore
from anydepth.bleu_oracle.summary import ScoreSummary, summarise, summary_json, summary_table
from anydepth.bleu_oracle.table import ExitScores, ScoreRecipe, ScoreTable, load_scores
from anydepth.errors import Interrupted, RunError, UsageError
from anydepth.files.checksums import checked_object, with_checksum
from anydepth.inference.translator import Translator
from anydepth.messages import progress
from anydepth.model.checkpoint import load_tensors, save_tensors
from anydepth.runs.run import Run, create_run, training_data
from anydepth.search.decoding import DecodingOptions


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that knows some of its training sentences by heart, more of them at the upper exits;
    tests only read it."""
    folder = tmp_path_factory.mktemp("trained")
    data = prepare_tiny(folder)
    changes = (
        "training.updates=100",
        "model.dropout=0",
        "training.log_every=50",
        "training.save_every=100",
        "validation.every=100",
    )
    run = create_run(folder / "run", short_training(*changes, "training.final=last", "training.exit_weights=n"), data)
    train(run, data)
    return run


@pytest.mark.parametrize(
    ("metric", "beam", "by_hand"),
    [
        ("bleu", 1, BLEU(effective_order=True, smooth_method="exp")),
        ("bleu", 3, BLEU(effective_order=True)),
        ("chrf", 1, CHRF()),
    ],
)
def test_scores_are_those_of_translating_at_each_fixed_exit_and_scoring_by_hand(
    trained: Run, tmp_path: Path, metric: str, beam: int, by_hand: BLEU | CHRF
) -> None:
    run = Run(Path(shutil.copytree(trained.folder, tmp_path / "run")))
    found, _ = scored(run, ScoreSettings(metric=metric, decoding=DecodingOptions(beam=beam)))
    data, translator = training_data(run), Translator.load(run.folder)
    for split, table in (("train", found.train), ("valid", found.valid)):
        pairs = data.pairs(split)
        assert table.pairs.tolist() == list(range(TRAIN if split == "train" else VALID))
        sources, references = (
            [tokenizer.decode(side(number).tolist()) for number in range(len(pairs))]
            for tokenizer, side in ((data.source_tokenizer, pairs.source), (data.target_tokenizer, pairs.target))
        )
        for n in range(1, BLOCKS + 1):
            lines = [each.text for each in translator.translate(sources, policy=f"fixed:{n}", beam=beam)]
            expected = [
                by_hand.sentence_score(line, [reference]).score
                for line, reference in zip(lines, references, strict=True)
            ]
            assert table.scores[:, n - 1].tolist() == expected
    assert found.recipe.signature == str(by_hand.get_signature())
    assert "eff:yes" in found.recipe.signature
    assert 0 <= found.train.scores.min() < found.train.scores.max() <= 100 + 1e-9
    assert found.train.scores.unique(dim=1).shape[1] == BLOCKS, "no two exits are alike"
    assert same(load_scores(run.scores_file), found)


def test_a_scorer_gives_points_and_the_settings_that_the_oracle_names() -> None:
    bleu = SentenceScorer("bleu")
    perfect, other, nothing = bleu.scores(["the dog runs fast", "the cat runs fast", "xyz"], "the dog runs fast")
    assert perfect == pytest.approx(100)
    assert 0 < other < 100
    assert nothing == 0
    assert all(part in bleu.signature.split("|") for part in ("nrefs:1", "eff:yes", "smooth:exp", "tok:13a"))


def test_a_sample_is_the_same_every_time_and_part_of_a_larger_one(whole: Run) -> None:
    data, nothing = (
        training_data(whole),
        ScoreTable(torch.zeros(0, dtype=torch.long), torch.zeros(0, BLOCKS, dtype=torch.float64)),
    )
    small, again, large = (missing_pairs(data, "train", nothing, count).tolist() for count in (9, 9, 20))
    assert small == again == sorted(small)
    assert len(set(small)) == 9
    assert set(small) < set(large) < set(range(TRAIN))
    assert small != list(range(9))
    for count in (None, TRAIN, 99):
        assert missing_pairs(data, "train", nothing, count).tolist() == list(range(TRAIN))
    known = ScoreTable(torch.tensor(small[:4]), torch.zeros(4, BLOCKS, dtype=torch.float64))
    assert missing_pairs(data, "train", known, 9).tolist() == small[4:]


@pytest.mark.parametrize(
    ("total", "most", "expected"),
    [
        (1, 256, 16),
        (127, 256, 16),
        (200, 256, 25),
        (8000, 256, 256),
        (255_999, 256, 256),
        (600_000, 256, 600),
        (9, 7, 7),
    ],
)
def test_few_pairs_make_small_parts_of_which_each_core_has_some(
    total: int, most: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anydepth.bleu_oracle.scoring.usable_cores", lambda: 2)
    assert part_size(total, most) == expected


def test_a_larger_sample_decodes_only_what_is_new(own: Run, whole: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = scored(own, ScoreSettings(metric="chrf", sentences=9))
    assert (len(first.train), len(first.valid)) == (9, VALID)
    decoded = watch_pairs(monkeypatch)
    second, said = scored(own, ScoreSettings(metric="chrf"))
    assert same(second, load_scores(whole.scores_file))
    assert sorted([*first.train.pairs.tolist(), *decoded]) == list(range(TRAIN))
    assert said[0] == "9 training and 5 validation pairs are scored already; going on with the rest"
    smaller, said = scored(own, ScoreSettings(metric="chrf", sentences=3))
    assert same(smaller, second)
    assert said == [
        f"{own.scores_file} has the scores of 40 training and 5 validation pairs already; there is nothing to do"
    ]


def watch_pairs(monkeypatch: pytest.MonkeyPatch, *, stop_before: int = 10**9) -> list[int]:
    """A list that receives the pairs that are decoded; that of a part beyond `stop_before` is
    interrupted."""
    decoded: list[int] = []
    do, calls = PartScorer.do, iter(range(10**9))

    def watched(worker: PartScorer, part: ScorePart) -> ScoreRows:
        if next(calls) >= stop_before:
            raise Interrupted("stopped")
        decoded.extend(part.pairs)
        return do(worker, part)

    monkeypatch.setattr(PartScorer, "do", watched)
    return decoded


def test_what_was_stopped_goes_on_where_it_was(own: Run, whole: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    before = watch_pairs(monkeypatch, stop_before=3)
    with pytest.raises(Interrupted):
        scored(own)
    assert not own.scores_file.exists()
    monkeypatch.undo()
    after = watch_pairs(monkeypatch)
    found, said = scored(own)
    assert (before, after) == (list(range(21)), [*range(21, TRAIN), *range(VALID)])
    assert said[0] == "21 training and 0 validation pairs are scored already; going on with the rest"
    assert same(found, load_scores(whole.scores_file))
    assert not (own.folder / "exit_scores").exists()


def test_a_part_that_was_cut_is_reported_and_decoded_again(
    own: Run, whole: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch_pairs(monkeypatch, stop_before=3)
    with pytest.raises(Interrupted):
        scored(own)
    monkeypatch.undo()
    cut = sorted((own.folder / "exit_scores").iterdir())[1]
    cut.write_bytes(cut.read_bytes()[:-40])
    after = watch_pairs(monkeypatch)
    found, said = scored(own)
    assert said[0].startswith(f"{cut} is damaged or cut short")
    assert said[0].endswith("; its sentences are decoded again")
    assert after == [*range(7, 14), *range(21, TRAIN), *range(VALID)]
    assert same(found, load_scores(whole.scores_file))


def score_in_own_process(folder: Path, disturb: partial[None]) -> None:
    """The body of a process that scores and is disturbed."""
    torch.set_num_threads(1)
    disturb()
    score_exits(folder, ScoreSettings(metric="chrf", part=16), say=lambda text: None)


def test_scoring_that_is_killed_at_its_writes_ends_with_the_same_scores(own: Run, whole: Run) -> None:
    """Attempt i is killed at the ith flush, rename or removal of a file, until one comes
    through."""
    for write in range(1, 20):
        process = in_own_process(score_in_own_process, own.folder, partial(signal_at_write, signal.SIGKILL, write))
        if exit_code_of(process) == 0:
            break
    else:
        raise AssertionError("it never ended")
    assert write > 3
    assert same(scored(own)[0], load_scores(whole.scores_file))
    assert not list(own.folder.rglob("part-*"))


def test_a_second_call_decodes_nothing_and_says_so(own: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    first, said = scored(own)
    assert said[-1].startswith(
        f"{own.scores_file} has the chrf of 40 training and 5 validation pairs at {BLOCKS} exits; it took 0:0"
    )
    before, decoded = own.scores_file.read_bytes(), watch_pairs(monkeypatch)
    second, said = scored(own)
    assert same(first, second)
    assert (decoded, own.scores_file.read_bytes()) == ([], before)
    assert said == [
        f"{own.scores_file} has the scores of 40 training and 5 validation pairs already; there is nothing to do"
    ]


def test_parts_that_a_kill_left_behind_the_last_step_are_cleared_away(own: Run) -> None:
    first, _ = scored(own)
    store = ScoreStore(own, first.recipe, BLOCKS)
    store.add("train", first.train)
    second, said = scored(own)
    assert same(first, second)
    assert said[-1].endswith("there is nothing to do")
    assert not store.parts_folder.exists()


@pytest.mark.parametrize(
    ("settings", "difference"),
    [
        (ScoreSettings(metric="bleu"), "metric = chrf, now bleu"),
        (ScoreSettings(metric="chrf", decoding=DecodingOptions(beam=2)), "beam = 1, now 2"),
    ],
)
def test_scores_made_another_way_are_given_up_only_on_demand(
    own: Run, settings: ScoreSettings, difference: str
) -> None:
    scored(own)
    before = own.scores_file.read_bytes()
    message = (
        rf"exit_scores.safetensors has scores that were made another way \({difference}\); replace them with "
        r"--overwrite$"
    )
    with pytest.raises(UsageError, match=message):
        scored(own, settings)
    assert own.scores_file.read_bytes() == before
    found, _ = scored(own, settings, overwrite=True)
    assert (found.recipe.metric, found.recipe.beam) == (settings.metric, settings.decoding.beam)
    assert same(load_scores(own.scores_file), found)


def test_scores_of_other_weights_are_replaced_with_a_sentence(own: Run) -> None:
    old, _ = scored(own)
    watch = own.folder / "exit_scores" / "part-000001.safetensors"
    ScoreStore(own, old.recipe, BLOCKS).add("train", old.train)
    tensors = load_tensors(own.weights_file)[0]
    save_tensors(own.weights_file, {name: tensor * 1.1 for name, tensor in tensors.items()})
    new, said = scored(own)
    for file, text in zip((own.scores_file, watch), said, strict=False):
        assert text == f"{file} has scores with other weights than the run has now; they are replaced"
    assert new.recipe.weights != old.recipe.weights
    assert not new.train.scores.equal(old.train.scores)
    assert same(load_scores(own.scores_file), new)


def test_other_text_in_the_runs_vocabulary_is_scored_and_replaces_the_scores_of_the_first(
    own: Run, tmp_path: Path
) -> None:
    old, _ = scored(own)
    other = Path(shutil.copytree(training_data(own).folder, tmp_path / "other"))
    manifest = checked_object((other / "manifest.json").read_bytes())
    manifest["splits"]["train"]["dropped"] = {"empty": 1}  # the same tokens with another history
    (other / "manifest.json").write_text(json.dumps(with_checksum(manifest)), encoding="utf-8")
    new, said = scored(own, data=other)
    assert said[0] == f"{own.scores_file} has scores of other text; they are replaced"
    assert new.recipe.data != old.recipe.data
    assert new.train.scores.equal(old.train.scores)


def test_text_in_another_vocabulary_is_refused(own: Run, tmp_path: Path) -> None:
    other = prepare_tiny(tmp_path, joint=True)
    with pytest.raises(
        RunError, match=r"has another vocabulary than .*; only text prepared with the run's tokenizer can be used with"
    ):
        scored(own, data=other.folder)


def test_a_model_of_one_exit_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path, "model.exits=last")
    with pytest.raises(UsageError, match=r'run has one exit, after its last block, .* train with model.exits = "all"$'):
        scored(run)


def test_unknown_metrics_empty_samples_and_no_tries_are_refused() -> None:
    with pytest.raises(UsageError, match="--metric ter is unknown; use bleu or chrf"):
        ScoreSettings(metric="ter")
    with pytest.raises(UsageError, match="--sentences 0 leaves nothing to score; ask for 1 or more"):
        ScoreSettings(sentences=0)
    with pytest.raises(UsageError, match="--retries 0 must be 1 or more"):
        ScoreSettings(retries=0)


def test_a_log_gets_a_line_for_each_twentieth_at_most() -> None:
    said: list[str] = []
    with progress.ProgressBar(100, "things", said.append) as bar:
        for _ in range(50):
            bar.add(2)
    assert len(said) == progress.LINES
    assert said[-1].startswith("100 of 100 things  ")
    assert said[-1].endswith("  0:00 left")
    assert said[0].startswith("6 of 100 things")


SCORES = ExitScores(
    ScoreRecipe("bleu", "nrefs:1", 1, 1.0, "w", "d"),
    ScoreTable(
        torch.arange(4), torch.tensor([[10.0, 20, 50], [40, 40, 40], [90, 80, 95], [0, 30, 20]], dtype=torch.float64)
    ),
    ScoreTable(torch.zeros(0, dtype=torch.long), torch.zeros(0, 3, dtype=torch.float64)),
)


def test_the_summary_has_the_means_the_best_choice_and_where_penalties_send_sentences() -> None:
    summary = summarise(SCORES, [0.0, 4.0])
    assert summary.exit_scores == [35.0, 42.5, 51.25]
    free, paid = summary.choices
    assert (free.score, free.average_exit, free.exit_counts) == (
        (50 + 40 + 95 + 30) / 4,
        (3 + 1 + 3 + 2) / 4,
        [1, 1, 2],
    )
    assert (paid.score, paid.average_exit, paid.exit_counts) == (
        (50 + 40 + 90 + 30) / 4,
        (3 + 1 + 1 + 2) / 4,
        [2, 1, 1],
    )
    head, fixed, first, second, gain, recipe = summary_table(summary).splitlines()
    assert head.split() == ["bleu", "AE", "exit", "1", "exit", "2", "exit", "3"]
    assert fixed.split() == ["every", "exit", "35.00", "42.50", "51.25"]
    assert first.split() == ["lambda", "0", "53.75", "2.25", "25.0%", "25.0%", "50.0%"]
    assert second.split() == ["lambda", "4", "52.50", "1.75", "50.0%", "25.0%", "25.0%"]
    assert gain == "the best exit for each sentence is worth +2.50 points over exit 3 for all"
    assert recipe == "mean sentence bleu of 4 training pairs, beam 1, nrefs:1"
    values = json.loads(summary_json(summary))
    assert values["choices"][1]["exit_counts"] == [2, 1, 1]
    assert set(values) == set(ScoreSummary.__dataclass_fields__)
