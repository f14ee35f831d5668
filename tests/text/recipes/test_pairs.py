from collections.abc import Iterator
from pathlib import Path

import pytest

from anydepth.errors import AnydepthError, CorpusError
from anydepth.text.recipes import pairs as pairs_module
from anydepth.text.recipes.moses import PairTokenizer
from anydepth.text.recipes.pairs import Pair, in_step, tokenized, with_progress

GERMAN_ENGLISH = PairTokenizer(("de", "en"))


class Counted:
    """Endless pairs, with how many have been drawn."""

    drawn = 0

    def __iter__(self) -> Iterator[Pair]:
        while True:
            self.drawn += 1
            yield f"Satz {self.drawn}.", f"Sentence {self.drawn}."


def test_lines_come_in_step_and_one_at_a_time() -> None:
    source, target = Counted(), Counted()
    stream = in_step((pair[0] for pair in source), (pair[1] for pair in target), ("s", "t"))
    assert [next(stream), next(stream)] == [("Satz 1.", "Sentence 1."), ("Satz 2.", "Sentence 2.")]
    assert (source.drawn, target.drawn) == (2, 2)


@pytest.mark.parametrize("source, target", [(2, 5), (1200, 1)])
def test_sides_of_different_length_are_refused_with_both_numbers(source: int, target: int) -> None:
    with pytest.raises(
        CorpusError, match=rf"a\.de has {source:,} sentences but a\.en has {target:,}; each must translate"
    ):
        list(in_step(["x"] * source, ["y"] * target, ("a.de", "a.en")))


def test_progress_is_reported_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs_module, "PAIRS_BETWEEN_REPORTS", 2)
    reports: list[str] = []
    assert list(with_progress([("a", "b")] * 5, "train", reports.append)) == [("a", "b")] * 5
    assert [line.partition(",")[0] for line in reports] == ["train: 2 pairs", "train: 4 pairs"]
    assert all(line.endswith(" pairs/s") for line in reports)


def test_one_process_never_reads_ahead() -> None:
    endless = Counted()
    stream = tokenized(endless, GERMAN_ENGLISH)
    for number in range(1, 50):
        assert next(stream) == (f"Satz {number} .", f"Sentence {number} .")
        assert endless.drawn == number


def test_several_processes_keep_the_order_and_read_ahead_by_a_bounded_number_of_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairs_module, "PAIRS_AT_ONCE", 3)
    endless = Counted()
    stream = tokenized(endless, GERMAN_ENGLISH, jobs=2)
    for number in range(1, 100):
        assert next(stream) == (f"Satz {number} .", f"Sentence {number} .")
        assert endless.drawn <= number + 3 * (2 * 2 + 1)
    stream.close()


def test_a_worker_that_dies_ends_the_work_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sacremoses.py").write_text("import os\nos._exit(9)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        AnydepthError, match="a process that makes tokens has died, perhaps for want of memory; try fewer --jobs"
    ):
        next(tokenized(Counted(), GERMAN_ENGLISH, jobs=2))
