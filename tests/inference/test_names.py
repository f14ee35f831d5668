"""The names of engines that the command line shows without torch are those that there are."""

import pytest
from tiny import tiny_model

from anydepth.errors import UsageError
from anydepth.inference.engines.choice import ENGINES
from anydepth.inference.engines.names import AUTOMATIC, ENGINE_NOTES, INT8_ENGINES, enumerated, noted_engine


def test_the_named_engines_are_those_that_there_are_in_the_order_of_automatic_choice() -> None:
    assert [*ENGINE_NOTES] == [*ENGINES]
    assert AUTOMATIC not in ENGINES


def test_the_engines_that_are_not_named_for_8_bit_products_refuse_them() -> None:
    assert [name for name in ENGINES if name in INT8_ENGINES] == [*INT8_ENGINES]
    for name in ENGINES.keys() - set(INT8_ENGINES):
        assert not ENGINES[name].is_at_hand(int8=True, blocks=1, run=None)
        with pytest.raises(UsageError, match=f"the {name} engine has no 8-bit products"):
            ENGINES[name].make(tiny_model(), int8=True, threads=1, run=None)


def test_names_stand_in_a_sentence_and_notes_behind_them() -> None:
    assert [enumerated("abc"[:count], "or") for count in (1, 2, 3)] == ["a", "a or b", "a, b or c"]
    assert [noted_engine(name) for name in ("torch", "onnx")] == ["torch", "onnx (after `anydepth export`)"]
