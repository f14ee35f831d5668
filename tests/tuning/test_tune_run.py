"""Whole tunings of a run: every stored point was measured by decoding, and what was measured once
is remembered."""

import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from evaluation.translators import quiet, write_pairs
from tiny import BLOCKS
from tuning.conftest import MAX_LENGTH

from anydepth.errors import RunError, UsageError
from anydepth.evaluation.measure import measure
from anydepth.inference.translator import Translator
from anydepth.model.checkpoint import load_tensors, save_tensors
from anydepth.runs.fingerprints import text_fingerprint
from anydepth.runs.operating_points import OperatingPoint, PointSet, Wish, choose_point, load_points
from anydepth.runs.run import Run
from anydepth.search.decoding import GREEDY, DecodingOptions
from anydepth.tuning import tune as tuning
from anydepth.tuning.candidates import DIGITS, promising, segment_numbers
from anydepth.tuning.decoded_points import DecodedPoints, TunedSearch
from anydepth.tuning.tune import TuneSettings, tune_run
from anydepth.tuning.valid_text import ValidationText

PENALISED = DecodingOptions(beam=1, length_penalty=0.5)
BRIEF = TuneSettings(objective="average-exit", candidates=20, segment=1.0, decoded=1, decoding=GREEDY)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the policies that are decoded from now on."""
    names: list[str] = []

    decode = DecodedPoints.decode

    def counting(points: DecodedPoints, search: TunedSearch) -> object:
        names.append(search.policy.name)
        return decode(points, search)

    monkeypatch.setattr(DecodedPoints, "decode", counting)
    return names


def remembered(run: Run) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run.folder / "tuning.jsonl").read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("policy", "settings"),
    [
        (None, TuneSettings(objective="average-exit", candidates=40, segment=0.5, decoded=1)),
        ("shortlist:5", TuneSettings(objective="average-exit", candidates=25, segment=1.0, decoded=1, decoding=GREEDY)),
        (
            "geometric",
            TuneSettings(
                objective="average-exit", method="decode", candidates=6, segment=0.5, seed=5, decoding=PENALISED
            ),
        ),
    ],
    ids=["replay", "replay of a shortlist", "decode"],
)
def test_every_stored_point_is_what_decoding_it_gives(
    run: Run, held: str, policy: str | None, settings: TuneSettings
) -> None:
    found = tune_run(run.folder, held, policy, settings, say=quiet)
    assert load_points(run) == [found]
    translator = Translator.load(run.folder)
    sources, references = (
        Path(f"{held}.{language}").read_text(encoding="utf-8").splitlines() for language in ("de", "en")
    )

    def decoded(name: str) -> tuple[float, float, float]:
        figures, _ = measure(translator, sources, references, translator.policy(name), settings.decoding)
        return figures.scores.bleu.value, figures.average_exit, figures.flops_share

    assert len(found.points) >= 2
    for point in found.points:
        assert decoded(point.policy) == (point.bleu, point.average_exit, point.flops_share)
    assert decoded(f"fixed:{BLOCKS}")[0] == found.full_depth_bleu
    assert len({point.bleu for point in found.points}) > 1, "BLEU differs, or this shows little"
    assert max(point.bleu for point in found.points) > 0
    assert (found.policy, found.beam, found.length_penalty, found.engine) == (
        policy or "geometric",
        settings.decoding.beam or 2,
        0.5 if settings.decoding.length_penalty else 1.0,
        translator.engine.name,
    )
    assert found.valid_fingerprint == text_fingerprint(held, "de", "en")


def test_points_judged_by_full_depth_have_the_bleu_against_what_it_says_and_are_told_from_others(
    run: Run, held: str, tmp_path: Path
) -> None:
    settings = TuneSettings(objective="average-exit", judge="full-depth", candidates=40, segment=0.5, decoding=GREEDY)
    found = tune_run(run.folder, held, "confidence", settings, say=quiet)
    assert (found.judge, load_points(run)) == ("full-depth", [found])
    translator = Translator.load(run.folder)
    sources, references = (
        Path(f"{held}.{language}").read_text(encoding="utf-8").splitlines() for language in ("de", "en")
    )
    deepest = translator.policy(f"fixed:{BLOCKS}")
    _, full = measure(translator, sources, references, deepest, settings.decoding)
    judges = [each.text for each in full]
    assert judges != references, "else the references say the same"
    for point in found.points:
        figures, _ = measure(translator, sources, judges, translator.policy(point.policy), settings.decoding)
        assert figures.scores.bleu.value == point.bleu
    assert found.points[-1].bleu == found.full_depth_bleu == pytest.approx(100)
    assert min(point.bleu for point in found.points) < 99, "else nobody leaves early"
    other = tune_run(run.folder, held, "margin", replace(settings, judge="references"), say=quiet)
    assert other.valid_fingerprint == found.valid_fingerprint, "the text is the same; the judge is not"
    with pytest.raises(UsageError, match="judged by full-depth"):
        choose_point(load_points(run), Wish(average_exit=BLOCKS))


@pytest.mark.parametrize(("decoded", "most"), [(None, 3), (1, 1)])
def test_an_average_exit_has_three_candidates_of_each_segment_decoded_unless_told_otherwise(
    run: Run, held: str, counted: list[str], decoded: int | None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[tuple[int, list[int]]] = []  # of each call: how many at most, and the segments of those chosen

    def watched(costs: np.ndarray, worth: np.ndarray, *, segment: float, count: int, patterns: None) -> np.ndarray:
        found = promising(costs, worth, segment=segment, count=count, patterns=patterns)
        chosen.append((count, segment_numbers(costs, segment)[found].tolist()))
        return found

    monkeypatch.setattr(tuning, "promising", watched)
    monkeypatch.setattr(tuning, "for_missed_segments", lambda costs, worth, chosen, decoded, segment, least: chosen[:0])
    settings = TuneSettings(objective="average-exit", candidates=40, segment=1.0, decoded=decoded, decoding=GREEDY)
    tune_run(run.folder, held, None, settings, say=quiet)
    ((count, segments),) = chosen
    assert count == most == max(Counter(segments).values()), "some segment has as many, or this shows little"
    assert len(counted) == 1 + len(segments), "full depth, and those of each segment"


def test_a_further_candidate_for_a_missed_segment_is_decoded_and_kept(
    run: Run, held: str, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        tuning,
        "for_missed_segments",
        lambda costs, worth, chosen, decoded, segment, least: np.setdiff1d(range(20), chosen)[-1:],
    )
    tune_run(run.folder, held, "geometric", BRIEF, say=quiet)
    with_one_more = list(counted)
    monkeypatch.setattr(tuning, "for_missed_segments", lambda costs, worth, chosen, decoded, segment, least: chosen[:0])
    (run.folder / "tuning.jsonl").rename(run.folder / "before.jsonl")
    counted.clear()
    tune_run(run.folder, held, "geometric", BRIEF, say=quiet)
    assert with_one_more[:-1] == counted
    further = json.loads((run.folder / "before.jsonl").read_text(encoding="utf-8").splitlines()[-1])["point"]["policy"]
    assert further == with_one_more[-1]


@pytest.mark.parametrize("method", ["replay", "decode"])
def test_each_segment_keeps_the_best_of_all_that_were_decoded_in_it(
    run: Run, held: str, method: str, counted: list[str]
) -> None:
    settings = TuneSettings(objective="average-exit", method=method, candidates=12, segment=0.5, decoded=2)
    found = tune_run(run.folder, held, None, settings, say=quiet)
    points = [OperatingPoint(**line["point"]) for line in remembered(run)]  # type: ignore[arg-type]
    assert [point.policy for point in points] == counted[1:]
    by_segment: dict[int, list[OperatingPoint]] = {}
    for point in points:
        number = next(number for number in range(99) if point.average_exit <= 1 + number * 0.5 + 1e-9)
        by_segment.setdefault(number, []).append(point)
    best = [
        max(by_segment[number], key=lambda point: (point.bleu, -point.average_exit)) for number in sorted(by_segment)
    ]
    *others, full = found.points
    assert others == best
    assert (full.policy, full.average_exit, full.flops_share, full.bleu) == (
        counted[0],
        run.config.model.blocks,
        1.0,
        found.full_depth_bleu,
    )
    assert len(best) < len(points), "some segment had a choice"


def test_decoding_tries_uniform_thresholds_as_in_the_paper(run: Run, held: str, counted: list[str]) -> None:
    tune_run(
        run.folder,
        held,
        "confidence",
        TuneSettings(objective="average-exit", method="decode", candidates=3, seed=6, decoding=GREEDY),
        say=quiet,
    )
    drawn = np.random.default_rng(6).random((3, BLOCKS - 1)).round(DIGITS).tolist()
    assert counted == [f"fixed:{BLOCKS}", *(f"confidence:{','.join(map(str, thresholds))}" for thresholds in drawn)]


def test_the_same_tuning_finds_the_same_points(trained: Run, held: str, tmp_path: Path) -> None:
    found = [
        tune_run(shutil.copytree(trained.folder, tmp_path / name), held, None, BRIEF, say=quiet)
        for name in ("first", "second")
    ]
    assert found[0] == found[1]


def test_what_was_decoded_once_is_not_decoded_again_unless_the_recipe_changes(
    run: Run, held: str, counted: list[str]
) -> None:
    def tuned(beam: int = 1, length_penalty: float | None = None) -> tuple[PointSet, int]:
        counted.clear()
        decoding = DecodingOptions(beam=beam, length_penalty=length_penalty)
        settings = TuneSettings(objective="average-exit", candidates=12, segment=1.0, decoded=1, decoding=decoding)
        found = tune_run(run.folder, held, None, settings, say=quiet)
        return found, len(counted) - 1  # full depth is always decoded

    first, times = tuned()
    assert times > 1
    assert tuned() == (first, 0)
    _, of_another_beam = tuned(beam=2)
    assert of_another_beam > 1
    assert tuned(length_penalty=0.25)[1] > 1
    assert tuned() == (first, 0), "what was measured with other settings does not displace it"
    assert tuned(beam=2)[1] == 0


def test_other_text_or_other_weights_are_decoded_anew(run: Run, held: str, tmp_path: Path, counted: list[str]) -> None:
    settings = TuneSettings(objective="average-exit", method="decode", candidates=2, decoding=GREEDY)
    tune_run(run.folder, held, None, settings, say=quiet)
    pairs = [("hund und katze läuft", "dog and cat runs"), ("und und", "and and")]
    tune_run(run.folder, write_pairs(tmp_path / "other", pairs), None, settings, say=quiet)
    assert len(counted) == 6
    tensors, notes = load_tensors(run.weights_file)
    save_tensors(
        run.weights_file, {name: tensor + 0.01 * torch.sign(tensor) for name, tensor in tensors.items()}, notes
    )
    found = tune_run(run.folder, held, "confidence", settings, say=quiet)
    tune_run(run.folder, held, None, settings, say=quiet)
    assert len(counted) == 12
    assert [each.policy for each in load_points(run)] == ["confidence", "geometric"]
    assert load_points(run)[0] == found, "points of the old weights are gone"
    assert len(remembered(run)) == 4, "and so are their measurements"


def test_a_damaged_memory_is_passed_over_and_mended(run: Run, held: str, counted: list[str]) -> None:
    settings = TuneSettings(objective="average-exit", method="decode", candidates=4, decoding=GREEDY)
    found = tune_run(run.folder, held, None, settings, say=quiet)
    file = run.folder / "tuning.jsonl"
    whole = file.read_bytes()
    one, two, three, four = whole.splitlines(keepends=True)
    counted.clear()
    damaged_line = three.replace(b'"point"', b'"pint"')
    file.write_bytes(one + b"\xff\xfe\n" + two + b"{}\n[3]\nnull\n" + damaged_line + four[: len(four) // 2])
    assert tune_run(run.folder, held, None, settings, say=quiet) == found
    assert counted == [f"fixed:{BLOCKS}", *(json.loads(line)["point"]["policy"] for line in (three, four))]
    assert sorted(file.read_bytes().splitlines(keepends=True)) == sorted(whole.splitlines(keepends=True))


def test_a_tuning_that_is_stopped_keeps_what_it_measured_and_the_old_points(
    run: Run, held: str, counted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tune_run(
        run.folder,
        held,
        None,
        TuneSettings(objective="average-exit", candidates=5, segment=1.0, decoded=1, decoding=GREEDY),
        say=quiet,
    )
    points = run.points_file.read_bytes()
    settings = TuneSettings(objective="average-exit", method="decode", candidates=5, segment=0.5, decoding=GREEDY)

    def stop_at_the_third(text: str) -> None:
        if text.startswith("3/5"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune_run(run.folder, held, None, settings, say=stop_at_the_third)
    assert run.points_file.read_bytes() == points
    assert load_points(run) == [old]
    counted.clear()
    new = tune_run(run.folder, held, None, settings, say=quiet)
    assert len(counted) == 1 + 2, "full depth and the last two candidates"
    assert load_points(run) == [new]


def test_replay_sees_the_sources_that_are_translated_blank_lines_left_out_and_long_ones_cut(
    trained: Run, tmp_path: Path
) -> None:
    translator = Translator.load(trained.folder)
    sources = ["hund", "", "und katze" * MAX_LENGTH, " \t", "der hund läuft", "hund" + " katze" * (MAX_LENGTH - 1)]
    text = ValidationText("valid", "12-34", sources, [source.upper() for source in sources])
    pairs = DecodedPoints(translator, trained, text, GREEDY, quiet).pairs(text.references)
    read = [translation.source_length for translation in translator.translate(sources, beam=1) if translation.tokens]
    lengths, outputs = pairs.lengths(0, len(pairs))
    assert (lengths + 1).tolist() == read == [read[0], MAX_LENGTH + 1, read[2], MAX_LENGTH + 1]
    assert outputs.max() + 1 == MAX_LENGTH, "as many positions as an output may have"
    assert pairs.target(2).tolist() == translator.target_tokenizer.encode("DER HUND LÄUFT")[: MAX_LENGTH - 1]


def test_blank_lines_change_no_point(trained: Run, held: str, tmp_path: Path) -> None:
    sides = [Path(f"{held}.{language}").read_text(encoding="utf-8").splitlines() for language in ("de", "en")]
    plain = list(zip(*sides, strict=True))
    found = []
    for name, pairs in (("plain", plain), ("blank", [plain[0], ("", ""), *plain[1:], (" \t", "")])):
        folder = shutil.copytree(trained.folder, tmp_path / f"run-{name}")
        found.append(tune_run(folder, write_pairs(tmp_path / name, pairs), None, BRIEF, say=quiet).points)
    assert found[0] == found[1]


def test_a_damaged_file_of_points_is_told_before_anything_is_decoded(run: Run, held: str, counted: list[str]) -> None:
    run.points_file.write_text("{", encoding="utf-8")
    with pytest.raises(RunError, match=r"operating_points.json was not written by this run"):
        tune_run(run.folder, held, None, BRIEF, say=quiet)
    assert counted == []


def test_points_of_one_policy_leave_those_of_another(run: Run, held: str) -> None:
    settings = TuneSettings(objective="average-exit", method="decode", candidates=2, decoding=GREEDY)
    found = [
        tune_run(run.folder, held, policy, settings, say=quiet) for policy in ("geometric", "similarity", "margin")
    ]
    assert load_points(run) == found


def test_a_tuning_tells_what_it_does(run: Run, held: str) -> None:
    told: list[str] = []
    found = tune_run(run.folder, held, None, BRIEF, say=told.append)
    assert told[0] == "tuning geometric for average-exit on 7 sentences by replay of 20 candidates"
    assert told[1] == f"full depth: BLEU {found.full_depth_bleu:.2f}"
    numbers = r"[0-9.]+-[0-9.]+"
    replayed = re.fullmatch(
        rf"replayed 20 candidates \(AE {numbers}, FLOPs {numbers} of full depth\); decoding the (\d+) most promising",
        told[2],
    )
    assert replayed is not None
    count = int(replayed[1])
    assert [line.split()[0] for line in told[3 : 3 + count]] == [f"{number}/{count}" for number in range(1, count + 1)]
    assert told[3 + count].startswith("rank correlation (Spearman) of what replay expected and what decoding gave: ")
    assert told[4 + count :] == [] or told[4 + count].startswith("decoding ")


def test_one_candidate_has_no_rank(run: Run, held: str) -> None:
    told: list[str] = []
    tune_run(
        run.folder, held, None, TuneSettings(objective="average-exit", candidates=1, decoding=GREEDY), say=told.append
    )
    assert not any("correlation" in line for line in told)
