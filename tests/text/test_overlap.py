"""Pairs that are in the training text, against a loop over all pairs of lines."""

from pathlib import Path

import pytest
from tiny import prepare_tiny

from anydepth.text import overlap
from anydepth.text.overlap import pairs_in, pairs_seen_in_training
from anydepth.text.prepare import PrepareSettings, prepare
from anydepth.text.prepared import PreparedData


@pytest.fixture(scope="module", params=[False, True], ids=["separate", "joint"])
def data(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    return prepare_tiny(tmp_path_factory.mktemp("text"), joint=request.param)


def training_pairs(data: PreparedData) -> list[tuple[str, str]]:
    folder = data.folder.parent
    sides = [(folder / f"train.{language}").read_text(encoding="utf-8").splitlines() for language in ("de", "en")]
    return list(zip(*sides, strict=True))


def test_pairs_of_the_training_text_are_found_where_they_stand(data: PreparedData) -> None:
    train = training_pairs(data)
    new = ("heute heute heute und", "today today today and")
    assert pairs_seen_in_training(data, [new, train[3], new, train[39], train[3], train[0]]) == [1, 3, 4, 5]


def test_every_pair_of_the_training_text_is_found(data: PreparedData) -> None:
    train = training_pairs(data)
    assert pairs_seen_in_training(data, train) == list(range(len(train)))


def test_a_pair_that_shares_only_one_side_is_not_found(data: PreparedData) -> None:
    train = training_pairs(data)
    (source, target), (other_source, other_target) = next(
        (one, other)
        for one in train
        for other in train
        if one[0] != other[0] and len(one[0].split()) == len(other[0].split())
    )
    mixed = [(source, other_target), (other_source, target), (target, source), (source, ""), ("", target), ("", "")]
    assert pairs_seen_in_training(data, mixed) == []
    assert pairs_seen_in_training(data, [*mixed, (source, target)]) == [len(mixed)]


def test_a_text_that_goes_on_or_is_spelled_otherwise_is_another(data: PreparedData) -> None:
    source, target = training_pairs(data)[0]
    others = [
        (f"{source} und", f"{target} and"),
        (source.upper(), target.upper()),
        (f"{source}.", f"{target}."),
        (source, f"{target} "),
    ]
    assert pairs_seen_in_training(data, others) == []


def test_nothing_to_look_for_is_not_found(data: PreparedData) -> None:
    assert pairs_seen_in_training(data, []) == []


@pytest.mark.parametrize("size", [1, 7, 40])
def test_the_training_text_is_read_alike_in_chunks_of_any_size(
    data: PreparedData, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(overlap, "CHUNK", size)
    train = training_pairs(data)
    assert pairs_seen_in_training(data, [*train[36:], ("neu", "new"), *train[:3]]) == [0, 1, 2, 3, 5, 6, 7]


def test_validation_pairs_are_what_a_loop_over_lines_finds(data: PreparedData, tmp_path: Path) -> None:
    train, valid = training_pairs(data), list(zip(*data.references("valid"), strict=True))
    mixed = [valid[0], train[5], valid[1], (train[7][0], valid[2][1]), train[39], *valid[2:], train[5]]
    for language, lines in zip(("de", "en"), zip(*mixed, strict=True), strict=True):
        (tmp_path / f"valid.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    text = str(data.folder.parent / "train")
    prepare(
        PrepareSettings(
            source_lang="de",
            target_lang="en",
            train=text,
            valid=str(tmp_path / "valid"),
            joint=data.is_joint,
            tokenizer_from=str(data.folder),
        ),
        tmp_path / "data",
    )
    own = PreparedData.open(tmp_path / "data")
    expected = [number for number, pair in enumerate(mixed) if pair in train]
    assert len(expected) == 3
    assert pairs_seen_in_training(own, list(zip(*own.references("valid"), strict=True))) == expected


def test_pairs_of_two_texts_are_found_by_both_sides() -> None:
    pairs = [("a", "x"), ("b", "y"), ("a", "y"), ("b", "y")]
    assert pairs_in(pairs, [("b", "y"), ("a", "z"), ("x", "a")]) == [1, 3]
    assert pairs_in(pairs, []) == pairs_in([], pairs) == []
