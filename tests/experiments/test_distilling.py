"""Text that a trained run translated: what the run says, also where the translating was killed."""

from pathlib import Path
from typing import Any

import pytest

from anydepth.bulk import shard_work
from anydepth.bulk.shard_work import ShardWorker
from anydepth.errors import AnydepthError, Interrupted
from anydepth.experiments import distilling
from anydepth.experiments.distilling import distilled_data, training_lines
from anydepth.inference.translator import Translator
from anydepth.text.prepared import PreparedData

SAMPLES = Path(__file__).parents[1] / "samples"
TEACHER = SAMPLES / "runs" / "aligned"
DATA = PreparedData.open(SAMPLES / "data" / "joint")


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Parts of a third of the sentences, and the names of those that were translated."""
    monkeypatch.setattr(distilling, "PART", -(-len(training_lines(DATA)[0]) // 3))
    done, do = list[str](), ShardWorker.do

    def noted(worker: ShardWorker, shard: Any) -> Any:
        done.append(shard.name)
        return do(worker, shard)

    monkeypatch.setattr(ShardWorker, "do", noted)
    return done


def text_at(to: Path) -> list[str]:
    text = (to.with_name(f"{to.name}.text") / f"train.{DATA.target_lang}").read_text(encoding="utf-8")
    return text.removesuffix("\n").split("\n")


def test_killed_or_not_the_targets_are_what_the_teacher_says_and_no_part_is_translated_twice(
    tmp_path: Path, small_parts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    searches = iter([Translator.translate_lines])

    def interrupted_later(*given: Any) -> Any:
        if (search := next(searches, None)) is None:
            raise Interrupted("stopped")
        return search(*given)

    with monkeypatch.context() as patch:
        patch.setattr(Translator, "translate_lines", interrupted_later)
        with pytest.raises(Interrupted):
            distilled_data(TEACHER, DATA, tmp_path / "text", say=said.append)
    assert len(small_parts) == 2
    distilled_data(TEACHER, DATA, tmp_path / "text", say=said.append)
    assert len(small_parts) == 4  # the second part once more, and the third
    assert len(set(small_parts)) == 3
    translated = Translator.load(TEACHER).translate(training_lines(DATA)[0])
    assert text_at(tmp_path / "text") == [each.line for each in translated]
    assert not any(each.is_dir() for each in (tmp_path / "text.text").iterdir())
    assert "1 shards are done already; going on with the rest" in said


def test_what_another_teacher_had_begun_is_thrown_away(tmp_path: Path, small_parts: list[str]) -> None:
    begun = tmp_path / "text.text" / "translating-0123456789abcdef"
    begun.mkdir(parents=True)
    distilled_data(TEACHER, DATA, tmp_path / "text", say=lambda line: None)
    assert not begun.exists()


def test_a_sentence_that_cannot_be_translated_is_named(
    tmp_path: Path, small_parts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = training_lines(DATA)[0][0]

    def without_first(translator: Translator, lines: list[str], *more: Any) -> Any:
        found = [None if line == given else each for line, each in zip(lines, translator.translate(lines), strict=True)]
        return found, {given: "no such luck"} if given in lines else {}

    monkeypatch.setattr(shard_work, "patiently_translated", without_first)
    with pytest.raises(AnydepthError, match=r"train\.\w+ line 1 could not be translated by .*aligned: no such luck"):
        distilled_data(TEACHER, DATA, tmp_path / "text", say=lambda line: None)
