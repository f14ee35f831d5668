"""Operating points: stored with the run whose weights they were tuned for, and chosen by a wish as
a loop over all points would."""

import json
import random
import signal
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import pytest
import torch
from tiny import exit_code_of, in_own_process, signal_at_write

from anydepth.errors import RunError, UsageError
from anydepth.model.checkpoint import save_tensors
from anydepth.runs.fingerprints import selection_fingerprint
from anydepth.runs.operating_points import (
    OperatingPoint,
    PointSet,
    Wish,
    choose_point,
    kept_points,
    load_points,
    save_points,
)
from anydepth.runs.run import Run
from anydepth.search.decoding import SearchSettings

EARLY = OperatingPoint("geometric:0.2,0.1", 31.5, 1.25, 0.375)
MIDDLE = OperatingPoint("geometric:0.8,0.5", 33.25, 2.0, 0.625)
LATE = OperatingPoint("geometric:0.9,0.9", 34.0, 2.75, 1.0625)
GEOMETRIC = PointSet("geometric", "replay", 300, 4, 5, 0.6, "corpus/valid", "12-34", 7, 34.25, (EARLY, MIDDLE, LATE))
CONFIDENCE = replace(
    GEOMETRIC,
    policy="confidence",
    method="decode",
    points=(OperatingPoint("confidence:0.3", 32.0, 1.5, 0.5), OperatingPoint("confidence:0.9", 34.5, 2.0, 0.875)),
)
SHORTLIST = replace(GEOMETRIC, policy="shortlist:8", points=(OperatingPoint("shortlist:8:0.5", 20.0, 1.0, 0.25),))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run directory of which nothing but the weights is looked at."""
    return with_weights(Run(tmp_path), b"weights")


def with_weights(run: Run, weights: bytes) -> Run:
    """The run with these bytes for weights."""
    run.weights_file.write_bytes(weights)
    run.seal.make()
    return run


def test_what_is_saved_is_loaded(run: Run) -> None:
    save_points(run, GEOMETRIC)
    assert load_points(run) == [GEOMETRIC]
    assert sorted(path.name for path in run.folder.iterdir()) == [
        ".seal.json.lock",
        "model.safetensors",
        "operating_points.json",
        "seal.json",
    ]


def test_points_that_do_not_name_their_engine_are_loaded_as_points_of_float32(run: Run) -> None:
    save_points(run, GEOMETRIC)
    whole = json.loads(run.points_file.read_text(encoding="utf-8"))
    del whole["sets"][0]["engine"]
    run.points_file.write_text(json.dumps(whole), encoding="utf-8")
    run.seal.make()
    (found,) = load_points(run)
    assert found.otherwise(SearchSettings(beam=5, length_penalty=0.6), engine="torch") == ""
    assert found.otherwise(SearchSettings(beam=5, length_penalty=0.6), engine="onnx-int8") == "8-bit products"


@pytest.mark.parametrize(
    ("beam", "length_penalty", "engine", "words"),
    [
        (5, 0.6, "native", ""),
        (1, 0.6, "torch", "beam 1"),
        (5, 1.0, "onnx", "length penalty 1"),
        (5, 0.6, "native-int8", "8-bit products"),
        (1, 0.0, "native-int8", "beam 1, length penalty 0, 8-bit products"),
    ],
)
def test_what_differs_from_the_search_that_measured_the_points_is_reported(
    beam: int, length_penalty: float, engine: str, words: str
) -> None:
    found = replace(GEOMETRIC, engine="native")
    assert found.otherwise(SearchSettings(beam=beam, length_penalty=length_penalty), engine=engine) == words


def test_a_set_takes_the_place_of_that_of_its_policy_and_of_no_other(run: Run) -> None:
    other_size = replace(
        SHORTLIST, policy="shortlist:16", points=(OperatingPoint("shortlist:16:0.5", 20.0, 1.0, 0.25),)
    )
    for found in (GEOMETRIC, CONFIDENCE, SHORTLIST, other_size):
        save_points(run, found)
    assert load_points(run) == [GEOMETRIC, CONFIDENCE, SHORTLIST, other_size]
    again = replace(CONFIDENCE, seed=9, points=CONFIDENCE.points[:1])
    save_points(run, again)
    assert load_points(run) == [GEOMETRIC, SHORTLIST, other_size, again]


def test_points_of_other_weights_are_refused_and_told_to_be_tuned_again(run: Run) -> None:
    save_points(run, GEOMETRIC)
    with_weights(run, b"other weights")
    with pytest.raises(
        RunError,
        match=r"were tuned for other weights than it has now; tune again with `anydepth tune .* --valid PREFIX`",
    ):
        load_points(run)
    with_weights(run, b"weights")
    assert load_points(run) == [GEOMETRIC], "the file was left alone"


def test_points_of_other_weights_do_not_outlive_the_next_tuning(run: Run) -> None:
    save_points(run, GEOMETRIC)
    with_weights(run, b"other weights")
    assert kept_points(run) == []
    save_points(run, CONFIDENCE)
    assert load_points(run) == [CONFIDENCE]


def test_a_run_that_was_never_tuned_says_how_to_tune_it(run: Run) -> None:
    with pytest.raises(RunError, match=r"has no operating points; find some with `anydepth tune .* --valid PREFIX`"):
        load_points(run)
    assert kept_points(run) == []


@pytest.mark.parametrize(
    "damaged",
    [
        *(b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"weights": "x"}', b'{"sets": []}'),
        *(b'{"weights": "x", "sets": [{}]}', b'{"weights": "x", "sets": 3}'),
    ],
    ids=repr,
)
def test_a_damaged_file_is_named_and_never_overwritten(run: Run, damaged: bytes) -> None:
    run.points_file.write_bytes(damaged)
    run.seal.make()
    for use in (load_points, kept_points, lambda run: save_points(run, GEOMETRIC)):
        with pytest.raises(
            RunError,
            match=r"operating_points.json cannot be read as operating points .*; remove it, call `anydepth seal .*` "
            r"and tune again",
        ):
            use(run)
    assert run.points_file.read_bytes() == damaged


def test_a_file_that_is_cut_anywhere_is_never_half_of_it(run: Run) -> None:
    save_points(run, GEOMETRIC)
    whole = run.points_file.read_bytes().rstrip()
    for length in range(0, len(whole), 37):
        run.points_file.write_bytes(whole[:length])
        with pytest.raises(RunError, match=r"operating_points.json is not as the run wrote it"):
            load_points(run)


# The points are flushed, the seal is flushed and renamed to list them too, the points are renamed,
# the seal once more.
RENAMED = 4


def save_and_be_killed(folder: Path, write: int) -> None:
    """The body of a process that is killed just before the given flush or rename."""
    signal_at_write(signal.SIGKILL, write)
    save_points(Run(folder), CONFIDENCE)


def test_a_kill_leaves_the_old_points_or_the_new_ones(run: Run) -> None:
    save_points(run, GEOMETRIC)
    codes = []
    for write in range(1, 8):
        codes.append(exit_code_of(in_own_process(save_and_be_killed, run.folder, write)))
        assert load_points(run) == ([GEOMETRIC] if write <= RENAMED else [GEOMETRIC, CONFIDENCE])
    assert codes == [*[-signal.SIGKILL] * 6, 0]


# Numbers on a grid that binary fractions hold exactly, so that a limit is often met to the digit.


def random_sets(randomness: random.Random) -> list[PointSet]:
    """Two sets of some points with their own BLEU at full depth."""
    sets = []
    for policy in ("geometric", "confidence"):
        points = [
            OperatingPoint(
                f"{policy}:{number}",
                randomness.randint(80, 100) / 4,
                randomness.randint(8, 24) / 8,
                randomness.randint(3, 18) / 16,
            )
            for number in range(randomness.randint(1, 5))
        ]
        sets.append(
            replace(GEOMETRIC, policy=policy, full_depth_bleu=randomness.randint(90, 100) / 4, points=tuple(points))
        )
    return sets


def meets(point: OperatingPoint, full_depth_bleu: float, wish: Wish) -> bool:
    return (
        (wish.average_exit is None or point.average_exit <= wish.average_exit)
        and (wish.flops is None or point.flops_share <= wish.flops)
        and (wish.bleu_drop is None or point.bleu >= full_depth_bleu - wish.bleu_drop)
    )


def test_a_wish_gets_the_point_that_a_loop_over_all_points_finds() -> None:
    randomness, met, refused = random.Random(1), 0, 0
    for _ in range(60):
        sets = random_sets(randomness)
        limits = (randomness.randint(8, 24) / 8, randomness.randint(3, 16) / 16, randomness.randint(0, 12) / 4)
        for chosen in product((True, False), repeat=3):
            if not any(chosen):
                continue
            wish = Wish(*(limit if is_set else None for limit, is_set in zip(limits, chosen, strict=True)))
            for policy in (None, "confidence"):
                fitting = [
                    point
                    for each in sets
                    if policy in (None, each.policy)
                    for point in each.points
                    if meets(point, each.full_depth_bleu, wish)
                ]
                if not fitting:
                    with pytest.raises(
                        UsageError, match=f"no operating point meets {wish.describe()}; the nearest is "
                    ):
                        choose_point(sets, wish, policy=policy)
                    refused += 1
                    continue
                found, own_set = choose_point(sets, wish, policy=policy)
                assert found in own_set.points
                assert found in fitting
                for other in fitting:
                    if chosen == (False, False, True):  # the cheapest
                        assert (found.flops_share, -found.bleu) <= (other.flops_share, -other.bleu)
                    else:  # the best
                        assert (found.bleu, -found.flops_share) >= (other.bleu, -other.flops_share)
                met += 1
    assert met > 100 and refused > 100


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (Wish(average_exit=2.0), CONFIDENCE.points[1]),
        (Wish(average_exit=1.99), CONFIDENCE.points[0]),
        (Wish(flops=0.625), MIDDLE),
        (Wish(flops=0.4), EARLY),
        (Wish(bleu_drop=1.0), MIDDLE),
        (Wish(bleu_drop=0.25), CONFIDENCE.points[1]),
        (Wish(bleu_drop=50.0), EARLY),
        (Wish(average_exit=2.0, flops=0.7), MIDDLE),
        (Wish(average_exit=3.0, bleu_drop=0.0), CONFIDENCE.points[1]),
        (Wish(average_exit=99.0), CONFIDENCE.points[1]),
    ],
    ids=lambda value: value.describe() if isinstance(value, Wish) else "",
)
def test_limits_are_met_to_the_digit_and_wishes_combine(wish: Wish, expected: OperatingPoint) -> None:
    assert choose_point([GEOMETRIC, CONFIDENCE], wish)[0] == expected


@pytest.mark.parametrize(
    ("wish", "nearest"),
    [
        (Wish(average_exit=1.125), EARLY),
        (Wish(flops=0.1), EARLY),
        (Wish(bleu_drop=0.0), LATE),
        (Wish(average_exit=1.75, bleu_drop=0.5), MIDDLE),
    ],
    ids=lambda value: value.describe() if isinstance(value, Wish) else "",
)
def test_a_wish_that_no_point_meets_is_refused_and_the_nearest_named(wish: Wish, nearest: OperatingPoint) -> None:
    with pytest.raises(UsageError) as refusal:
        choose_point([GEOMETRIC], wish)
    assert str(refusal.value) == f"no operating point meets {wish.describe()}; the nearest is {nearest.describe()}"


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"average_exit": 0.9}, "--average-exit 0.9: no token leaves before block 1; ask for 1 or more"),
        ({"average_exit": float("nan")}, "--average-exit nan"),
        ({"flops": 0.0}, "--flops 0 is a share of the FLOPs of full depth; ask for one between 0 and 1, as in 0.4"),
        ({"flops": 40.0}, "--flops 40 is a share"),
        ({"flops": float("nan")}, "--flops nan"),
        ({"bleu_drop": -0.1}, "--bleu-drop -0.1 must not be negative; 0 asks for the BLEU of full depth"),
        ({"bleu_drop": float("nan")}, "--bleu-drop nan"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(wish: dict[str, float], words: str) -> None:
    with pytest.raises(UsageError) as refusal:
        Wish(**wish)
    assert str(refusal.value).startswith(words)


def test_a_family_is_named_alone_or_with_the_size_of_its_shortlist() -> None:
    sets, wish = [GEOMETRIC, CONFIDENCE, SHORTLIST], Wish(average_exit=3.0)
    assert choose_point(sets, wish, policy="geometric") == (LATE, GEOMETRIC)
    assert (
        choose_point(sets, wish, policy="shortlist:8")
        == choose_point(sets, wish, policy="shortlist")
        == (SHORTLIST.points[0], SHORTLIST)
    )


@pytest.mark.parametrize("policy", ["margin", "shortlist:9", "fixed:3", "geometric:0.5", "confidence:0.9"])
def test_a_policy_without_points_is_refused_and_those_with_points_are_named(policy: str) -> None:
    with pytest.raises(
        UsageError,
        match=f"there are no operating points of {policy}, only of geometric, confidence, shortlist:8; .*tune",
    ):
        choose_point([GEOMETRIC, CONFIDENCE, SHORTLIST], Wish(average_exit=3.0), policy=policy)


def test_a_wish_is_described_in_the_words_of_the_command_line() -> None:
    assert Wish(2.5, 0.4, 0.0).describe() == "--average-exit 2.5 --flops 0.4 --bleu-drop 0"
    assert not Wish(bleu_drop=0.0).is_empty and Wish().is_empty, "zero is a wish, too"
    assert EARLY.describe() == "geometric:0.2,0.1 (BLEU 31.50, AE 1.25, 38% of the FLOPs)"


def test_the_file_is_json_that_people_can_read(run: Run) -> None:
    save_points(run, GEOMETRIC)
    stored = json.loads(run.points_file.read_text(encoding="utf-8"))
    assert stored["sets"] == [json.loads(json.dumps(asdict(GEOMETRIC)))]
    assert run.points_file.read_text(encoding="utf-8").endswith("\n")


def test_points_of_another_word_selection_than_the_run_has_are_not_used(run: Run) -> None:
    own = replace(GEOMETRIC, vocabulary="table:20", selection="0123456789abcdef")
    save_points(run, own)
    assert kept_points(run) == []
    with pytest.raises(RunError, match=r"were tuned with another word selection than it has now; tune again"):
        load_points(run)
    save_tensors(run.table_file, {"words": torch.arange(3)}, {"a": "1", "b": "2"})
    present = replace(own, selection=selection_fingerprint(run, "table:20"))
    assert len(present.selection) == 16 and selection_fingerprint(run, "full") == ""
    save_points(run, present)
    assert load_points(run) == kept_points(run) == [present]
    save_tensors(run.table_file, {"words": torch.arange(3)}, {"b": "2", "a": "1"})
    assert kept_points(run) == [present], "the same words, whatever the bytes of the file"
    save_tensors(run.table_file, {"words": torch.arange(4)})
    assert kept_points(run) == []
