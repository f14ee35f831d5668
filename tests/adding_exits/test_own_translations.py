"""A model's own translations: made in parts that are not made again, as many as the time allows."""

import itertools
from pathlib import Path

import pytest
from marian_folders import save_marian, small_pairs

from anydepth.adding_exits import own_translations
from anydepth.adding_exits.budget import AdoptionBudget
from anydepth.adding_exits.own_translations import FEWEST_PAIRS, stored_part, translate_within
from anydepth.errors import AdoptionError
from anydepth.inference.adopt.adoption import adopt
from anydepth.inference.translator import Translator
from anydepth.messages.say import say_nothing
from anydepth.runs.run import Run

LINES = list(dict.fromkeys(german for german, _ in small_pairs(2000)))
HOUR = AdoptionBudget(60)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("original")
    save_marian(place / "opus", search={"num_beams": 1, "max_length": 12})
    return adopt(place / "opus", place / "run", say=say_nothing)


def test_parts_are_what_full_depth_says_and_are_not_made_again(original: Run, tmp_path: Path) -> None:
    found = translate_within(original, LINES, tmp_path, HOUR, say=say_nothing, clock=lambda: 0.0)
    expected = Translator.load(original.folder).translate(found.sources[:40], vocabulary="full")
    assert found.targets[:40] == [each.line for each in expected]
    assert set(found.sources) <= set(LINES) and len(found.sources) > FEWEST_PAIRS
    first, second, *others = sorted(tmp_path.iterdir())
    assert len(others) > 1
    assert stored_part(first) is not None
    before = first.stat().st_mtime_ns
    second.write_text(second.read_text(encoding="utf-8").replace("e", "a"), encoding="utf-8")
    assert translate_within(original, LINES, tmp_path, HOUR, say=say_nothing, clock=lambda: 0.0) == found
    assert first.stat().st_mtime_ns == before, "a damaged part is made again, and a whole one is not"


def test_lines_that_do_not_fit_the_time_are_left_out_and_that_is_said(
    original: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_translations, "PART", 1000)
    ticks, said = itertools.count(step=2000.0), list[str]()
    found = translate_within(original, LINES, tmp_path, HOUR, say=said.append, clock=lambda: next(ticks))
    assert FEWEST_PAIRS < len(found.sources) <= 1000
    assert said[-1] == f"--minutes 60 has time for 1,000 of the {len(LINES):,} lines; the rest is left out"


def test_too_little_time_or_too_few_lines_that_can_be_used_are_refused(
    original: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_translations, "PART", 40)
    ticks = itertools.count(step=60.0)
    with pytest.raises(
        AdoptionError,
        match=r"--minutes 0.5 is enough to translate \d+ lines, .* at least 500; give --minutes \d+ or more",
    ):
        translate_within(
            original, LINES, tmp_path / "a", AdoptionBudget(0.5), say=say_nothing, clock=lambda: next(ticks)
        )
    long = [" ".join(LINES[:30]) + f" {number}" for number in range(80)]
    with pytest.raises(AdoptionError, match=r"0 of 80 lines could be used, .*: the others are too long for the model"):
        translate_within(original, long, tmp_path / "b", HOUR, say=say_nothing, clock=lambda: 0.0)
